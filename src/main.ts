/** @module The entry point of the process: its arguments and exit code. */

import { runCommandLine } from '#app/cli/program.ts'
import { addBenchCommand } from '#bench/sending.ts'

// A reader such as `head` may close the pipe early; the command still ends normally.
process.stdout.on('error', () => undefined)

// Files hold mail and keys, so only this user may read them.
process.umask(0o077)

const exitCode = await runCommandLine(process.argv.slice(2), addBenchCommand)
// A pipe buffers 64 KiB; the rest must be written before the process exits.
await new Promise<void>((resolve) => process.stdout.end(() => resolve()))
process.exit(exitCode)
