/**
 * @module The checks of `tassis doctor` in the running service: every hour, and on request. Keeps the latest findings,
 * for the dashboard and for metrics, and has the operator notified of what turns bad and what is mended.
 */

import type { App } from '#features/core/app/app.ts'
import type { SourceNames } from '#features/sending/delivery/providers/outbound-sources.ts'
import type { RunningDelivery } from '#features/sending/delivery/start.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import type { Millis } from '#platform/time/clock.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import type { DnsClient } from '#protocols/dns/resolver.ts'
import type { DoctorFindings, Finding } from '../status-routes.ts'
import { checkCertificates } from './checks/certificates.ts'
import { checkDisk, checkFileLimit, checkMemory, checkOwners } from './checks/machine.ts'
import { checkAddresses, checkHostname, checkPublicUrl, checkReverseDns } from './checks/names.ts'
import { checkOutgoingPort, checkPrivileges, checkRelay } from './checks/network.ts'
import { checkBlockLists, checkClock, checkResolver } from './checks/resolver.ts'
import {
  checkBackups,
  checkDeliveryAlerts,
  checkOperatorMail,
  checkQueue,
  checkReceived,
  checkRestored,
  checkService,
} from './checks/state.ts'
import { type Check, createDoctorResolver, type DoctorContext, type Found, listDnsServers, skipped } from './context.ts'
import { createReporter } from './notices.ts'

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
  #running: Promise<DoctorFindings> | undefined

  constructor(options: DoctorOptions) {
    this.#options = options
  }

  /** The report of the last run in this process; undefined before the first one has ended. */
  latest(): DoctorFindings | undefined {
    return this.#latest
  }

  /** Runs all checks, or waits for the run that is in progress. Takes at most some 15 s. */
  run(delivery: RunningDelivery | undefined): Promise<DoctorFindings> {
    this.#running ??= this.#run(delivery).finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

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
  service: checkService,
  hostname: checkHostname,
  addresses: checkAddresses,
  reverse_dns: checkReverseDns,
  public_url: checkPublicUrl,
  outgoing_port: checkOutgoingPort,
  relay: checkRelay,
  privileges: checkPrivileges,
  resolver: checkResolver,
  block_lists: checkBlockLists,
  clock: checkClock,
  certificates: checkCertificates,
  owners: checkOwners,
  disk: checkDisk,
  memory: checkMemory,
  open_files: checkFileLimit,
  queue: checkQueue,
  received: checkReceived,
  backups: checkBackups,
  restored: checkRestored,
  delivery_alerts: checkDeliveryAlerts,
  operator_mail: checkOperatorMail,
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
