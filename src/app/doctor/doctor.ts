/**
 * @module The checks of `tassis doctor` in the running service: every hour, and on request. Keeps the latest findings,
 * for the dashboard and for metrics, and has the operator notified of what turns bad and what is mended.
 */
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import type { SourceNames } from '#features/sending/delivery/providers/outbound-sources.ts'
import type { RunningDelivery } from '#features/sending/delivery/start.ts'
import { sendSystemMail } from '#features/sending/system-mail/send.ts'
import type { Tx } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { shareRun } from '#platform/queue/share-run.ts'
import { hours, type Millis, minutes, seconds } from '#platform/units.ts'
import type { DnsClient } from '#protocols/dns/resolver.ts'
import type { DoctorFindings, Finding } from '../status-routes.ts'
import { checkCertificates } from './checks/certificates.ts'
import { checkCluster } from './checks/cluster.ts'
import { checkDisk, checkFileLimit, checkMemory, checkOwners } from './checks/machine.ts'
import {
  checkAddresses,
  checkClusterDns,
  checkHostname,
  checkIpv6,
  checkPublicUrl,
  checkReverseDns,
} from './checks/names.ts'
import { checkOutgoingPort, checkPrivileges, checkRelay } from './checks/network.ts'
import { checkProxies } from './checks/proxies.ts'
import { checkBlockLists, checkClock, checkResolver } from './checks/resolver.ts'
import * as state from './checks/state.ts'
import {
  type Check,
  createDoctorResolver,
  type DoctorContext,
  type Found,
  isBad,
  listDnsServers,
  skipped,
} from './context.ts'

export interface DoctorOptions {
  readonly app: App
  readonly sourceNames: SourceNames
  /** Replaces the resolver, in tests. */
  readonly resolver?: DnsClient | undefined
}

const INTERVAL_MS = hours(1)
/** The first run waits for the start to settle. */
const FIRST_RUN_DELAY_MS = minutes(1)
/** What is newly bad is checked again after this time, and only then the operator is notified. */
const CONFIRMATION_DELAY_MS = minutes(5)

export class Doctor {
  readonly #options: DoctorOptions
  readonly #ending = new AbortController()
  #latest: DoctorFindings | undefined

  constructor(options: DoctorOptions) {
    this.#options = options
  }

  /** The report of the last run in this process; undefined before the first one has ended. */
  latest(): DoctorFindings | undefined {
    return this.#latest
  }

