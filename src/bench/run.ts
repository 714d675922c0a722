/** @module One run of the bench against a data directory: acceptance with delivery held, then acceptance and delivery together. */

import { CommandError } from '#app/cli/admin-command.ts'
import { systemClock } from '#platform/clock.ts'
import { days } from '#platform/units.ts'
import type { LoadJob, LoadResult } from './load.ts'
import { type ChildProcess, readUsage, spawnSelf } from './processes.ts'

/** Hidden commands under which the bench starts itself. */
export const LOAD_COMMAND = 'bench-load'
export const RECEIVER_COMMAND = 'bench-receiver'

export interface RunOptions {
  readonly dataDir: string
  readonly key: string
  readonly connections: number
  readonly acceptSeconds: number
  /** Emails that are accepted and delivered. */
  readonly deliver: number
}

/** Figures of a run. CPU is the service's alone, user and system, of all threads. */
export interface MailStats {
  readonly heldPerSecond: number
  readonly heldP50Ms: number
  readonly heldP99Ms: number
  readonly heldCpuMs: number
  readonly busyPerSecond: number
  readonly busyP50Ms: number
  readonly busyP99Ms: number
  /** From the first request to the last message at the receiver. */
  readonly deliveredPerSecond: number
  /** Of accepting and delivering one email. */
  readonly deliveredCpuMs: number
  readonly peakRssMiB: number
}

export const MAIL_STAT_NAMES = [
  'heldPerSecond',
  'heldP50Ms',
  'heldP99Ms',
  'heldCpuMs',
  'busyPerSecond',
  'busyP50Ms',
  'busyP99Ms',
  'deliveredPerSecond',
  'deliveredCpuMs',
  'peakRssMiB',
] as const satisfies readonly (keyof MailStats)[]

const WARM_UP_SECONDS = 1
const WARM_UP_DELIVERIES = 200
/** Nobody waits longer for the receiver. */
const MAX_SECONDS = 600
const UNLIMITED_EMAILS = 1_000_000_000

export async function runMail(options: RunOptions): Promise<MailStats> {
  await using receiver = spawnSelf([RECEIVER_COMMAND])
  const ports = JSON.parse(await receiver.readLine()) as { smtpPort: number; dnsPort: number }
  await using service = spawnSelf(['serve'], {
    TASSIS_DATA_DIR: options.dataDir,
    TASSIS_HTTP_ADDR: '127.0.0.1:0',
    TASSIS_HOSTNAME: 'mail.bench.test',
    TASSIS_DNS_SERVERS: `127.0.0.1:${ports.dnsPort}`,
    TASSIS_SMTP_PORT: String(ports.smtpPort),
    TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
    TASSIS_LOG_LEVEL: 'error',
  })
  const port = Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(await service.readLine())?.[1])
  let from = 0
  const load = async (limits: Pick<LoadJob, 'emails' | 'seconds' | 'sendAt'>): Promise<LoadResult> => {
    const { connections, key } = options
    const result = await runLoadProcess({ host: '127.0.0.1', port, key, connections, from, ...limits })
    from += result.accepted + result.refused + connections
    if (result.refused > 0) throw new CommandError(`${result.refused} emails were not accepted.`)
    return result
  }
  const later = new Date(systemClock.now() + days(1)).toISOString()

  await load({ emails: UNLIMITED_EMAILS, seconds: WARM_UP_SECONDS, sendAt: later })
  const beforeHeld = readUsage(service.pid)
  const held = await load({ emails: UNLIMITED_EMAILS, seconds: options.acceptSeconds, sendAt: later })
  const afterHeld = readUsage(service.pid)

  await load({ emails: WARM_UP_DELIVERIES, seconds: MAX_SECONDS, sendAt: null })
  await waitForReceived(receiver, WARM_UP_DELIVERIES)
  const beforeBusy = readUsage(service.pid)
  const startedMs = systemClock.monotonicMs()
  const busy = await load({ emails: options.deliver, seconds: MAX_SECONDS, sendAt: null })
  await waitForReceived(receiver, WARM_UP_DELIVERIES + options.deliver)
  const deliveredSeconds = (systemClock.monotonicMs() - startedMs) / 1000
  const afterBusy = readUsage(service.pid)
  return {
    heldPerSecond: held.accepted / held.seconds,
    heldP50Ms: held.p50Ms,
    heldP99Ms: held.p99Ms,
    heldCpuMs: (afterHeld.cpuMs - beforeHeld.cpuMs) / held.accepted,
    busyPerSecond: busy.accepted / busy.seconds,
    busyP50Ms: busy.p50Ms,
    busyP99Ms: busy.p99Ms,
    deliveredPerSecond: options.deliver / deliveredSeconds,
    deliveredCpuMs: (afterBusy.cpuMs - beforeBusy.cpuMs) / options.deliver,
    peakRssMiB: afterBusy.peakRssMiB,
  }
}

async function runLoadProcess(job: LoadJob): Promise<LoadResult> {
  await using process = spawnSelf([LOAD_COMMAND, JSON.stringify(job)])
  return JSON.parse(await process.readLine()) as LoadResult
}

/** Resolves when the receiver has taken so many messages. */
async function waitForReceived(receiver: ChildProcess, count: number): Promise<void> {
  receiver.writeLine(String(count))
  const taken = Number(await receiver.readLine())
  if (taken !== count) throw new CommandError(`The receiver took ${taken} messages in place of ${count}.`)
}
