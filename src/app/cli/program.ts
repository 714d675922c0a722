/**
 * @module The command line: registers every command and sets the exit code. 0: done. 1: refused, failed or a check
 * found problems. 2: wrong usage, a wrong setting or an unusable data directory. Errors are one sentence on stderr.
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
import { addCertificateCommands } from './certificates.ts'
import { addCheckCommand } from './check.ts'
import { addComplaintsCommand } from './complaints.ts'
import { addConfigCommand } from './config.ts'
import { addAccountDeletionCommands } from './delete-account.ts'
import { addDiskCommand } from './disk.ts'
import { addDoctorCommand } from './doctor.ts'
import { addDomainCommands } from './domains.ts'
import { addEmailCommands } from './emails.ts'
import { addExplainCommand } from './explain.ts'
import { addHealthCommand } from './health.ts'
import { addInboundCommands } from './inbound.ts'
import { addKeyCommands } from './keys.ts'
import { addListenCommand } from './listen.ts'
import { addListsCommand } from './lists.ts'
import { addMailCommands } from './mail.ts'
import { addMcpCommand } from './mcp.ts'
import { print, toPrintable } from './output.ts'
import { addPlanCommand } from './plan.ts'
import { addProviderCommands } from './providers.ts'
import { addQueueCommand } from './queue.ts'
import { addReportCommands } from './reports.ts'
import { addRetentionCommands } from './retention.ts'
import { addSendCommand } from './send.ts'
import { addServeCommand } from './serve.ts'
import { addStartCommand } from './start.ts'
import { addSuppressionCommands } from './suppressions.ts'
import { addTemplateCommands } from './templates.ts'
import { addUserCommands } from './users.ts'
import { addWebhookCommands } from './webhooks.ts'

const USAGE_EXIT_CODE = 2

/**
 * Creates the program with all commands.
 * @param args used for advice in error messages; the first names the command
 * @param addBenchCommand passed in, because the benchmark imports `app`
 */
export function createProgram(args: readonly string[], addBenchCommand: (program: Command) => void): Command {
  const program = new Command('tassis')
    .description('Transactional email service. Settings are TASSIS_* variables; `tassis config` lists them.')
    // Before commands are added, because they inherit these settings.
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({
      outputError: (text, write) => {
        const message = simplifyError(text, program, args)
        write(toErrorOutput(`tassis: ${message.replace(/^error: /, '')}${formatAdvice(message, program, args)}`))
      },
    })
    .option('-V, --version', 'print the version and the commit it was built from')
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
  addExplainCommand(program)
  addQueueCommand(program)
  addProviderCommands(program)
  addBulkCommands(program)
  addListsCommand(program)
  addSuppressionCommands(program)
  addTemplateCommands(program)
  addWebhookCommands(program)
  addListenCommand(program)
  addComplaintsCommand(program)
  addInboundCommands(program)
  addMailCommands(program)
  addReportCommands(program)
  addCertificateCommands(program)
  addAuditCommands(program)
  addDiskCommand(program)
  addRetentionCommands(program)
  addCheckCommand(program)
  addConfigCommand(program)
  addHealthCommand(program)
  addDoctorCommand(program)
  addMcpCommand(program)
  addBenchCommand(program)
  addStartCommand(program)
  program
    .command('version')
    .description('print the version and the commit it was built from')
    .action(() => print(formatVersion()))
  return program
}

/** Returns a line that names the command to look up what was missing or unknown; empty if there is none. */
function formatAdvice(error: string, program: Command, [name]: readonly string[]): string {
  const command = program.commands.find((known) => known.name() === name)
  if (/unknown command/.test(error))
    return command && command.commands.length > 0
      ? `\`tassis ${name} --help\` lists its commands.\n`
      : '`tassis --help` lists all commands.\n'
  const hasList = command?.commands.some((known) => known.name() === 'list')
  return hasList && /missing required argument '(id|key|domain)'/.test(error)
    ? `\`tassis ${name} list\` shows all.\n`
    : ''
}

/** Simplifies the error for a subcommand given to a command that has no subcommands. */
function simplifyError(error: string, program: Command, [name, subcommand]: readonly string[]): string {
  const command = program.commands.find((known) => known.name() === name)
  const isUnknownSubcommand = command?.commands.length === 0 && subcommand !== undefined && !subcommand.startsWith('-')
  return isUnknownSubcommand && /too many arguments for .{0,200} Expected 0 arguments/.test(error)
    ? `error: unknown command '${name} ${subcommand}'\n(Did you mean ${name}?)\n`
    : error
}

/** Throws commander's error for an unknown subcommand, even if the group would accept it as an argument of its own. */
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
    // Commander has already printed its error or the help.
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : USAGE_EXIT_CODE
    const error = toStorageError(thrown)
    const { sentence, exitCode } = describeError(error)
    process.stderr.write(toErrorOutput(`tassis: ${sentence}\n`))
    return exitCode
  }
}

/** Adds the error priority when the journal reads stderr, so that a failed start is logged as an error. */
const toErrorOutput = (text: string): string => (isJournal() ? addPriority('error', text) : text)

function describeError(error: unknown): { sentence: string; exitCode: number } {
  // Exit code 1, because the settings are right and a supervisor may restart the service.
  if (error instanceof InUseError) return { sentence: toPrintable(error.message), exitCode: 1 }
  if (error instanceof ConfigError) return { sentence: toPrintable(error.message), exitCode: USAGE_EXIT_CODE }
  if (error instanceof AppError || error instanceof CommandError)
    return { sentence: toPrintable(error.message), exitCode: 1 }
  // A bug: the report needs the stack.
  return { sentence: error instanceof Error ? (error.stack ?? error.message) : String(error), exitCode: 1 }
}