  /** Runs all checks, or waits for the run that is in progress. Takes at most some 15 s. */
  readonly run = shareRun((delivery: RunningDelivery | undefined) => this.#run(delivery))

  async #run(delivery: RunningDelivery | undefined): Promise<DoctorFindings> {
    const { app, sourceNames, resolver: override } = this.#options
    const { config, clock, db } = app
    const resolver = override ?? createDoctorResolver(listDnsServers(config), clock)
    try {
      const findings = await runChecks({
        config,
        clock,
        resolver,
        sourceNames,
        service: { app, delivery },
        db,
        // One for each run, so that listeners of earlier runs do not accumulate.
        signal: AbortSignal.any([this.#ending.signal]),
      })
      const report = { checked_at: isoTime(clock.now()), findings }
      if (!this.#ending.signal.aborted) this.#latest = report
      return report
    } finally {
      if (!override) resolver.close()
    }
  }

  /** Starts the hourly runs; the first begins after a minute. `stop` ends a run early. */
  start(delivery: RunningDelivery | undefined): DueLoop {
    const { app } = this.#options
    const { clock, log } = app
    const report = createReporter(app)
    // Monotonic: a clock that is set back by a day must not delay the next run by a day.
    let nextAtMs = clock.monotonicMs() + FIRST_RUN_DELAY_MS
    const step = async (ending: AbortSignal): Promise<Millis> => {
      if (clock.monotonicMs() >= nextAtMs) {
        // First, because a step that fails is repeated within seconds.
        nextAtMs = clock.monotonicMs() + INTERVAL_MS
        const { findings } = await this.run(delivery)
        const isSettled = ending.aborted || (await report(findings))
        if (!isSettled) nextAtMs = clock.monotonicMs() + CONFIRMATION_DELAY_MS
      }
      return clock.now() + nextAtMs - clock.monotonicMs()
    }
    const loop = startDueLoop({ name: 'checks of the operator', clock, log, step })
    return {
      wake: () => loop.wake(),
      stop: () => {
        this.#ending.abort()
        return loop.stop()
      },
    }
  }
}

/** All checks by name, in the order in which they are shown. Names are public: metrics and notices use them. */
export const CHECKS = {
  service: state.checkService,
  hostname: checkHostname,
  addresses: checkAddresses,
  reverse_dns: checkReverseDns,
  ipv6: checkIpv6,
  public_url: checkPublicUrl,
  cluster_dns: checkClusterDns,
  outgoing_port: checkOutgoingPort,
  relay: checkRelay,
  proxies: checkProxies,
  privileges: checkPrivileges,
  resolver: checkResolver,
  block_lists: checkBlockLists,
  clock: checkClock,
  certificates: checkCertificates,
  owners: checkOwners,
  disk: checkDisk,
  memory: checkMemory,
  open_files: checkFileLimit,
  queue: state.checkQueue,
  received: state.checkReceived,
  cluster: checkCluster,
  backups: state.checkBackups,
  restored: state.checkRestored,
  delivery_alerts: state.checkDeliveryAlerts,
  domain_reports: state.checkDomainReports,
  operator_mail: state.checkOperatorMail,
} as const satisfies Readonly<Record<string, Check>>

/** Of one check; all together then take hardly longer, because they run at the same time. */
const CHECK_TIMEOUT_MS = seconds(12)

/** Runs all checks. A check that fails itself, or does not end in time, is skipped with the reason. */
export async function runChecks(context: DoctorContext): Promise<Finding[]> {
  const found = await Promise.all(
    Object.entries<Check>(CHECKS).map(async ([name, check]) =>
      [await runInTime(context, check)].flat().map((finding) => ({ check: name, ...finding })),
    ),
  )
  return found.flat()
}

function runInTime(context: DoctorContext, check: Check): Promise<Found> {
  const { clock, signal } = context
  return new Promise((resolve) => {
    const timer = clock.after(CHECK_TIMEOUT_MS, () =>
      resolve(skipped(`The check did not end within ${CHECK_TIMEOUT_MS / 1000} s.`)),
    )
    const abort = () => resolve(skipped('The checks were ended early.'))
    signal.addEventListener('abort', abort)
    const run = async () => check(context)
    void run()
      .catch((error: unknown) =>
        skipped(`The check failed: ${error instanceof Error ? error.message : String(error)}.`),
      )
      .then((found) => {
        timer.cancel()
        signal.removeEventListener('abort', abort)
        resolve(found)
      })
  })
}

interface Reported extends Pick<Finding, 'status' | 'message'> {
  readonly at: Millis
  /** It was reported as mended since then; the report is kept for the rest of the day. */
  readonly isMended: boolean
}

/** By check and subject. */
type Reports = Readonly<Record<string, Reported>>

const META_KEY = 'doctor_notices'
const REPEAT_INTERVAL_MS = hours(24)
/** Bounds the stored text and the mail; each check names at most some twenty things. */
const MAX_REPORTS = 300

const toKey = ({ check, subject }: Pick<Finding, 'check' | 'subject'>): string => `${check} ${subject ?? ''}`.trim()

/**
 * Creates the function that reports checks that turned bad, and those that are mended, by log and mail. A finding must be
 * bad in two runs in a row. Each is reported once, and one that comes and goes at most once a day, with at most one
 * report that it is mended. What was reported is stored with the mail, so a restart repeats nothing. It resolves with false when something is newly bad,
 * which another run should soon confirm, and throws storage errors.
 */
export function createReporter(app: App): (findings: readonly Finding[]) => Promise<boolean> {
  /** What was bad in the last run. */
  let lastBad: ReadonlySet<string> = new Set()
  return async (findings) => {
    const now = app.clock.now()
    const bad = findings.filter(isBad)
    const confirmed = bad.filter((finding) => lastBad.has(toKey(finding)))
    lastBad = new Set(bad.map(toKey))
    const reports = readReports(app, now)
    const turnedBad = confirmed
      .filter((finding) => isNews(reports[toKey(finding)], finding, now))
      .slice(0, MAX_REPORTS - Object.keys(reports).length)
    const mended = findMended(reports, findings)
    if (turnedBad.length + mended.length > 0) {
      for (const { check, message, status } of turnedBad)
        app.log[status === 'failure' ? 'error' : 'warn']({ check }, `check found a problem: ${message}`)
      for (const [check] of mended) app.log.info({ check }, 'problem found by a check is mended')
      await report(app, turnedBad, mended, {
        ...reports,
        ...Object.fromEntries(mended.map(([key, reported]) => [key, { ...reported, isMended: true }])),
        ...Object.fromEntries(
          turnedBad.map((finding) => {
            const { status, message } = finding
            return [toKey(finding), { status, message, at: now, isMended: false } satisfies Reported]
          }),
        ),
      })
    }
    return confirmed.length === bad.length
  }
}

/** Those that were reported as bad, or were reported as mended within the last day. */
function readReports({ db }: App, now: Millis): Reports {
  const stored = JSON.parse(getMeta(db, META_KEY) ?? '{}') as Reports
  return Object.fromEntries(
    Object.entries(stored)
      // Times ahead of now were stored while the clock was wrong; without a limit they would suppress reports for long.
      .map(([key, reported]) => [key, { ...reported, at: Math.min(reported.at, now) }] as const)
      .filter(([, { at, isMended }]) => !isMended || now - at < REPEAT_INTERVAL_MS),
  )
}

/** Whether the operator is to be told that it is bad: for the first time, again after a day, or because it is worse. */
const isNews = (reported: Reported | undefined, { status }: Finding, now: Millis): boolean =>
  reported === undefined ||
  ((reported.isMended || (status === 'failure' && reported.status === 'warning')) &&
    now - reported.at >= REPEAT_INTERVAL_MS)

function findMended(reports: Reports, findings: readonly Finding[]): (readonly [string, Reported])[] {
  // A check that could not be made says nothing about what it found before.
  const open = new Set(findings.filter((found) => isBad(found) || found.status === 'skipped').map(toKey))
  return Object.entries(reports).filter(
    ([key, { isMended }]) => !isMended && !open.has(key) && !open.has(key.split(' ', 1)[0] ?? ''),
  )
}

/** Mails one list of all changes, if there is an address and a domain to send from; if that fails, the next run does. */
async function report(
  app: App,
  turnedBad: readonly Finding[],
  mended: readonly (readonly [string, Reported])[],
  after: Reports,
): Promise<void> {
  const { operatorEmail, hostname, publicUrl } = app.config
  const store = (tx: Tx) => setMeta(tx.db, META_KEY, JSON.stringify(after))
  if (operatorEmail === '') return app.commit.writeFromReserve(store)
  const subject = formatSubject(hostname, turnedBad, mended.length)
  const text = formatText(turnedBad, mended, publicUrl)
  await sendSystemMail(app, { to: [operatorEmail], about: [], subject, text }, store)
}

function formatSubject(hostname: string, turnedBad: readonly Finding[], mendedCount: number): string {
  const [worst] = sortWorstFirst(turnedBad)
  if (!worst) return `${hostname}: mended (${mendedCount})`
  return turnedBad.length === 1
    ? `${hostname}: ${worst.check} ${worst.status}`
    : `${hostname}: ${turnedBad.length} problems`
}

const sortWorstFirst = (findings: readonly Finding[]): Finding[] =>
  findings.toSorted((a, b) => Number(b.status === 'failure') - Number(a.status === 'failure'))

const formatText = (
  turnedBad: readonly Finding[],
  mended: readonly (readonly [string, Reported])[],
  publicUrl: string,
): string =>
  [
    ...sortWorstFirst(turnedBad).map(({ check, status, message, fix }) =>
      `${status === 'failure' ? 'Failure' : 'Warning'} (${check}): ${message}\n${fix ?? ''}`.trimEnd(),
    ),
    ...mended.map(([key, { message }]) => `Mended (${key.split(' ', 1)[0]}). This is no longer so: ${message}`),
    `\`tassis doctor\` on the server checks again. Operators see all checks at ${new URL('/app/server', publicUrl).href}.${turnedBad.length > 0 ? ' You get a mail when this is mended.' : ''}`,
  ].join('\n\n')
