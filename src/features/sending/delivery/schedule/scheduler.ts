/**
 * @module Starts and stops delivery, and joins its parts (main thread). A turn of a lane is in `lane-claimer`, the start
 * of its attempts in `attempt-starter`, their end in `attempt-results`.
 *
 * lane: see queue/lanes. site: the destination of a lane's route; lanes with the same MX hosts share a site and its
 * limits. Broadcasts have their own lanes, which come after all others everywhere: for slots, for memory and in the
 * Workers.
 */
import { join } from 'node:path'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { accountOfLane, isBulkLane } from '#features/sending/queue/lanes.ts'
import { setRetryTimes } from '#features/sending/queue/queue.ts'
import { describeHold, findHold } from '#features/sending/queue/queue-rules.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { TransportSecurity } from '#features/sending/transport-security/transport-security.ts'
import { readCertificateAuthorities } from '#platform/net/certificate-authorities.ts'
import { retry, STORAGE_RETRY_MS } from '#platform/queue/retry.ts'
import { listProxies } from '#platform/settings/outbound-source.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import type { Millis } from '#platform/units.ts'
import { AttemptResults, RecentDialogues } from '../attempt/attempt-results.ts'
import { AttemptStarter, limitsOf } from '../attempt/attempt-starter.ts'
import { recoverInterrupted } from '../attempt/claim.ts'
import { type InFlightAttempt, InFlightAttempts } from '../attempt/in-flight-attempts.ts'
import { ReplyAlerts } from '../attempt/reply-alerts.ts'
import { SlowAttempts } from '../attempt/slow-attempts.ts'
import { createWorkerPool, type WorkerPool } from '../attempt/worker-pool.ts'
import type { FromWorker } from '../protocol.ts'
import { recordSources } from '../providers/limits.ts'
import { listSources, OutboundSources } from '../providers/outbound-sources.ts'
import type { Pair } from '../providers/pair.ts'
import { Pairs } from '../providers/pairs.ts'
import { labelProvider } from '../providers/registry.ts'
import { FailedAddresses, type LocalServers } from '../sites/route.ts'
import { type Site, Sites } from '../sites/sites.ts'
import { releaseWithoutContent } from '../verdict/held-mail.ts'
import { LaneClaimer } from './lane-claimer.ts'
import { LaneRouter } from './lane-router.ts'
import { Lanes, listOpenLanes } from './lanes.ts'
import * as waits from './waits.ts'

/** Messages in delivery at the same time, over all sites. One account may use at most half of them. */
const MAX_CONCURRENT_MESSAGES = 500

export interface SchedulerOptions {
  readonly concurrency?: number | undefined
  /** Port of the servers of MTA-STS policies. */
  readonly policyPort?: number | undefined
  readonly createPool?: typeof createWorkerPool
}

/** The scheduler of this process, once it delivers. */
export type FindScheduler = () => DeliveryScheduler | undefined

export class DeliveryScheduler {
  readonly #app: App
  readonly #stopping = new AbortController()
  readonly #lanes: Lanes
  readonly #sites: Sites
  readonly #failedAddresses: FailedAddresses
  /** Limits, rates and suspensions by provider and outgoing address. */
  readonly pairs: Pairs
  readonly #attempts: InFlightAttempts
  readonly #claimer: LaneClaimer
  readonly #starter: AttemptStarter
  readonly #results: AttemptResults
  readonly #slowAttempts: SlowAttempts
  readonly #security: TransportSecurity
  readonly recentDialogues: RecentDialogues
  readonly alerts: ReplyAlerts
  readonly #createPool: typeof createWorkerPool
  #pool: WorkerPool | undefined
  #listeners: readonly (() => void)[] = []

