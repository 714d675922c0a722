/**
 * @module The command line: registers every command and sets the exit code. 0: done. 1: refused, failed or a check
 * found problems. 2: wrong usage, a wrong setting or a missing or unusable data directory. Errors are one sentence on
 * stderr.
 */

import { join } from 'node:path'
import { type Command as Commander, CommanderError } from 'commander'
import type { OperatorDoctor } from '#client/operator-api.ts'
import { MCP_PATH } from '#features/drop-in/mcp/routes.ts'
import { serveStdio } from '#features/drop-in/mcp/stdio.ts'
import { SourceNames } from '#features/sending/delivery/providers/outbound-sources.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { toStorageError } from '#platform/disk/storage-errors.ts'
import { AppError, attempt } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { addPriority, createLog, isJournal, redactAddresses } from '#platform/log/log.ts'
import { requireReadable } from '#platform/replication/position.ts'
import { type Config, ConfigError, InUseError } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { createDoctorResolver, failure, listDnsServers } from '../doctor/context.ts'
import { runChecks } from '../doctor/doctor.ts'
import { loadConfig } from '../settings.ts'
import { formatVersion } from '../version.ts'
import { addAccountCommands, addKeyCommands, addUserCommands } from './accounts.ts'
import { callService, findServiceUrl } from './api.ts'
import { addBackupCommand, addRestoreCommand } from './backup.ts'
import { addCheckCommand } from './check.ts'
import { addClusterCommands } from './cluster.ts'
import { Command } from './command.ts'
import { addCertificateCommands, addDomainCommands } from './domains.ts'
import { addDeadLetterCommands, addEmailCommands, addExplainCommand } from './emails.ts'
import { addFenceCommands } from './fence.ts'
import { addPostalImport } from './import/postal.ts'
import { addProviderImports, addTemplateCommands } from './import/providers.ts'
import { addListenCommand } from './listen.ts'
import { addAuditCommands, addConfigCommand, addDiskCommand, addRetentionCommands } from './local.ts'
import { CommandError, parseUrlOption, readKeyFile, UsageError } from './options.ts'
import { formatCount, formatJsonError, type JsonOption, print, printResult, toPrintable } from './output.ts'
import { addOperationCommands, addProviderCommands, addQueueCommand } from './queue.ts'
import { addComplaintsCommand, addInboundCommands, addMailCommands, addReportCommands } from './received.ts'
import { addLogsCommand, addRequestCommand, addSendCommand } from './request.ts'
import { addServeCommand } from './serve.ts'
import { addListsCommand, addPeopleCommands, addSuppressionCommands } from './suppressions.ts'
import { addWebhookCommands } from './webhooks.ts'

const TIMEOUT_MS = 5000

function addHealthCommand(program: Command): void {
  program
    .add('health', 'check whether the running service is ready; exit code 1 if not')
    .action(async (options: JsonOption) => {
      const url = await findServiceUrl(loadConfig().config)
      const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(() => undefined)
      if (!response)
        throw new CommandError(
          `No service answers at ${url} within ${TIMEOUT_MS / 1000} s; start it with \`tassis serve\`, or set TASSIS_HTTP_ADDR to that of the service.`,
          'not_ready',
        )
      const body = (await response.json().catch(() => ({}))) as { readonly message?: string }
      if (!response.ok)
        throw new CommandError(body.message ?? `${url} answers with status ${response.status}.`, 'not_ready')
      // The address, because a service with other data may answer there.
      printResult(options, { ready: true, url }, () => `ready: ${url}`)
    })
}

function addMcpCommand(program: Command): void {
  program
    .command('mcp')
    .description('serve the tools of a service to a language model (MCP) over standard input and output')
    .option('--url <url>', 'address of the service; default: the service on this machine', parseUrlOption)
    .option('--key-file <path>', 'file with the API key; default: TASSIS_API_KEY')
    .action(async ({ url, keyFile }: { readonly url?: string; readonly keyFile?: string }) => {
      const { config } = loadConfig()
      const key = keyFile === undefined ? config.apiKey : readKeyFile(keyFile)
      if (key === '')
        throw new UsageError(
          'Set TASSIS_API_KEY to an API key, or give a file with one by --key-file: it decides which account the model sees, and which tools it gets. On the machine of the service, `tassis keys create --name assistant --scope emails:read --scope domains:read` makes one that can only read; elsewhere, the dashboard does (API keys).',
        )
      await serveStdio({
        endpoint: (url ?? (await findServiceUrl(config))).replace(/(?<!\/)\/+$/, '').replace(/\/mcp$/, '') + MCP_PATH,
        key,
        input: Bun.stdin.stream(),
        write: (message) => process.stdout.write(`${message}\n`),
        fetch,
      })
    })
}

