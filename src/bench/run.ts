/** @module One benchmark run against a data directory: acceptance with delivery held, then acceptance with delivery. */

import { CommandError } from '#app/cli/admin-command.ts'
import { systemClock } from '#platform/clock.ts'
import { days } from '#platform/units.ts'
import type { DashboardsJob } from './dashboards.ts'
import { findFreePort } from './inbound.ts'
import type { LoadJob, LoadResult } from './load.ts'
import { type ChildProcess, readUsage, spawnSelf, startService } from './processes.ts'
import { submitMessages } from './submission.ts'

/** Hidden commands for child processes of the benchmark. */
export const LOAD_COMMAND = 'bench-load'
export const RECEIVER_COMMAND = 'bench-receiver'
export const DASHBOARDS_COMMAND = 'bench-dashboards'

export interface RunOptions {
  readonly dataDir: string
  readonly key: string
  readonly connections: number
  readonly acceptSeconds: number
  /** Number of emails to accept and deliver. */
  readonly deliver: number
  /** Dashboards that are open meanwhile. */
  readonly dashboards: number
}

/** Results of a run. CPU time is that of the service only: user and system, all threads. */
export interface MailStats {
  readonly heldPerSecond: number
  readonly heldP50Ms: number
  readonly heldP99Ms: number
  readonly heldCpuMs: number
  /** The same emails over SMTP. */
  readonly submittedPerSecond: number
  readonly submittedP50Ms: number
  readonly submittedP99Ms: number
  readonly submittedCpuMs: number
  readonly busyPerSecond: number
  readonly busyP50Ms: number
  readonly busyP99Ms: number
  /** From the first request to the last message at the receiver. */
  readonly deliveredPerSecond: number
  /** CPU time to accept and deliver one email. */
  readonly deliveredCpuMs: number
  readonly peakRssMiB: number
}

export const MAIL_STAT_NAMES = [
  'heldPerSecond',
  'heldP50Ms',
  'heldP99Ms',
  'heldCpuMs',
  'submittedPerSecond',
  'submittedP50Ms',
  'submittedP99Ms',
  'submittedCpuMs',
  'busyPerSecond',
  'busyP50Ms',
  'busyP99Ms',
  'deliveredPerSecond',
  'deliveredCpuMs',
  'peakRssMiB',
] as const satisfies readonly (keyof MailStats)[]

const WARM_UP_SECONDS = 1
/** Messages submitted over SMTP, per second of acceptance over HTTP. */
const SUBMISSIONS_PER_SECOND = 500
const WARM_UP_DELIVERIES = 200
/** Timeout for the receiver. */
const MAX_SECONDS = 600
const UNLIMITED_EMAILS = 1_000_000_000

export async function runMail(options: RunOptions): Promise<MailStats> {
  await using receiver = spawnSelf([RECEIVER_COMMAND])
  const ports = JSON.parse(await receiver.readLine()) as { smtpPort: number; dnsPort: number }
  const submissionPort = await findFreePort()
  await using service = await startService(options.dataDir, {
    TASSIS_SUBMISSION_TLS_ADDR: `127.0.0.1:${submissionPort}`,
    TASSIS_DNS_SERVERS: `127.0.0.1:${ports.dnsPort}`,
    TASSIS_SMTP_PORT: String(ports.smtpPort),
    TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
  })
  const { port } = service
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

  const submit = (count: number): Promise<LoadResult> => {
    const { dataDir: folder, key, connections } = options
    return submitMessages({ folder, port: submissionPort, key, connections, count, sendAt: later })
  }
  await submit(SUBMISSIONS_PER_SECOND * WARM_UP_SECONDS)
  const beforeSubmitted = readUsage(service.pid)
  const submitted = await submit(SUBMISSIONS_PER_SECOND * options.acceptSeconds)
  const afterSubmitted = readUsage(service.pid)

  await using _dashboards = options.dashboards > 0 ? openDashboards(port, options) : undefined
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
    submittedPerSecond: submitted.accepted / submitted.seconds,
    submittedP50Ms: submitted.p50Ms,
    submittedP99Ms: submitted.p99Ms,
    submittedCpuMs: (afterSubmitted.cpuMs - beforeSubmitted.cpuMs) / submitted.accepted,
    busyPerSecond: busy.accepted / busy.seconds,
    busyP50Ms: busy.p50Ms,
    busyP99Ms: busy.p99Ms,
    deliveredPerSecond: options.deliver / deliveredSeconds,
    deliveredCpuMs: (afterBusy.cpuMs - beforeBusy.cpuMs) / options.deliver,
    peakRssMiB: afterBusy.peakRssMiB,
  }
}

function openDashboards(port: number, { key, dashboards: count }: RunOptions): ChildProcess {
  const job: DashboardsJob = { port, key, count }
  return spawnSelf([DASHBOARDS_COMMAND, JSON.stringify(job)])
}

async function runLoadProcess(job: LoadJob): Promise<LoadResult> {
  await using process = spawnSelf([LOAD_COMMAND, JSON.stringify(job)])
  return JSON.parse(await process.readLine()) as LoadResult
}

/** Resolves when the receiver has accepted `count` messages. */
async function waitForReceived(receiver: ChildProcess, count: number): Promise<void> {
  receiver.writeLine(String(count))
  const taken = Number(await receiver.readLine())
  if (taken !== count) throw new CommandError(`The receiver accepted ${taken} messages instead of ${count}.`)
}
