/**
 * @module The command line: every command, and how one ends. Exit codes: 0 done; 1 refused, failed or not as it should be; 2 wrong usage, a wrong
 * setting or a data directory that cannot be had. Whatever fails is told in one sentence on standard error.
 */
import { Command, CommanderError } from 'commander'
import { ConfigError } from '#platform/config.ts'
import { AppError } from '#platform/errors.ts'
import { addPriority, isJournal } from '#platform/journal.ts'
import { toStorageError } from '#platform/storage-errors.ts'
import { InUseError } from '../create.ts'
import { formatVersion } from '../version.ts'
import { addPauseCommands } from './abuse.ts'
import { addAccountCommands } from './accounts.ts'
import { CommandError } from './admin-command.ts'
import { addAuditCommands } from './audit.ts'
import { addBulkCommands } from './bulk-operations.ts'
import { addCheckCommand } from './check.ts'
import { addComplaintsCommand } from './complaints.ts'
import { addConfigCommand } from './config.ts'
import { addAccountDeletionCommands } from './delete-account.ts'
import { addDiskCommand } from './disk.ts'
import { addDomainCommands } from './domains.ts'
import { addEmailCommands } from './emails.ts'
import { addHealthCommand } from './health.ts'
import { addInboundCommands } from './inbound.ts'
import { addKeyCommands } from './keys.ts'
import { addListsCommand } from './lists.ts'
import { addMailCommands } from './mail.ts'
import { print, toPrintable } from './output.ts'
import { addPlanCommand } from './plan.ts'
import { addQueueCommand } from './queue.ts'
import { addReportCommands } from './reports.ts'
import { addRetentionCommands } from './retention.ts'
import { addSendCommand } from './send.ts'
import { addServeCommand } from './serve.ts'
import { addStartCommand } from './start.ts'
import { addSuppressionCommands } from './suppressions.ts'
import { addUserCommands } from './users.ts'
import { addWebhookCommands } from './webhooks.ts'

const USAGE_EXIT_CODE = 2

/**
 * @param args of which the first names the command, for advice
 * @param addBenchCommand the benchmark stands outside of `app`, which it measures
 */
export function createProgram(args: readonly string[], addBenchCommand: (program: Command) => void): Command {
  const program = new Command('tassis')
    .description('Transactional email service. Settings are TASSIS_* variables; `tassis config` lists them.')
    // Before commands are added: they inherit it.
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({
      outputError: (text, write) => {
        const message = simplifyError(text, program, args)
        write(toErrorOutput(`tassis: ${message.replace(/^error: /, '')}${formatAdvice(message, program, args)}`))
      },
    })
    .option('-V, --version', 'print the version and the commit that it was made from')
    .on('option:version', () => {
      print(formatVersion())
      throw new CommanderError(0, 'commander.version', '')
    })
  addServeCommand(program)
  const accounts = addAccountCommands(program)
  addPauseCommands(accounts)
  addPlanCommand(accounts)
  addAccountDeletionCommands(accounts)
  addKeyCommands(program)
  addUserCommands(program)
  addDomainCommands(program)
  addSendCommand(program)
  addEmailCommands(program)
  addQueueCommand(program)
  addBulkCommands(program)
  addListsCommand(program)
  addSuppressionCommands(program)
  addWebhookCommands(program)
  addComplaintsCommand(program)
  addInboundCommands(program)
  addMailCommands(program)
  addReportCommands(program)
  addAuditCommands(program)
  addDiskCommand(program)
  addRetentionCommands(program)
  addCheckCommand(program)
  addConfigCommand(program)
  addHealthCommand(program)
  addBenchCommand(program)
  addStartCommand(program)
  program
    .command('version')
    .description('print the version and the commit that it was made from')
    .action(() => print(formatVersion()))
  return program
}

/** A line that says where to look up what was missing or unknown; empty where there is nothing to say. */
function formatAdvice(error: string, program: Command, [name]: readonly string[]): string {
  const command = program.commands.find((known) => known.name() === name)
  if (/unknown command/.test(error))
    return command && command.commands.length > 0
      ? `\`tassis ${name} --help\` lists its commands.\n`
      : '`tassis --help` lists all commands.\n'
  const hasList = command?.commands.some((known) => known.name() === 'list')
  return hasList && /missing required argument '(id|key|domain)'/.test(error)
    ? `\`tassis ${name} list\` shows what there is.\n`
    : ''
}

/** An error of a command that has no commands of its own, and was given one. */
function simplifyError(error: string, program: Command, [name, subcommand]: readonly string[]): string {
  const command = program.commands.find((known) => known.name() === name)
  const isUnknownSubcommand = command?.commands.length === 0 && subcommand !== undefined && !subcommand.startsWith('-')
  return isUnknownSubcommand && /too many arguments for .{0,200} Expected 0 arguments/.test(error)
    ? `error: unknown command '${name} ${subcommand}'\n(Did you mean ${name}?)\n`
    : error
}

/** Throws what an unknown command of a group throws, also of a group that does something without one: that would take it for an argument. */
function requireKnownCommand(program: Command, [name, subcommand]: readonly string[]): void {
  const group = program.commands.find((known) => known.name() === name)
  if (!group || group.commands.length === 0 || subcommand === undefined || /^-|^help$/.test(subcommand)) return
  if (group.commands.some((known) => known.name() === subcommand)) return
  const names = new Command(group.name()).copyInheritedSettings(program)
  for (const known of group.commands) names.command(known.name())
  names.parse([subcommand], { from: 'user' })
}

/** Runs one command; resolves with its exit code. */
export async function runCommandLine(
  args: readonly string[],
  addBenchCommand: (program: Command) => void,
): Promise<number> {
  try {
    const program = createProgram(args, addBenchCommand)
    requireKnownCommand(program, args)
    await program.parseAsync(args, { from: 'user' })
    return Number(process.exitCode ?? 0)
  } catch (thrown) {
    // Commander has printed its sentence, or the help that was asked for.
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : USAGE_EXIT_CODE
    const error = toStorageError(thrown)
    const { sentence, exitCode } = describeError(error)
    process.stderr.write(toErrorOutput(`tassis: ${sentence}\n`))
    return exitCode
  }
}

/** A service that cannot start says so at the journal's error priority. */
const toErrorOutput = (text: string): string => (isJournal() ? addPriority('error', text) : text)

function describeError(error: unknown): { sentence: string; exitCode: number } {
  // Not the settings are wrong: a supervisor may start it again.
  if (error instanceof InUseError) return { sentence: toPrintable(error.message), exitCode: 1 }
  if (error instanceof ConfigError) return { sentence: toPrintable(error.message), exitCode: USAGE_EXIT_CODE }
  if (error instanceof AppError || error instanceof CommandError)
    return { sentence: toPrintable(error.message), exitCode: 1 }
  // A bug: whoever reports it needs where it was.
  return { sentence: error instanceof Error ? (error.stack ?? error.message) : String(error), exitCode: 1 }
}