  constructor(
    app: App,
    localServers: LocalServers,
    { concurrency = MAX_CONCURRENT_MESSAGES, policyPort, createPool = createWorkerPool }: SchedulerOptions = {},
  ) {
    const { clock, config } = app
    const stopping = this.#stopping.signal
    const instant = () => this.pairs.instant()
    const ownerOf = (lane: string) => getTenantId(app.db, accountOfLane(lane))
    this.#createPool = createPool
    this.#app = app
    this.#security = new TransportSecurity(app, policyPort)
    this.recentDialogues = new RecentDialogues(clock)
    this.#failedAddresses = new FailedAddresses(clock)
    this.alerts = new ReplyAlerts(clock, app.log)
    this.#lanes = new Lanes({
      clock,
      stopping,
      pump: (lane) => this.#claimer.pump(lane),
      onTurnEnded: (lane) => {
        if (!lane.isPumping) this.#sites.endTurn(lane.name)
        this.#offerSlots()
      },
    })
    this.pairs = new Pairs({
      app,
      ownerOf,
      onAllowed: (pair) => {
        this.#sites.allowPair(pair)
        this.#offerSlots()
      },
      onChanged: (pair) => this.#pool?.setLimits(limitsOf(pair, instant())),
    })
    this.alerts.restore(this.pairs.all())
    this.#sites = new Sites({
      clock,
      instant,
      onPairBlocked: (pair) => this.pairs.wakeWhenAllowed(pair),
      deliveryConcurrency: concurrency,
      connectionsPerSite: this.pairs.registry.siteConnections,
      ownerOf,
      wake: (lane) => this.#lanes.wake(lane),
    })
    this.#attempts = new InFlightAttempts({
      app,
      stopping,
      onBegun: ({ worker, recipientId }, ok) => this.#pool?.post(worker, { type: 'go', recipientId, ok }),
      onAttemptEnded: (attempt) => this.#releaseResources(attempt),
      onDue: ({ lane, destination: { pair, siteName } }, at) =>
        this.#lanes.setDue(lane, at, { pair, site: this.#sites.getSite(siteName) }),
    })
    const parts = {
      app,
      stopping,
      lanes: this.#lanes,
      sites: this.#sites,
      pairs: this.pairs,
      attempts: this.#attempts,
      failedAddresses: this.#failedAddresses,
      security: this.#security,
    }
    this.#results = new AttemptResults({
      ...parts,
      recentDialogues: this.recentDialogues,
      alerts: this.alerts,
      findResumption: (destination) => this.#findResumption(destination),
    })
    this.#starter = new AttemptStarter({
      ...parts,
      results: this.#results,
      instant,
      pool: () => this.#pool,
      onMemoryWanted: () => this.#slowAttempts.watch(),
    })
    this.#slowAttempts = new SlowAttempts({
      ...parts,
      clock,
      memoryQueue: this.#starter.memoryQueue,
      ownerOf,
      cut: (worker, recipientIds) => this.#pool?.post(worker, { type: 'cut', recipientIds }),
    })
    const sources = new OutboundSources(listSources(config))
    const router = new LaneRouter({ ...parts, localServers, sources })
    setRetryTimes(app.db, (lane, due) => Math.max(due, this.#findResumption(this.#lanes.find(lane) ?? {})))
    this.#claimer = new LaneClaimer({ ...parts, router, starter: this.#starter, slowAttempts: this.#slowAttempts })
  }

  /** Recovers from a crash, then starts the Workers and the queue. */
  async start(): Promise<void> {
    const { config, log, clock } = this.#app
    const recovered = await recoverInterrupted(this.#app)
    if (recovered.requeued + recovered.uncertain > 0) log.warn(recovered, 'recovered from an unclean shutdown')
    const sources = listSources(config).map(({ ip }) => ip)
    await recordSources(this.#app, sources.length > 0 ? sources : [''])
    // The content may have been restored since the last run.
    await releaseWithoutContent(this.#app)
    this.#pool = this.#createPool({
      count: config.workers,
      settings: {
        contentFolder: join(config.dataDir, 'content'),
        ehloName: config.hostname,
        outboundSources: listSources(config),
        proxies: Object.fromEntries(listProxies(config.outboundIps)),
        authorities: readCertificateAuthorities(config),
        tracking: { ownUrl: trimTrailingSlashes(config.publicUrl) },
      },
      clock,
      log,
      onMessages: (messages) => this.#onMessages(messages),
      onDeath: (worker) => this.#onWorkerDeath(worker),
    })
    // So that the first mail need not wait for the test of the DNS servers.
    void this.#security.isDaneOn()
    this.#listeners = [
      this.#app.mailDue.listen(({ lane, at, isRetryAsked }) => this.#lanes.setDue(lane, at, { isRetryAsked })),
      this.#app.clockSetBack.listen(() => void this.#releaseOverdueMail()),
    ]
    void this.#releaseOverdueMail()
    void this.#untilRead(() => this.#wakeOpenLanes())
  }

  async #wakeOpenLanes(): Promise<void> {
    for (const lanes of listOpenLanes(this.#app.db)) {
      for (const { lane, firstAt } of lanes) this.#lanes.setDue(lane, firstAt)
      await yieldToEventLoop()
      if (this.#stopping.signal.aborted) return
    }
  }

  /** Begins nothing more, waits at most 60 s for begun transactions, and settles the rest. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    for (const stopListening of this.#listeners) stopListening()
    this.#lanes.cancelTimers()
    this.#slowAttempts.stop()
    this.#pool?.postAll({ type: 'drain' })
    // Claims must complete first; otherwise their recipients would stay claimed until the next start.
    await this.#claimer.waitForClaims()
    await this.#attempts.waitForBegun()
    this.#starter.clear()
    await this.#attempts.settleStopped()
    await this.pairs.stop()
    this.#pool?.terminate()
  }

  /** Finds the name in metrics of the provider to which a lane sends or, since the start, last wanted to send. */
  createProviderFinder(): (lane: string) => string | undefined {
    const inFlight = new Map(this.#attempts.all().map(({ lane, destination }) => [lane, destination.pair]))
    return (lane) => {
      const pair = inFlight.get(lane) ?? this.#lanes.find(lane)?.pair
      return pair && labelProvider(pair.provider)
    }
  }

  get inFlight(): number {
    return this.#sites.inFlight
  }

  /** Why the mail of a lane waits. @param firstDue when its earliest recipient is due */
  describeWait(lane: string, firstDue: Millis): string {
    const [first, ...others] = this.#attempts.all().filter((attempt) => attempt.lane === lane)
    if (!first) return this.describeDelay(lane, firstDue)
    const isWaiting = this.#sites.listWaits(lane).some(({ site }) => site?.[0] === first.destination.siteName)
    return waits.describeInDelivery(1 + others.length, isWaiting)
  }

  /** Why mail of a lane that is not in delivery waits. @param due when it is due */
  describeDelay(lane: string, due: Millis): string {
    const isBulk = isBulkLane(lane)
    const { provider, pair: lastPair } = this.#lanes.find(lane) ?? {}
    const hold = findHold(this.#app.db, lane, provider ?? lastPair?.provider.name)
    if (hold) return describeHold(hold)
    if (due > this.#app.clock.now()) return this.#describeSuspension(lastPair, due) ?? waits.NOT_DUE_REASON
    const found = this.#sites.listWaits(lane)
    const { pair } = found.find((wait) => wait.pair) ?? {}
    if (pair) return `${waits.describePair(pair, this.pairs.instant(), isBulk)}${isBulk ? waits.AFTER_OTHERS : ''}`
    const [name, site] = found.find((wait) => wait.site)?.site ?? []
    if (name !== undefined && site)
      return waits.describeSite(name, site, { isBackingOff: this.#sites.backoffLeftMs(site) > 0, isBulk })
    return found.length > 0 ? waits.describeSlotWait(isBulk) : waits.ABOUT_TO_BE_DELIVERED_REASON
  }

  /** Until when nothing is sent to a site and over a pair, nor over any other of its provider; 0 when that is no time. */
  #findResumption({ pair, site }: { readonly pair?: Pair | undefined; readonly site?: Site | undefined }): Millis {
    const { now } = this.pairs.instant()
    const suspendedMs = pair && this.#describeSuspension(pair, now) !== undefined ? pair.suspendedMs(now) : 0
    const waitMs = Math.max(suspendedMs, site ? this.#sites.backoffLeftMs(site) : 0)
    return waitMs === 0 ? 0 : now + waitMs
  }

  /** Why mail will wait when it is due; undefined unless all its pairs are suspended beyond that time. */
  #describeSuspension(pair: Pair | undefined, due: Millis): string | undefined {
    const at = this.pairs.instant()
    const isSuspended = (other: Pair) => at.now + other.suspendedMs(at.now) > due
    if (!pair || this.#app.config.overflowUrl !== '' || !isSuspended(pair)) return undefined
    const isOther = (other: Pair) => other.provider.name === pair.provider.name && !isSuspended(other)
    return this.pairs.all().some(isOther) ? undefined : waits.describePair(pair, at, false)
  }

  #onMessages(messages: readonly FromWorker[]): void {
    for (const message of messages) {
      if (message.type === 'address_failed') {
        this.#failedAddresses.record(message.failure)
        continue
      }
      const attempt = this.#attempts.findUnsettled(message.recipientId)
      if (!attempt) continue
      if (message.type === 'begin') this.#attempts.begin(attempt)
      else this.#results.apply(attempt, message)
    }
  }

  /** Repeats what reads the queue until it succeeds, or delivery stops. */
  #untilRead(read: () => Promise<void>): Promise<void> {
    const { clock, log } = this.#app
    const isRetried = (error: unknown) => {
      if (!this.#stopping.signal.aborted) log.error({ err: error }, 'queue not read; retrying')
      return true
    }
    const run = async () => (this.#stopping.signal.aborted ? undefined : await read())
    return retry(run, { clock, delayMs: STORAGE_RETRY_MS, isRetried })
  }

  /** Until it succeeds, mail may wait for the time of a clock that was wrong. */
  #releaseOverdueMail(): Promise<void> {
    return this.#untilRead(() => waits.releaseOverdueMail(this.#app, this.#stopping.signal))
  }

  #onWorkerDeath(worker: number): void {
    const isLost = (attempt: InFlightAttempt) =>
      attempt.worker === worker && attempt.sentToWorkerAt !== undefined && !attempt.settling
    // Listed before anything is settled, because settling sends waiting jobs.
    for (const attempt of this.#attempts.all().filter(isLost)) this.#results.applyWorkerDeath(attempt)
  }

  /** Releases slot and memory, and wakes the lanes and jobs that wait for them. */
  #releaseResources(attempt: InFlightAttempt): void {
    const { destination, lane, pairGeneration } = attempt
    this.#starter.release(attempt)
    this.#sites.releaseSlots(destination, 1, lane)
    destination.pair.releaseProbe(pairGeneration)
    this.pairs.onOutcome(destination.pair, false)
    this.#starter.memoryQueue.startWaiting()
    this.#offerSlots()
    this.#sites.evictIdle(destination)
  }

  #offerSlots(): void {
    if (!this.#stopping.signal.aborted) this.#sites.offerSlots()
  }
}