const USAGE_EXIT_CODE = 2

/**
 * Creates the program with all commands.
 * @param args decide about the form of errors; the first names the command
 * @param addBenchCommand passed in, because the benchmark imports `app`; `scripts/start` passes its own command
 */
export function createProgram(args: readonly string[], addBenchCommand: (program: Command) => void): Commander {
  const program = new Command('tassis')
    .description('Transactional email service. Settings are TASSIS_* variables; `tassis config` lists them.')
    // Before commands are added, because they inherit these settings.
    .exitOverride()
    // An option after a subcommand is its own: `queue release --all` must not pass as `queue --all`.
    .enablePositionalOptions()
    .showSuggestionAfterError()
    .configureOutput({
      outputError: (text, write) => {
        const message = `${text.replace(/^error: /, '')}\`tassis --help\`, or --help after a command, shows what there is.\n`
        write(formatError({ message, code: 'wrong_usage' }, args))
      },
    })
    .option('-V, --version', 'print the version and the commit it was built from')
    .on('option:version', () => {
      print(formatVersion())
      throw new CommanderError(0, 'commander.version', '')
    })
  addServeCommand(program)
  addAccountCommands(program)
  addKeyCommands(program)
  addUserCommands(program)
  addDomainCommands(program)
  addSendCommand(program)
  addEmailCommands(program)
  addExplainCommand((...given) => program.add(...given))
  addQueueCommand(program)
  addDeadLetterCommands(program)
  addFenceCommands(program)
  addClusterCommands(program)
  addProviderCommands(program)
  addOperationCommands(program)
  addListsCommand(program)
  addSuppressionCommands(program)
  addPeopleCommands(program)
  addTemplateCommands(program)
  const addImport = program.group('import', 'take over what another mail service has')
  addPostalImport(addImport)
  addProviderImports(addImport)
  addWebhookCommands(program)
  addListenCommand(program)
  addRequestCommand(program)
  addComplaintsCommand(program)
  addInboundCommands(program)
  addMailCommands(program)
  addReportCommands(program)
  addCertificateCommands(program)
  addAuditCommands(program)
  addLogsCommand(program)
  addBackupCommand(program)
  addRestoreCommand(program)
  addDiskCommand(program)
  addRetentionCommands(program)
  addCheckCommand(program)
  addConfigCommand(program)
  addHealthCommand(program)
  addDoctorCommand(program)
  addMcpCommand(program)
  addBenchCommand(program)
  program
    .command('version')
    .description('print the version and the commit it was built from')
    .action(() => print(formatVersion()))
  return program
}

/** Runs one command; resolves with its exit code. */
export async function runCommandLine(
  args: readonly string[],
  addBenchCommand: (program: Command) => void,
): Promise<number> {
  try {
    await createProgram(args, addBenchCommand).parseAsync(args, { from: 'user' })
    return Number(process.exitCode ?? 0)
  } catch (thrown) {
    // Commander has already printed its error or the help.
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : USAGE_EXIT_CODE
    const { exitCode, ...error } = describeError(toStorageError(thrown))
    process.stderr.write(formatError({ ...error, message: `${error.message}\n` }, args))
    return exitCode
  }
}

interface ErrorText {
  /** Ends with a line end. */
  readonly message: string
  /** For programs. */
  readonly code: string
}

/** With `--json` in the arguments, an error is one line of JSON, also of wrong usage. */
const formatError = ({ message, code }: ErrorText, args: readonly string[]): string =>
  isJsonRequested(args)
    ? `${formatJsonError(code, message.trim().replace(/\n+/g, ' '))}\n`
    : toErrorOutput(args, `tassis: ${message}`)

function isJsonRequested(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  return (end === -1 ? args : args.slice(0, end)).includes('--json')
}

/**
 * The error of a command. Where no person sees the service start, it is a line of the log, like all others of the
 * service; with the error priority when the journal reads stderr.
 */
function toErrorOutput([command]: readonly string[], text: string): string {
  const isLogLine = command === 'serve' && !process.stderr.isTTY
  const line = { level: 'error', time: isoTime(systemClock.now()), msg: redactAddresses(text.trim()) }
  const output = isLogLine ? `${JSON.stringify(line)}\n` : text
  return isJournal() ? addPriority('error', output) : output
}

