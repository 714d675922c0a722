/** @module The process: its arguments, its exit code. */
import { runCommandLine } from '#app/cli/program.ts'

// Whoever reads the output has seen enough, as `head` does.
process.stdout.on('error', () => process.exit(0))

process.exit(await runCommandLine(process.argv.slice(2)))
