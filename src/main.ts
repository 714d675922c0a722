/** @module The process: its arguments, its exit code. */

import { runCommandLine } from '#app/cli/program.ts'
import { addBenchCommand } from '#bench/command.ts'

// Whoever reads the output may have seen enough, as `head` does; what is left of it is for nobody, and the command ends as it would.
process.stdout.on('error', () => undefined)

// What is written holds mail and keys: for this user only.
process.umask(0o077)

const exitCode = await runCommandLine(process.argv.slice(2), addBenchCommand)
// A pipe takes 64 KiB at once; the rest must be out before the end.
await new Promise<void>((resolve) => process.stdout.end(() => resolve()))
process.exit(exitCode)
