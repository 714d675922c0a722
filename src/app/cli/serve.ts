/** @module `tassis serve`: runs the service as a process until SIGTERM or SIGINT. */
import { isIPv6 } from 'node:net'
import { createSetupLink } from '#features/people/team/setup.ts'
import { giveToOwner } from '#platform/disk/data-owner.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { createLog, type Log } from '#platform/log/log.ts'
import { endProcess } from '#platform/process/end.ts'
import type { LoadedConfig } from '#platform/settings/config.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import type { Member } from '../cluster/member.ts'
import type { Service } from '../service.ts'
import { loadConfig } from '../settings.ts'
import { VERSION } from '../version.ts'
import type { Command } from './command.ts'
import { print } from './output.ts'
import { findStartWarnings } from './setting-warnings.ts'

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description('run the service until SIGTERM or SIGINT; a second signal ends it immediately, with exit code 1')
    .action(async () => {
      const loaded = loadConfig()
      const { config } = loaded
      await runService(loaded, async (service) => {
        const { url, submission, certificates, inbound } = service
        const listeners = [
          ...(certificates.endpoint ? [`, HTTPS at ${formatHostPort(certificates.endpoint)}`] : []),
          ...(inbound.listener ? [`, inbound mail at ${formatHostPort(inbound.listener)}`] : []),
          ...submission.endpoints.map((endpoint) => `, submission at ${formatHostPort(endpoint)}`),
        ]
        announce(
          `Tassis ${VERSION} listens on ${url} (data in ${config.dataDir}, delivery ${config.delivery}${listeners.join('')})`,
        )
        const link = await findSetupLink(service)
        if (link) announce(`There is no user yet. Create the first one in a browser, within one hour: ${link}`)
      })
    })
}

/** Prints a sentence for people at a terminal, and as JSON elsewhere, where programs read each line. */
const announce = (sentence: string): void =>
  process.stdout.isTTY
    ? print(sentence)
    : print(JSON.stringify({ level: 'info', time: isoTime(systemClock.now()), msg: sentence }))

/** A new link of the first start; undefined when none is needed, or none can be created. */
export function findSetupLink({ opened: { app }, url }: Service): Promise<string | undefined> {
  const { publicUrl, httpAddr } = app.config
  // With port 0 and no public URL, only the service knows the port that the system chose.
  const isPortUnknown = publicUrl === `http://${httpAddr}` && parseHostPort(httpAddr)?.port === 0
  return createSetupLink(app, isPortUnknown ? url : publicUrl).catch((error: unknown) => {
    // The commands `accounts create` and `users create` do the same.
    app.log.warn({ err: error }, 'setup link not created')
    return undefined
  })
}

/**
 * Runs the service and resolves when it has stopped. The first signal stops it: no new work starts, and deliveries in
 * flight have 60 s to end. The second signal ends the process immediately, with exit code 1 or, in a cluster, by a kill;
 * the next start settles the interrupted deliveries.
 * @param onStarted called once when the service has started
 */
export async function runService(
  loaded: LoadedConfig,
  onStarted: (service: Service) => void | Promise<void>,
): Promise<void> {
  const end = (): never => endProcess(loaded.config.replicate !== '')
  const signalled = Promise.withResolvers<string>()
  let member: Member | undefined
  let signals = 0
  // The handlers are set before anything starts, so that no signal during the start is lost.
  const starting = new AbortController()
  const onSignal = (signal: string) => {
    if (++signals > 1) end()
    signalled.resolve(signal)
    starting.abort()
    if (member) member.isEnding = true
  }
  process.on('SIGTERM', () => onSignal('SIGTERM')).on('SIGINT', () => onSignal('SIGINT'))
  const { config } = loaded
  let log = createLog(config.logLevel)
  // At the end, also of a start that failed.
  using _owned: Disposable = { [Symbol.dispose]: () => giveToOwner(config.dataDir) }
  using _errors = catchUnexpectedErrors((error) => {
    // Whatever a node that lost the lead rejects may have no handler; its process is about to begin anew.
    if (member?.isLost) return
    // State in memory can no longer be trusted; state on disk can.
    log.fatal({ err: error }, 'unexpected error: stopping the service')
    end()
  })
  if (config.replicate !== '') {
    // The service is loaded meanwhile, so that it starts at once when this node leads.
    const [{ joinCluster }] = await Promise.all([import('../cluster/node.ts'), import('../service.ts')])
    member = await joinCluster(config, log, starting.signal)
    if (!member) return
  }
  // A node that has to wait, for a full disk perhaps, must not keep the lead.
  const ending = member ? AbortSignal.any([starting.signal, AbortSignal.timeout(MAX_WAIT_MS)]) : starting.signal
  const service = await startUnlessEnded(loaded, ending, member, log)
  if (!service && member) {
    if (signals === 0) log.fatal('this node gives up the lead, so that another one can start')
    await member.abandon()
    end()
  }
  if (!service) return
  if (member) {
    member.attach(service.opened)
    member.onStepDown = () => signalled.resolve('step-down')
  }
  log = service.opened.app.log
  for (const warning of findStartWarnings(config)) log.warn(warning)
  log.info({ url: service.url, version: VERSION, delivery: config.delivery }, 'started')
  try {
    await Promise.race([onStarted(service), signalled.promise])
    const signal = await signalled.promise
    log.info({ signal }, 'stopping: waiting for deliveries in flight')
  } finally {
    const stopping = service.stop().then(() => member?.leave())
    await stopping.catch((error: unknown) => {
      if (!member) throw error
      log.fatal({ err: error }, 'not stopped in order; the next start recovers')
      end()
    })
  }
  log.info('stopped')
  if (member && signals === 0) (await import('../cluster/member.ts')).restartProcess()
}

/** How long the start of a leader may wait. A migration may take longer. */
const MAX_WAIT_MS = seconds(30)

/** Handles errors that no code catches, until it is disposed. */
function catchUnexpectedErrors(handle: (error: unknown) => void): Disposable {
  process.on('uncaughtException', handle).on('unhandledRejection', handle)
  return { [Symbol.dispose]: () => void process.off('uncaughtException', handle).off('unhandledRejection', handle) }
}

/** Formats host and port as in a setting, with an IPv6 address in brackets. */
export const formatHostPort = ({ host, port }: { readonly host: string; readonly port: number }): string =>
  `${isIPv6(host) ? `[${host}]` : host}:${port}`

/** Undefined when a signal ended the wait for a start, and when a node of a cluster cannot start. */
async function startUnlessEnded(
  { config, report: settings }: LoadedConfig,
  ending: AbortSignal,
  member: Member | undefined,
  log: Log,
) {
  try {
    // Imported here, because other commands start twice as fast without it.
    const { startService } = await import('../service.ts')
    return await startService(config, { settings, replica: member?.replica, cluster: member }, ending)
  } catch (error) {
    if (ending.aborted && error === ending.reason) return undefined
    if (!member) throw error
    log.fatal({ err: error }, 'this node cannot start, so that another one has to lead')
    return undefined
  }
}
