/**
 * @module The whole service: data directory, HTTP, admin socket, delivery, recurring tasks; started and stopped in order. `cli/serve.ts` runs it
 * as a process; tests run it in theirs.
 */
import { isIPv6 } from 'node:net'
import { join } from 'node:path'
import { WebhookDispatcher } from '#features/webhooks/webhooks/dispatcher.ts'
import { systemClock } from '#platform/clock.ts'
import { type Config, ConfigError } from '#platform/config.ts'
import { createLog } from '#platform/log.ts'
import { startAdminSocket } from './admin-socket.ts'
import { startBackground } from './background.ts'
import { adminCommands } from './cli/admin-commands.ts'
import {
  type CreateOptions,
  InUseError,
  type OpenedApp,
  openApp,
  RESTORE_REMEDY,
  type RunningDelivery,
  type RunningInbound,
  startDelivery,
  startInbound,
  toCorruptionError,
} from './create.ts'
import { createHttp, listenHttp } from './http.ts'
import { requireOwnAddresses } from './outbound-ips.ts'
import { startSchedules } from './schedules.ts'
import { ensureBallast, startWhenPossible } from './start-when-possible.ts'
import { VERSION } from './version.ts'

export interface Service {
  readonly opened: OpenedApp
  readonly delivery: RunningDelivery
  readonly inbound: RunningInbound
  /** Where this machine reaches the HTTP API. */
  readonly url: string
  /**
   * Takes no request any more and begins no delivery; lets running requests and begun deliveries end, the latter for up to 60 s; then closes
   * everything. Asked again it gives the same promise.
   */
  stop(): Promise<void>
}

/** What has to be stopped, the last started first. */
type Stop = () => Promise<void>

/**
 * Starts everything, or nothing. Waits while the disk is full, the database locked or the system out of files. Throws
 * ConfigError with one sentence for what its operator has to change.
 * @param ending ends the waiting; what it rejects with then is the reason
 */
export async function startService(
  config: Config,
  options: CreateOptions = {},
  ending: AbortSignal = new AbortController().signal,
): Promise<Service> {
  requireOwnAddresses(config)
  const log = options.log ?? createLog(config.logLevel)
  const startOptions = { config, clock: options.clock ?? systemClock, log, ending }
  const opened = await startWhenPossible(() => openApp(config, { ...options, log }), startOptions, {
    isListening: false,
  })
  const stops: Stop[] = [() => opened.close()]
  let isStopping = false
  try {
    // First what a wrong setting or another program can prevent, so that nothing has begun to move by then.
    const http = createHttp(opened, { isStopping: () => isStopping })
    const bound = listenOrExplain(http, config.httpAddr)
    stops.unshift(() => http.stop())
    const inbound = await startWhenPossible(() => startInbound(opened), startOptions, { isListening: true })
    stops.unshift(() => inbound.stop())
    let delivery: RunningDelivery | undefined
    const admin = startAdminSocket({
      dataDir: config.dataDir,
      version: VERSION,
      handlers: new Map(
        adminCommands.map(({ name, run }) => [name, (input) => run({ opened, delivery }, input as never)]),
      ),
      maxRequestBytes: config.maxBodyBytes,
      clock: opened.app.clock,
      log: opened.app.log,
    })
    stops.unshift(() => admin.stop())
    // Before delivery, whose recovery writes the first events.
    const webhooks = new WebhookDispatcher(opened.app)
    webhooks.start()
    stops.unshift(() => webhooks.stop())
    inbound.process()
    const startedDelivery = await startWhenPossible(() => startDelivery(opened), startOptions, { isListening: true })
    delivery = startedDelivery
    stops.unshift(() => startedDelivery.stop())
    const background = startBackground(opened.app)
    stops.unshift(() => background.stop())
    const schedules = startSchedules(opened)
    const ballast = ensureBallast(config.dataDir, opened.app.disk).catch((error: unknown) =>
      log.warn({ err: error }, 'the ballast of the disk could not be written'),
    )

    const stop = async () => {
      isStopping = true
      opened.app.renderer.drain()
      // Together: while the last requests are answered, no new delivery and no new webhook attempt may begin.
      await Promise.all([http.stop(), inbound.stop(), startedDelivery.stop(), webhooks.stop(), background.stop()])
      await schedules.stop()
      await ballast
      await admin.stop()
      await opened.authenticator.flushLastUsed()
      await opened.close()
    }
    let stopped: Promise<void> | undefined
    return {
      opened,
      delivery: startedDelivery,
      inbound,
      url: toReachableUrl(bound.hostname, bound.port),
      stop() {
        stopped ??= stop()
        return stopped
      },
    }
  } catch (error) {
    for (const stop of stops) await stop()
    // What starts reads more of the database than its opening does.
    throw toCorruptionError(join(config.dataDir, 'tassis.db'), RESTORE_REMEDY, error)
  }
}

function listenOrExplain(http: ReturnType<typeof createHttp>, httpAddr: string): { hostname: string; port: number } {
  try {
    return listenHttp(http, httpAddr)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const sentence = LISTEN_FAILURES[code]
    if (sentence === undefined) throw error
    const ErrorClass = code === 'EADDRINUSE' ? InUseError : ConfigError
    throw new ErrorClass(`TASSIS_HTTP_ADDR is "${httpAddr}", ${sentence}.`)
  }
}

const LISTEN_FAILURES: Readonly<Record<string, string>> = {
  EADDRINUSE: 'but another program uses this port; stop that one, or give another port such as 127.0.0.1:8081',
  EADDRNOTAVAIL: 'which is not an address of this machine; give one that is, such as 127.0.0.1:8080',
  EACCES: 'on which this user may not listen; give a port above 1023',
}

/** The address to use from this machine: one that stands for all addresses is reached as loopback. */
function toReachableUrl(hostname: string, port: number): string {
  const host = hostname === '0.0.0.0' ? '127.0.0.1' : hostname === '::' ? '::1' : hostname
  return `http://${isIPv6(host) ? `[${host}]` : host}:${port}`
}
