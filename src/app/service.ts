/**
 * @module The whole service: data directory, HTTP, admin socket, delivery, recurring tasks; started and stopped in order. `cli/serve.ts` runs it
 * as a process; tests run it in theirs.
 */
import { isIPv6 } from 'node:net'
import { join } from 'node:path'
import { WebhookDispatcher } from '#features/webhooks/dispatcher.ts'
import { type Config, ConfigError } from '#platform/config.ts'
import { startAdminSocket } from './admin-socket.ts'
import { startBackground } from './background.ts'
import { operations } from './cli/operations.ts'
import {
  type CreateOptions,
  explained,
  type OpenedApp,
  openApp,
  RESTORE,
  type RunningDelivery,
  type RunningInbound,
  startDelivery,
  startInbound,
} from './create.ts'
import { createHttp, listenHttp } from './http.ts'
import { requireOwnAddresses } from './outbound-ips.ts'
import { startSchedules } from './schedules.ts'
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

/** Starts everything, or nothing. Throws ConfigError with one sentence for what its operator has to change. */
export async function startService(config: Config, options: CreateOptions = {}): Promise<Service> {
  requireOwnAddresses(config)
  const opened = openApp(config, options)
  const stops: Stop[] = [() => opened.close()]
  let isStopping = false
  try {
    // First what a wrong setting or another program can prevent, so that nothing has begun to move by then.
    const http = createHttp(opened, { isStopping: () => isStopping })
    const bound = listen(http, config.httpAddr)
    stops.unshift(() => http.stop())
    const inbound = await startInbound(opened)
    stops.unshift(() => inbound.stop())
    let delivery: RunningDelivery | undefined
    const admin = startAdminSocket({
      dataDir: config.dataDir,
      version: VERSION,
      handlers: new Map(
        operations.map(({ name, run }) => [name, (input) => run({ opened, delivery }, input as never)]),
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
    const running = await startDelivery(opened)
    delivery = running
    stops.unshift(() => running.stop())
    const background = startBackground(opened.app)
    stops.unshift(() => background.stop())
    const schedules = startSchedules(opened)

    const stop = async () => {
      isStopping = true
      opened.app.renderer.drain()
      // Together: while the last requests are answered, no new delivery and no new webhook attempt may begin.
      await Promise.all([http.stop(), inbound.stop(), running.stop(), webhooks.stop(), background.stop()])
      await schedules.stop()
      await admin.stop()
      await opened.authenticator.flushLastUsed()
      await opened.close()
    }
    let stopped: Promise<void> | undefined
    return {
      opened,
      delivery: running,
      inbound,
      url: reachableUrl(bound.hostname, bound.port),
      stop() {
        stopped ??= stop()
        return stopped
      },
    }
  } catch (error) {
    for (const stop of stops) await stop()
    // What starts reads more of the database than its opening does.
    throw explained(join(config.dataDir, 'tassis.db'), RESTORE, error)
  }
}

function listen(http: ReturnType<typeof createHttp>, httpAddr: string): { hostname: string; port: number } {
  try {
    return listenHttp(http, httpAddr)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const sentence = LISTEN_FAILURES[code]
    if (sentence === undefined) throw error
    throw new ConfigError(`TASSIS_HTTP_ADDR is "${httpAddr}", ${sentence}.`)
  }
}

const LISTEN_FAILURES: Readonly<Record<string, string>> = {
  EADDRINUSE: 'but another program uses this port; stop that one, or give another port such as 127.0.0.1:8081',
  EADDRNOTAVAIL: 'which is not an address of this machine; give one that is, such as 127.0.0.1:8080',
  EACCES: 'on which this user may not listen; give a port above 1023',
}

/** The address to use from this machine: one that stands for all addresses is reached as loopback. */
function reachableUrl(hostname: string, port: number): string {
  const host = hostname === '0.0.0.0' ? '127.0.0.1' : hostname === '::' ? '::1' : hostname
  return `http://${isIPv6(host) ? `[${host}]` : host}:${port}`
}