const DISK_FULL =
  'The disk of the data is full, or has less than TASSIS_MIN_FREE_DISK left; nothing was changed. `tassis disk` shows what uses it; free space or use a larger disk.'

function describeError(error: unknown): ErrorText & { readonly exitCode: number } {
  // A bug: the report needs the stack.
  if (!(error instanceof Error)) return { message: String(error), code: 'internal_error', exitCode: 1 }
  const message = toPrintable(error.message)
  // Exit code 1, because the settings are right and a supervisor may restart the service.
  if (error instanceof InUseError) return { message, code: 'data_in_use', exitCode: 1 }
  if (error instanceof ConfigError) return { message, code: 'wrong_configuration', exitCode: USAGE_EXIT_CODE }
  if (error instanceof UsageError) return { message, code: error.code, exitCode: USAGE_EXIT_CODE }
  if (error instanceof AppError || error instanceof CommandError)
    return { message: error.code === 'insufficient_storage' ? DISK_FULL : message, code: error.code, exitCode: 1 }
  return { message: error.stack ?? error.message, code: 'internal_error', exitCode: 1 }
}

/** A service that has not finished its checks by then hangs. */
const SERVICE_TIMEOUT_MS = seconds(30)

function addDoctorCommand(program: Command): void {
  program
    .add('doctor', 'check names, network, machine and service, and say what to mend; exit code 1 if a check failed')
    .option('-a, --all', 'also show what is well or was not checked')
    .action(async (options: JsonOption & { readonly all?: boolean }) => {
      const report = await examine(loadConfig().config)
      printResult(options, { data: report }, ({ data }) => formatDoctor(data, options.all ?? false))
      if (report.findings.some(({ status }) => status === 'failure')) process.exitCode = 1
    })
}

/** Has the service make the checks, with its own settings and rights, or makes them here when none answers. */
async function examine(config: Config): Promise<OperatorDoctor> {
  const reply = await callService(config, (api) => api.operator.runDoctor(), SERVICE_TIMEOUT_MS)
  if (reply.kind === 'ok') return reply.value.data
  const findings = await examineHere(config)
  const problem =
    reply.kind === 'refused'
      ? failure(reply.message, 'Use the program of the same version, or restart the service.')
      : reply.kind === 'silent' &&
        failure('The service does not answer: it is suspended, or its disk hangs.', 'Look at its log, and restart it.')
  return {
    checked_at: isoTime(systemClock.now()),
    findings: findings.map((finding) =>
      problem && finding.check === 'service' ? { ...finding, ...problem } : finding,
    ),
  }
}

async function examineHere(config: Config): Promise<OperatorDoctor['findings']> {
  const clock = systemClock
  const resolver = createDoctorResolver(listDnsServers(config), clock)
  // `tassis check` says why a database cannot be read. A standby changes its own without SQLite.
  const db = attempt(() => {
    requireReadable(config.dataDir)
    return openReadOnly(join(config.dataDir, 'tassis.db'))
  })
  try {
    const sourceNames = new SourceNames({ config, log: createLog('silent'), resolver })
    const { signal } = new AbortController()
    return await runChecks({ config, clock, resolver, sourceNames, service: undefined, db, signal })
  } finally {
    resolver.close()
    db?.close()
  }
}

const MARKS = { failure: 'FAILED ', warning: 'WARNING', ok: 'ok     ', skipped: 'skipped' }

/** The worst comes last, where a terminal shows it. */
function formatDoctor({ findings }: OperatorDoctor, isAll: boolean): string {
  const counts = { ok: 0, skipped: 0, warning: 0, failure: 0 }
  for (const { status } of findings) counts[status]++
  const order = Object.keys(counts)
  const shown = findings
    .filter(({ status }) => isAll || status === 'failure' || status === 'warning')
    .toSorted((a, b) => order.indexOf(a.status) - order.indexOf(b.status))
    .map(
      ({ check, status, message, fix }) => `${MARKS[status]} ${check}: ${message}${fix ? `\n        -> ${fix}` : ''}`,
    )
  const summary = `${formatCount(counts.failure, 'failure')}, ${formatCount(counts.warning, 'warning')}, ${counts.ok} ok, ${counts.skipped} not checked${isAll ? '' : ' (--all shows them)'}.`
  return [...shown, summary].join('\n')
}
