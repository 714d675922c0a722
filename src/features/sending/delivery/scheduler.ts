/**
 * @module The scheduler of the mail queue (main thread): starts and stops delivery, claims due recipients up to the
 * capacity of their site, and passes them to the Workers. Never composes, signs or dials; the Workers do.
 *
 * lane: see queue/lanes. site: the destination of a lane's route; lanes with the same MX hosts share a site and its
 * limits. Broadcasts have their own lanes, which come after all others everywhere: for slots, for memory and in the
 * Workers.
 */
import { join } from 'node:path'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { accountOfLane, classOfLane, isBulkLane } from '#features/sending/queue/lanes.ts'
import { findLogId } from '#features/sending/queue/names.ts'
import {
  countDue,
  countOpen,
  findFirstDue,
  findFirstWaiting,
  findLastSendingIp,
  joinLanes,
  listLanesAfter,
  type OpenLane,
  QUEUE_START,
  type QueuePosition,
} from '#features/sending/queue/queue.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/base-url.ts'
import type { TlsResult } from '#features/sending/transport-security/tls-result.ts'
import { TransportSecurity } from '#features/sending/transport-security/transport-security.ts'
import { readCertificateAuthorities } from '#platform/certificate-authorities.ts'
import { type Millis, type Timer, yieldToEventLoop } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { readSnapshot } from '#platform/db/open.ts'
import { canOpenDescriptor } from '#platform/descriptors.ts'
import { parseOutboundSource } from '#platform/outbound-source.ts'
import { STORAGE_RETRY_MS } from '#platform/queue/retry.ts'
import { isTransientError, toPublicReason } from '#platform/storage-errors.ts'
import { minutes, seconds } from '#platform/units.ts'
import { type ClaimedRecipient, claimLane, settleUnroutable, type Unroutable } from './claim.ts'
import { FailedAddresses } from './failed-addresses.ts'
import { type InFlightAttempt, InFlightAttempts } from './in-flight-attempts.ts'
import { JobBuilder, type UnrenderedJob } from './job.ts'
import { findLaneProvider } from './lane-provider.ts'
import { type Lane, Lanes } from './lanes.ts'
import { MemoryQueue } from './memory-queue.ts'
import { toVerdict, type Verdict } from './outcome.ts'
import { releaseOverdueMail } from './overdue.ts'
import type { AttemptResult, AttemptSession, FromWorker, OutboundSource, Route } from './protocol.ts'
import { OutboundSources } from './providers/outbound-sources.ts'
import { chooseOverflow, nextOverflowAt, type WaitingMail } from './providers/overflow.ts'
import type { Pair } from './providers/pair.ts'
import { Pairs } from './providers/pairs.ts'
import { OVERFLOW_PROVIDER, SMARTHOST_PROVIDER } from './providers/policy.ts'
import { findPairAction } from './providers/reply-action.ts'
import type { TrafficOutcome } from './providers/traffic.ts'
import { recordSources } from './providers/warm-up-store.ts'
import { describeHold, findHold, findRedirect, hasProviderRules, listPools } from './queue-rules.ts'
import { RecentDialogues } from './recent-dialogues.ts'
import { recoverInterrupted } from './recover.ts'
import { TemplateError } from './render-broadcast.ts'
import { RenderQueue } from './render-queue.ts'
import { ReplyAlerts } from './reply-alerts.ts'
import { type LocalServers, type RouteResult, resolveSmarthostRoute, routeLane } from './route.ts'
import { RouteTurns } from './route-turns.ts'
import { type Site, Sites, toDestination } from './sites.ts'
import { type Wait, WaitNotes } from './wait-notes.ts'
import { releaseWithoutContent } from './without-content.ts'
import { createWorkerPool, type WorkerPool } from './worker-pool.ts'
import type { TotalLimits } from './worker-shares.ts'

/** The reason of a lane whose mail is not due yet. */
export const NOT_DUE_REASON = 'waits for its time'

/** Why a lane's due mail waits, in words; for `tassis queue`. */
export interface LaneState {
  readonly lane: string
  readonly waiting: number
  readonly firstDue: Millis
  readonly reason: string
}

/** Lanes woken in one tick of the event loop at the start; this takes some 5 ms. */
const WOKEN_LANES = 25
/**
 * How long an attempt may take while others wait for its slot or memory: the first limit applies until the message
 * begins, the second from then on. RFC 5321 §4.5.3.2 allows a server about 20 minutes before the message begins, and 10
 * minutes for its reply to the final dot. An attempt that ends before the message begins is deferred and retried; one
 * that ends later is `uncertain`, so the second limit is longer, although no healthy server needs that long.
 */
const MAX_WANTED_ENVELOPE_MS = minutes(1)
const MAX_WANTED_BODY_MS = minutes(2)
/** Additional time for the octets of a message over a slow line: 64 kB a second. */
const MIN_BYTES_PER_MS = 64
const SLOW_ATTEMPTS_INTERVAL_MS = seconds(5)
/** Maximum length of the stored reason why an email could not be built. */
const MAX_REASON_LENGTH = 1000

export class DeliveryScheduler {
  readonly #app: App
  readonly #localServers: LocalServers
  readonly #stopping = new AbortController()
  readonly #lanes: Lanes
  readonly #sites: Sites
  readonly #failedAddresses: FailedAddresses
  readonly #routeTurns: RouteTurns
  readonly #pairs: Pairs
  readonly #sources: OutboundSources
  /** Names of pools that a warning was logged for. */
  readonly #missingPools = new Set<string>()
  readonly #notes: WaitNotes<Lane>
  readonly #attempts: InFlightAttempts
  readonly #memoryQueue: MemoryQueue<InFlightAttempt>
  readonly #jobs: JobBuilder
  readonly #security: TransportSecurity
  /** Of accepted messages. */
  readonly recentDialogues: RecentDialogues
  readonly alerts: ReplyAlerts
  readonly #createPool: typeof createWorkerPool
  #pool: WorkerPool | undefined
  /** Attempts to be rendered, and those whose bodies no Worker has yet. */
  readonly #renderQueue = new RenderQueue<InFlightAttempt>()
  /** Claims that are being committed. */
  readonly #claiming = new Set<Promise<unknown>>()
  /** The timer after a search for overdue mail that failed. */
  #overdueRetry: Timer | undefined
  /** The timer of the next check for slow attempts; undefined while none is needed. */
  #watch: Timer | undefined
  #stopListening: () => void = () => undefined

  /** @param createPool creates the delivery Workers; tests replace them */
  constructor(app: App, localServers: LocalServers, createPool = createWorkerPool) {
    const { clock, config } = app
    this.#createPool = createPool
    const stopping = this.#stopping.signal
    this.#app = app
    this.#localServers = localServers
    this.#jobs = new JobBuilder(app)
    this.#security = new TransportSecurity(app)
    this.recentDialogues = new RecentDialogues(clock)
    this.#failedAddresses = new FailedAddresses(clock)
    this.#routeTurns = new RouteTurns(clock)
    this.alerts = new ReplyAlerts(clock, app.log)
    this.#lanes = new Lanes({
      clock,
      stopping,
      pump: (lane) => this.#pump(lane),
      onTurnEnded: (lane) => {
        if (!lane.isPumping) this.#sites.endTurn(lane.name)
        this.#offerSlots()
      },
    })
    const ownerOf = (lane: string) => this.#ownerOf(accountOfLane(lane))
    this.#notes = new WaitNotes(app)
    this.#sources = new OutboundSources(readSources(config))
    this.#pairs = new Pairs({
      app,
      ownerOf,
      onAllowed: (pair) => {
        this.#sites.allowPair(pair)
        this.#offerSlots()
      },
      onChanged: (pair) => this.#pool?.setLimits(this.#limitsOf(pair)),
    })
    this.#sites = new Sites({
      clock,
      instant: () => this.#pairs.instant(),
      onPairBlocked: (pair) => this.#pairs.wakeWhenAllowed(pair),
      deliveryConcurrency: config.deliveryConcurrency,
      connectionsPerSite: config.connectionsPerSite,
      ownerOf,
      wake: (lane) => this.#lanes.wake(lane),
    })
    this.#attempts = new InFlightAttempts({
      app,
      stopping,
      onBegun: ({ worker, recipientId }, ok) => this.#pool?.post(worker, { type: 'go', recipientId, ok }),
      onAttemptEnded: (attempt) => this.#releaseResources(attempt),
      onDue: (lane, at) => this.#lanes.setDue(lane, at),
    })
    this.#memoryQueue = new MemoryQueue({
      memory: app.memory,
      tenantOf: (accountId) => this.#ownerOf(accountId),
      start: (attempt, prepared) => {
        const { lane, worker } = attempt
        attempt.sentToWorkerAt = clock.now()
        attempt.maxWantedBodyMs = MAX_WANTED_BODY_MS + prepared.sizeBytes / MIN_BYTES_PER_MS
        this.#pool?.start(worker, prepared, {
          owner: this.#ownerOf(accountOfLane(lane)),
          laneClass: classOfLane(lane),
          // A suspension may have begun since the claim: then the Worker returns the message.
          limits: this.#limitsOf(attempt.destination.pair),
        })
        this.#renderQueue.leave(attempt)
      },
      isBulk: (attempt) => isBulkLane(attempt.lane),
      workerOf: (attempt) => attempt.worker,
    })
  }

  /** Recovers from a crash, then starts the Workers and the queue. */
  async start(): Promise<void> {
    const { config, log, clock, keys } = this.#app
    const recovered = await recoverInterrupted(this.#app)
    if (recovered.requeued + recovered.uncertain > 0) log.warn(recovered, 'recovered from an unclean shutdown')
    const sources = readSources(config).map(({ ip }) => ip)
    await recordSources(this.#app, sources.length > 0 ? sources : [''])
    // The content may have been restored since the last run.
    await releaseWithoutContent(this.#app)
    this.#pool = this.#createPool({
      count: config.workers,
      settings: {
        contentFolder: join(config.dataDir, 'content'),
        ehloName: config.hostname,
        outboundSources: readSources(config),
        authorities: readCertificateAuthorities(config),
        tracking: { keyHex: keys.subkey('tracking').toHex(), ownUrl: trimTrailingSlashes(config.publicUrl) },
      },
      clock,
      log,
      onMessages: (messages) => this.#onMessages(messages),
      onDeath: (worker) => this.#onWorkerDeath(worker),
    })
    this.#security.start()
    await this.#releaseOverdueMail()
    const stopDue = this.#app.mailDue.listen(({ lane, at, isRetryAsked }) => this.#lanes.setDue(lane, at, isRetryAsked))
    const stopSetBack = this.#app.clockSetBack.listen(() => void this.#releaseOverdueMail())
    this.#stopListening = () => {
      stopDue()
      stopSetBack()
    }
    void this.#wakeOpenLanes()
  }

  /** Wakes every lane, in batches; the first before it returns. */
  async #wakeOpenLanes(): Promise<void> {
    const { db, log, clock } = this.#app
    for (let after: string | undefined = ''; after !== undefined && !this.#stopping.signal.aborted; ) {
      try {
        const lanes = listLanesAfter(db, after, WOKEN_LANES)
        for (const { lane, firstAt } of lanes) this.#lanes.setDue(lane, firstAt)
        after = lanes.at(-1)?.lane
        await yieldToEventLoop()
      } catch (error) {
        log.error({ err: error }, 'lanes not read; retrying')
        await clock.sleep(STORAGE_RETRY_MS)
      }
    }
  }

  /** Begins nothing more, waits at most 60 s for begun transactions, and settles the rest. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#stopListening()
    this.#lanes.cancelTimers()
    this.#watch?.cancel()
    this.#overdueRetry?.cancel()
    this.#pool?.postAll({ type: 'drain' })
    // Claims must complete first; otherwise their recipients would stay claimed until the next start.
    await Promise.allSettled(this.#claiming)
    await this.#attempts.waitForBegun()
    this.#renderQueue.clear()
    this.#memoryQueue.clear()
    await this.#attempts.settleStopped()
    await this.#security.stop()
    await this.#pairs.stop()
    this.#pool?.terminate()
  }

  /** Limits, rates and suspensions by provider and outgoing address. */
  get pairs(): Pairs {
    return this.#pairs
  }

  /** Messages in flight now. */
  get inFlight(): number {
    return this.#sites.inFlight
  }

  /** Every lane with open mail, and why its due mail waits. Reads all at once, so only for a short queue. */
  states(): LaneState[] {
    const open: OpenLane[] = []
    for (let place: QueuePosition | undefined = QUEUE_START; place; ) {
      const counted = countOpen(this.#app.db, place)
      joinLanes(open, counted.lanes)
      place = counted.place
    }
    return open.map(({ lane, firstAt, waiting }) => ({
      lane,
      waiting,
      firstDue: firstAt,
      reason: this.describeWait(lane, firstAt),
    }))
  }

  /** Why the mail of a lane waits. @param firstDue when its earliest recipient is due */
  describeWait(lane: string, firstDue: Millis): string {
    const now = this.#app.clock.now()
    const attempts = this.#attempts.ofLane(lane)
    if (attempts[0]) {
      const isWaitingForConnection = this.#sites.isWaitingAt(attempts[0].destination.siteName, lane)
      return `${attempts.length} in delivery${isWaitingForConnection ? ', the others wait for a connection' : ''}`
    }
    const hold = findHold(this.#app.db, lane, this.#lanes.findProvider(lane))
    if (hold) return describeHold(hold)
    if (firstDue > now) return NOT_DUE_REASON
    const afterOthers = isBulkLane(lane) ? ', after all non-broadcast mail' : ''
    const pair = this.#sites.findWaitingPair(lane)
    if (pair) return `${this.#describePair(pair, now, isBulkLane(lane))}${afterOthers}`
    const waiting = this.#sites.findWaitingSite(lane)
    if (waiting) {
      const [name, site] = waiting
      const { backoffUntil, backoffReason } = site
      return this.#sites.backoffLeftMs(site) > 0
        ? `${name} is in backoff until ${new Date(backoffUntil).toISOString()}: ${backoffReason}`
        : `waits for a connection to ${name}${afterOthers}`
    }
    if (this.#sites.isWaitingForSlot(lane))
      return `waits for a free slot${afterOthers}: the limit of messages in delivery is reached, in total, for its account or for one address`
    return 'is about to be delivered'
  }

  #describePair(pair: Pair, now: Millis, isBulk: boolean): string {
    const { suspension } = pair.state
    if (suspension && pair.suspendedMs(now) > 0)
      return `${pair.key} is suspended until ${new Date(suspension.until).toISOString()} (${suspension.rule}): ${suspension.reason}`
    if (suspension) return `waits for the probe of ${pair.key} (${suspension.rule}): ${suspension.reason}`
    if (pair.budgetWaitMs(isBulk, now) > 0) return describeBudget(pair, now)
    return pair.allowance(this.#pairs.instant()) === Number.POSITIVE_INFINITY
      ? `waits for a connection to ${pair.key}`
      : `${pair.key} gets at most ${Math.round(pair.ratePerMinute)} messages a minute`
  }

  /** Claims and starts due recipients as long as there is capacity. */
  async #pump(lane: Lane): Promise<void> {
    const { clock, log } = this.#app
    const stopping = this.#stopping.signal
    try {
      while (!stopping.aborted && lane.firstDue !== undefined) {
        if (lane.firstDue > clock.now()) return this.#lanes.sleepUntil(lane, lane.firstDue)
        if (findHold(this.#app.db, lane.name)) return this.#sleepHeld(lane)
        if (this.#attempts.unstored > 0) return this.#lanes.sleepUntil(lane, clock.now() + STORAGE_RETRY_MS)
        if (this.#sites.slotsFor(lane.name) <= 0) return this.#waitForSlot(lane)
        if (await this.#isProviderHeld(lane)) return this.#sleepHeld(lane)
        const owner = this.#ownerOf(accountOfLane(lane.name))
        const routeResult = await this.#routeTurns.run(owner, () =>
          this.#sites.slotsFor(lane.name) > 0 ? this.#findRoute(lane, owner) : undefined,
        )
        if (stopping.aborted) return
        if (!routeResult) return this.#waitForSlot(lane)
        if (routeResult.kind === 'pending') {
          // The turn ends, so that lanes that wait for the same slots need not wait for the policy of this domain.
          void routeResult.ready.then(() => this.#lanes.wake(lane.name))
          return this.#lanes.sleepInQueue(lane)
        }
        if (routeResult.kind === 'temporary' && !canOpenDescriptor()) {
          log.warn({ lane: lane.name }, 'delivery waits: this process has too many open files')
          return this.#lanes.sleepUntil(lane, clock.now() + STORAGE_RETRY_MS)
        }
        const claiming =
          routeResult.kind === 'route'
            ? this.#handOut(lane, { ...routeResult, route: this.#failedAddresses.apply(routeResult.route) })
            : this.#settleUnroutable(lane, routeResult)
        this.#claiming.add(claiming)
        const canContinue = await claiming.finally(() => this.#claiming.delete(claiming))
        if (!canContinue) return
      }
    } catch (error) {
      log.error({ err: error, lane: lane.name }, 'queue processing failed; retrying')
      this.#lanes.sleepUntil(lane, clock.now() + STORAGE_RETRY_MS)
    }
  }

  /** Whether an operator holds the provider of a lane, which is looked up only while a rule names a provider. */
  async #isProviderHeld(lane: Lane): Promise<boolean> {
    const { db } = this.#app
    lane.provider = hasProviderRules(db)
      ? await findLaneProvider(this.#app, this.#pairs.registry, lane.name)
      : undefined
    return lane.provider !== undefined && findHold(db, lane.name, lane.provider) !== undefined
  }

  /** The route of a lane. Mail to a provider with `route = "smarthost"` takes the smarthost in delivery mode direct, too. */
  async #findRoute(lane: Lane, owner: number): Promise<RouteResult> {
    const found = await routeLane(
      this.#app,
      lane.name,
      this.#localServers,
      this.#security.ofAccount(owner),
      lane.provider,
    )
    if (found.kind !== 'route' || this.#pairs.registry.providerOf(found.route).policy.route === 'direct') return found
    if (found.route.smarthost || !found.route.fromOutboundIps) return found
    return resolveSmarthostRoute(this.#app, this.#app.config.relayUrl === '' ? OVERFLOW_PROVIDER : SMARTHOST_PROVIDER)
  }

  /** Waits until an operator releases the lane: it then gets the signal `mailDue`. */
  #sleepHeld(lane: Lane): void {
    this.#sites.leaveQueues(lane.name)
    this.#lanes.sleepInQueue(lane)
  }

  #waitForSlot(lane: Lane): void {
    this.#sites.waitForSlot(lane.name)
    this.#watchSlowAttempts()
    this.#lanes.sleepInQueue(lane)
  }

  /** Claims for a site and starts the jobs. False when the lane has to wait. */
  async #handOut(
    lane: Lane,
    { route, policy }: Extract<RouteResult, { kind: 'route' }>,
    dueBy?: Millis,
  ): Promise<boolean> {
    const now = this.#app.clock.now()
    const isBulk = isBulkLane(lane.name)
    const site = this.#sites.getSite(route.site)
    if (lane.retryAskedAt !== undefined) this.#sites.endBackoff(site, lane.retryAskedAt)
    lane.retryAskedAt = undefined
    const { pair, source, canLeave } = this.#choosePair(lane, route)
    const overflow = await this.#findOverflow(lane, route, pair)
    if (overflow) return this.#handOut(lane, overflow, overflow.dueBy)
    if (this.#sites.backoffLeftMs(site) > 0) return this.#waitForBackoff(lane, route, site, pair)
    site.connections =
      pair.provider.policy.connections * Math.max(1, this.#sources.usableFor(route, this.#poolOf(lane)).length)
    const destination = toDestination(route, pair)
    if (pair.allowance(this.#pairs.instant()) <= 0 || pair.budgetWaitMs(isBulk, now) > 0)
      return this.#waitForPair(lane, route, pair)
    if (this.#sites.capacityOfSite(site, lane.name) <= 0) {
      this.#sites.waitForSite(site, lane.name)
      this.#lanes.sleepInQueue(lane)
      return false
    }
    if (this.#sites.capacityOfAddress(destination.network, lane.name) <= 0) {
      this.#sites.waitForAddress(destination.network, lane.name)
      this.#lanes.sleepInQueue(lane)
      return false
    }
    const pairCapacity = this.#sites.capacityOfPair(pair, lane.name)
    if (pairCapacity <= 0) return this.#waitForPair(lane, route, pair)
    this.#sites.leaveQueues(lane.name)
    // Checked again, because others may have taken slots during the route lookup.
    if (this.#sites.slotsFor(lane.name) <= 0) {
      this.#waitForSlot(lane)
      return false
    }
    const max = Math.min(
      pairCapacity,
      this.#sites.capacityOfSite(site, lane.name),
      this.#sites.capacityOfAddress(destination.network, lane.name),
      this.#sites.slotsFor(lane.name),
      this.#maxBeforeOverflow(lane, route, pair),
    )
    // Of mail that is late, the earliest may have become so over several attempts.
    const limit =
      dueBy === undefined
        ? countDue(this.#app.db, lane.name, now, max)
        : Math.max(1, countDue(this.#app.db, lane.name, dueBy, max))
    // Acquired before the commit, so that other lanes do not claim into the same slots.
    this.#sites.acquireSlots(destination, limit, lane.name)
    pair.take(limit, this.#pairs.instant())
    const pairGeneration = pair.generation
    let claimed: ClaimedRecipient[] = []
    try {
      claimed = await this.#app.commit.writeFromReserve((tx) =>
        claimLane(this.#app, tx, lane.name, { limit, now, provider: lane.provider, ...(canLeave && { canLeave }) }),
      )
    } finally {
      this.#sites.releaseSlots(destination, limit - claimed.length, lane.name)
      pair.giveBack(limit - claimed.length, this.#pairs.instant())
      // A probe that was not claimed has no outcome that would wake the lanes that wait for it.
      if (claimed.length < limit) this.#pairs.onOutcome(pair, false)
    }
    const limits = this.#limitsOf(pair)
    const attempts = claimed.map(
      (recipient): InFlightAttempt => ({
        ...recipient,
        startedAt: undefined,
        lane: lane.name,
        destination,
        isRelayed: route.smarthost !== undefined,
        pairGeneration,
        sentToWorkerAt: undefined,
        maxWantedBodyMs: MAX_WANTED_BODY_MS,
        limits,
        worker: this.#assignWorker(recipient, limits, isBulk),
        settling: undefined,
        tlsPolicy: policy,
      }),
    )
    for (const attempt of attempts) this.#attempts.add(attempt)
    const routeOfSource = toRouteOfSource(route, pair, source)
    // One snapshot, because each read outside of it would acquire the lock of the database again.
    readSnapshot(this.#app.db, () => {
      for (const attempt of attempts) this.#startJob(attempt, routeOfSource)
    })
    this.#watchSlowAttempts()
    lane.firstDue = findFirstDue(this.#app.db, lane.name)
    return true
  }

  /**
   * Chooses the outgoing address of the next attempts of a lane, and with it the pair. `canLeave` is whether a
   * recipient may leave from there, by the address of its last attempt.
   */
  #choosePair(
    lane: Lane,
    route: Route,
  ): { pair: Pair; source: OutboundSource | undefined; canLeave?: (lastSendingIp: string | null) => boolean } {
    const provider = this.#pairs.registry.providerOf(route)
    const usable = this.#sources.usableFor(route, this.#poolOf(lane))
    const pairOf = ({ ip }: OutboundSource) => this.#pairs.get(provider, ip)
    const isBulk = isBulkLane(lane.name)
    const msUntilAllowed = (source: OutboundSource) => {
      const pair = pairOf(source)
      const at = this.#pairs.instant()
      const budgetMs = pair.budgetLeft(isBulk, at.now) > 0 ? 0 : (pair.warmUp?.msUntilNextDay(at.now) ?? 0)
      return Math.max(pair.msUntilAllowed(at) ?? Number.POSITIVE_INFINITY, budgetMs)
    }
    // The address of the last attempt has no preference while it is suspended, or its mail would be all its probes.
    const isPreferable = (source: OutboundSource) =>
      pairOf(source).state.suspension === undefined && msUntilAllowed(source) === 0
    const last = usable.length > 1 ? findLastSendingIp(this.#app.db, lane.name) : null
    const preferred = usable.find((source) => source.ip === last && isPreferable(source))
    const source = preferred ?? this.#sources.choose(usable, msUntilAllowed)
    if (!source) return { pair: this.#pairs.get(provider, ''), source }
    // Mail that was last sent from another address that may send now waits for a turn of that one.
    const others = new Set(usable.filter((other) => other !== source && isPreferable(other)).map(({ ip }) => ip))
    return { pair: pairOf(source), source, canLeave: (ip) => ip === null || !others.has(ip) }
  }

  /** Whether mail over a route may take the smarthost for overflow: not where an operator sends it, and not locally. */
  #canOverflow(lane: Lane, route: Route): boolean {
    const { config, db } = this.#app
    if (config.overflowUrl === '' || config.delivery !== 'direct') return false
    return route.fromOutboundIps && !route.smarthost && findRedirect(db, lane.name) === undefined
  }

  #waitingMailOf(lane: Lane, pair: Pair): WaitingMail {
    const { clock, config, db } = this.#app
    const first = findFirstWaiting(db, lane.name) ?? { attempts: 0, since: clock.now() }
    return { pair, ...first, isBulk: isBulkLane(lane.name), afterMs: minutes(config.overflowAfter) }
  }

  /** The route of mail that takes the smarthost instead of waiting; undefined if none does, or the smarthost takes none. */
  async #findOverflow(lane: Lane, route: Route, pair: Pair) {
    if (!this.#canOverflow(lane, route)) return undefined
    const at = this.#pairs.instant()
    const mail = this.#waitingMailOf(lane, pair)
    const choice = chooseOverflow(mail, at)
    if (!choice) return undefined
    const found = await resolveSmarthostRoute(this.#app, OVERFLOW_PROVIDER)
    if (found.kind !== 'route' || this.#sites.backoffLeftMs(this.#sites.getSite(found.route.site)) > 0) return undefined
    if (this.#choosePair(lane, found.route).pair.allowance(at) <= 0) return undefined
    return { ...found, dueBy: choice === 'all' ? at.now : at.now - mail.afterMs }
  }

  /** How many messages may be claimed before the next ones take the smarthost, because the budget is used. */
  #maxBeforeOverflow(lane: Lane, route: Route, pair: Pair): number {
    const left = pair.budgetLeft(isBulkLane(lane.name), this.#app.clock.now())
    return left > 0 && this.#canOverflow(lane, route) ? left : Number.POSITIVE_INFINITY
  }

  /** Sleeps until a time, or until the mail may take the smarthost, if that is earlier. */
  #sleepOrOverflow(lane: Lane, route: Route, pair: Pair, until: Millis): void {
    const overflowAt = this.#canOverflow(lane, route)
      ? nextOverflowAt(this.#waitingMailOf(lane, pair), this.#pairs.instant())
      : Number.POSITIVE_INFINITY
    this.#lanes.sleepUntil(lane, Math.min(until, overflowAt))
  }

  /** The pool of a lane's mail. One that is not configured counts as none, with a warning. */
  #poolOf({ name }: Lane): string | undefined {
    const { db, log } = this.#app
    return listPools(db, name, this.#ownerOf(accountOfLane(name))).find((pool) => {
      if (this.#sources.hasPool(pool)) return true
      if (!this.#missingPools.has(pool))
        log.warn({ pool }, 'no address of TASSIS_OUTBOUND_IPS is in this pool; its mail leaves from the others')
      this.#missingPools.add(pool)
      return false
    })
  }

  /** Waits for the backoff of a site. True when there is more to do now. */
  async #waitForBackoff(lane: Lane, route: Route, site: Site, pair: Pair): Promise<boolean> {
    const { backoffUntil: until, failures } = site
    const reason = `${route.site} is not tried for a while: ${site.backoffReason}`
    if (await this.#noteWaiting(lane, { reason, until, failures })) return true
    this.#sites.waitForSite(site, lane.name)
    this.#sleepOrOverflow(lane, route, pair, until)
    return false
  }

  /** Waits until a message may begin over a pair. True when there is more to do now. */
  async #waitForPair(lane: Lane, route: Route, pair: Pair): Promise<boolean> {
    const at = this.#pairs.instant()
    const { suspension } = pair.state
    const budgetWaitMs = pair.budgetWaitMs(isBulkLane(lane.name), at.now)
    const reason = suspension
      ? `${pair.key} is not tried for a while: ${suspension.reason}`
      : budgetWaitMs > 0
        ? describeBudget(pair, at.now)
        : `${pair.key} gets at most ${Math.round(pair.ratePerMinute)} messages a minute`
    const until = at.now + Math.max(pair.msUntilAllowed(at) ?? 0, budgetWaitMs)
    const isBlocked = budgetWaitMs > 0 || pair.allowance(at) !== Number.POSITIVE_INFINITY
    if (isBlocked && (await this.#noteWaiting(lane, { reason, until, failures: suspension?.failures ?? 0 })))
      return true
    this.#sites.waitForPair(pair, lane.name)
    this.#sleepOrOverflow(lane, route, pair, budgetWaitMs > 0 ? until : Number.POSITIVE_INFINITY)
    return false
  }

  /** Notes why the due mail of a lane waits. True when the lane has more to note, or nothing due any more. */
  async #noteWaiting(lane: Lane, wait: Wait): Promise<boolean> {
    const hasMore = await this.#notes.note(lane, wait)
    lane.firstDue = findFirstDue(this.#app.db, lane.name)
    return hasMore || lane.firstDue === undefined || lane.firstDue > this.#app.clock.now()
  }

  async #settleUnroutable(lane: Lane, unroutable: Unroutable): Promise<boolean> {
    await settleUnroutable(this.#app, lane.name, unroutable)
    lane.firstDue = findFirstDue(this.#app.db, lane.name)
    return true
  }

  /** Recipients who share a large body share a Worker: each Worker would need memory and time for it. */
  #assignWorker({ emailId, mail }: ClaimedRecipient, limits: TotalLimits, isBulk: boolean): number {
    return this.#pool?.assign(limits, isBulk, mail.sharesLargeBody === 1 ? emailId : undefined) ?? 0
  }

  /** The limits of the connections of a pair, over all Workers. */
  #limitsOf(pair: Pair): TotalLimits {
    const { messagesPerConnection, connectionAgeMs, idleMs } = pair.provider.policy
    const connections = pair.connections(this.#pairs.instant())
    return { key: pair.key, connections, messagesPerConnection, maxAgeMs: connectionAgeMs, idleMs }
  }

  #startJob(attempt: InFlightAttempt, route: Route): void {
    try {
      const built = this.#jobs.build(attempt, attempt.mail.address, route)
      if ('isTlsReport' in built) attempt.tlsPolicy = undefined
      if ('render' in built)
        this.#renderQueue.enqueue(attempt, this.#ownerOf(built.accountId), () => void this.#render(attempt, built))
      else this.#memoryQueue.enqueue(attempt, built)
    } catch (error) {
      if (isTransientError(error)) this.#postpone(attempt, error)
      else this.#failUnbuilt(attempt, error)
    }
  }

  /** Starts the job of a broadcast email once it is rendered. */
  async #render(attempt: InFlightAttempt, unrendered: UnrenderedJob): Promise<void> {
    try {
      const prepared = await unrendered.render()
      // The attempt ended during the rendering, for example by a shutdown.
      if (this.#attempts.findUnsettled(attempt.recipientId) !== attempt) return
      this.#memoryQueue.enqueue(attempt, prepared)
      this.#watchSlowAttempts()
    } catch (error) {
      if (this.#attempts.findUnsettled(attempt.recipientId) !== attempt) return
      if (error instanceof TemplateError) return this.#failUnbuilt(attempt, error)
      if (error instanceof MissingBlobError) return this.#holdWithoutContent(attempt)
      this.#postpone(attempt, error)
    }
  }

  #holdWithoutContent(attempt: InFlightAttempt): void {
    this.#logAttempt(attempt, { kind: 'content_missing' }, undefined)
    void this.#attempts.settle(attempt, { kind: 'content_missing' }, undefined)
  }

  /** Returns a recipient to the queue without counting an attempt, because a later attempt may succeed. */
  #postpone(attempt: InFlightAttempt, error: unknown): void {
    this.#app.log.warn(
      { err: error, email: findLogId(this.#app.db, attempt.emailId), recipient: attempt.recipientId },
      'delivery postponed: cannot prepare the message',
    )
    void this.#attempts.settle(attempt, { kind: 'released' }, undefined)
  }

  #failUnbuilt(attempt: InFlightAttempt, error: unknown): void {
    this.#app.log.error(
      { err: error, email: findLogId(this.#app.db, attempt.emailId), recipient: attempt.recipientId },
      'message not composed',
    )
    const reason = toPublicReason(error).slice(0, MAX_REASON_LENGTH).toWellFormed()
    void this.#attempts.settle(attempt, { kind: 'failed', reason }, undefined)
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
      else this.#onOutcome(attempt, message)
    }
  }

  #onOutcome(attempt: InFlightAttempt, { result, session, trace }: Extract<FromWorker, { type: 'outcome' }>): void {
    attempt.trace = trace
    if (trace && result.kind === 'accepted')
      this.recentDialogues.add(attempt.destination.siteName, attempt.recipientId, trace.dialogue)
    this.#security.countSessions(attempt.tlsPolicy, listTlsResults(result, session))
    if (session) this.#failedAddresses.recordSession(session.address)
    const failures = this.#applyResult(attempt, result, session)
    const attemptVerdict = toVerdict(result, providerOf(attempt))
    const verdict =
      failures > 0 && attemptVerdict.kind === 'deferred'
        ? { ...attemptVerdict, siteFailures: failures }
        : attemptVerdict
    const outcome = TRAFFIC_OUTCOMES[verdict.kind]
    if (outcome) this.#pairs.count(attempt.destination.pair, outcome)
    if (result.kind === 'postponed' || result.kind === 'broken') this.#logOwnFailure(attempt, result)
    else this.#logAttempt(attempt, verdict, session)
    this.alerts.note(verdict, { site: attempt.destination.siteName, pair: attempt.destination.pair, session })
    void this.#attempts.settle(attempt, verdict, session)
  }

  /**
   * Applies the result of an attempt to its pair and its site. Returns the failures in a row that count as attempts for
   * all mail that waits there; 0 when the result is no such failure.
   */
  #applyResult(attempt: InFlightAttempt, result: AttemptResult, session: AttemptSession | undefined): number {
    const { pairGeneration: generation } = attempt
    const { siteName, pair } = attempt.destination
    const at = this.#pairs.instant()
    const site = this.#sites.getSite(siteName)
    const action = findPairAction(result, providerOf(attempt), pair.state.suspension !== undefined)
    if (session) this.#sites.recordSession(site)
    if (action) {
      const pairs = action.kind === 'suspend_source' ? this.#pairs.pairsOfSource(pair.sourceIp) : [pair]
      for (const affected of pairs) {
        const from = affected === pair ? generation : affected.generation
        const hasChanged =
          action.kind === 'slow' ? affected.slowDown(from, action, at) : affected.suspend(from, action, at)
        this.#pairs.onOutcome(affected, hasChanged)
      }
      return Math.max(1, pair.state.suspension?.failures ?? 0)
    }
    if (result.kind === 'accepted' || result.kind === 'refused')
      this.#pairs.onOutcome(pair, pair.recordSuccess(generation, at))
    if (result.kind !== 'unreachable') return 0
    this.#sites.backOff(site, result.failure.message)
    return site.failures
  }

  /** Logs an attempt that our own error ended before the message began. */
  #logOwnFailure(
    attempt: InFlightAttempt,
    { kind, detail }: Extract<AttemptResult, { kind: 'postponed' | 'broken' }>,
  ): void {
    const fields = { email: findLogId(this.#app.db, attempt.emailId), recipient: attempt.recipientId, detail }
    if (kind === 'postponed') this.#app.log.warn(fields, 'delivery postponed')
    else this.#app.log.error(fields, 'message not composed')
  }

  /** Logs one line per attempt: routine outcomes at debug level, all others above it. */
  #logAttempt(attempt: InFlightAttempt, verdict: Verdict, session: AttemptSession | undefined): void {
    const isRoutine = verdict.kind === 'sent' || verdict.kind === 'released'
    if (isRoutine && !this.#app.log.isLevelEnabled('debug')) return
    const fields = {
      email: findLogId(this.#app.db, attempt.emailId),
      recipient: attempt.recipientId,
      lane: attempt.lane,
      attempt: attempt.attempt,
      host: session?.host,
      ...verdict,
    }
    if (isRoutine) this.#app.log.debug(fields, verdict.kind)
    else if (verdict.kind === 'failed') this.#app.log.error(fields, verdict.kind)
    else if (verdict.kind === 'content_missing')
      this.#app.log.error(
        fields,
        'an email waits because its stored content is missing; `tassis check` lists such emails',
      )
    else this.#app.log.info(fields, verdict.kind)
  }

  /** Repeats the search until it succeeds: until then, mail may wait for the time of a clock that was wrong. */
  async #releaseOverdueMail(): Promise<void> {
    const { clock, log } = this.#app
    try {
      await releaseOverdueMail(this.#app, this.#stopping.signal)
    } catch (error) {
      if (this.#stopping.signal.aborted) return
      log.error({ err: error }, 'search for mail deferred by a fast clock failed; retrying')
      this.#overdueRetry?.cancel()
      this.#overdueRetry = clock.after(STORAGE_RETRY_MS, () => void this.#releaseOverdueMail())
    }
  }

  #onWorkerDeath(worker: number): void {
    // Read before anything is settled, because settling starts waiting jobs.
    const waiting = this.#memoryQueue.waiting()
    const lost = this.#attempts
      .all()
      .filter((h) => h.worker === worker && !h.settling && !waiting.has(h) && !this.#renderQueue.has(h))
    for (const attempt of lost) void this.#attempts.settle(attempt, toWorkerDeathVerdict(attempt), undefined)
  }

  /** Releases slot and memory, and wakes the lanes and jobs that wait for them. */
  #releaseResources(attempt: InFlightAttempt): void {
    this.#renderQueue.leave(attempt)
    this.#memoryQueue.release(attempt)
    this.#pool?.leave(attempt.worker, attempt.limits)
    this.#sites.releaseSlots(attempt.destination, 1, attempt.lane)
    const { pair } = attempt.destination
    pair.releaseProbe(attempt.pairGeneration)
    this.#pairs.onOutcome(pair, false)
    this.#memoryQueue.startWaiting()
    this.#offerSlots()
    this.#sites.evictIdle(attempt.destination)
  }

  #offerSlots(): void {
    if (!this.#stopping.signal.aborted) this.#sites.offerSlots()
  }

  /** While others wait for slots or memory, checks regularly for attempts that take too long. */
  #watchSlowAttempts(): void {
    if (this.#watch || this.#stopping.signal.aborted) return
    if (!this.#sites.areSlotsWanted && !this.#memoryQueue.hasWaiting) return
    this.#watch = this.#app.clock.after(SLOW_ATTEMPTS_INTERVAL_MS, () => {
      this.#watch = undefined
      // Requests may have released memory since then.
      this.#memoryQueue.startWaiting()
      this.#cutSlowAttempts()
      this.#watchSlowAttempts()
    })
  }

  /**
   * Tells the Workers to end slow attempts of three kinds:
   * - attempts whose message has not begun, if other mail of their account waits for a slot or memory;
   * - attempts whose memory other accounts wait for, even if the message has begun;
   * - as many attempts of an account, oldest first, as it has slots in excess, even if the message has begun.
   */
  #cutSlowAttempts(): void {
    const now = this.#app.clock.now()
    const recipientsByWorker = new Map<number, number[]>()
    const excess = new Map<number, number>()
    for (const attempt of this.#attempts.all()) {
      const { lane, worker, recipientId, startedAt, sentToWorkerAt = now, settling } = attempt
      const hasBegun = startedAt !== undefined
      const isSlow = hasBegun
        ? now - startedAt >= attempt.maxWantedBodyMs
        : now - sentToWorkerAt >= MAX_WANTED_ENVELOPE_MS
      if (!isSlow || settling) continue
      const owner = this.#ownerOf(accountOfLane(lane))
      const excessSlots = excess.get(owner) ?? this.#sites.countExcess(owner)
      const isBlockingOthers = excessSlots > 0 || this.#memoryQueue.isBlockingOthers(attempt)
      const isBlockingOwn = this.#sites.isSlotWanted(owner) || this.#memoryQueue.isBlockingOwn(attempt)
      if (!isBlockingOthers && (hasBegun || !isBlockingOwn)) continue
      excess.set(owner, excessSlots - 1)
      recipientsByWorker.set(worker, [...(recipientsByWorker.get(worker) ?? []), recipientId])
    }
    for (const [worker, recipientIds] of recipientsByWorker) this.#pool?.post(worker, { type: 'cut', recipientIds })
  }

  /** The account that slots, memory and rendering are counted for: sub-accounts share those of their parent. */
  #ownerOf(accountId: number): number {
    return getTenantId(this.#app.db, accountId)
  }
}

/** The TLS of the sessions that an attempt opened or tried to open; not that of a session that it reused. */
const listTlsResults = (result: AttemptResult, session: AttemptSession | undefined): readonly TlsResult[] => [
  ...((result.kind === 'unreachable' && result.tlsResults) || []),
  ...(session?.tlsFailures ?? []),
  ...(session?.tlsResult && !session.isReused ? [session.tlsResult] : []),
]

/** Why the budget of a warm-up holds mail back. */
const describeBudget = ({ key, warmUp }: Pair, now: Millis): string =>
  `${key} has had its ${warmUp?.stateAt(now).budget} messages of the day, because our address is new to it`

/** The provider of an attempt, by its name in providers.toml. */
const providerOf = ({ destination: { pair } }: InFlightAttempt): string | undefined =>
  pair.provider.isNamed ? pair.provider.name : undefined

/** What is counted for a verdict; the others say nothing about the provider. */
const TRAFFIC_OUTCOMES: Partial<Record<Verdict['kind'], TrafficOutcome>> = {
  sent: 'accepted',
  deferred: 'deferred',
  bounced: 'refused',
}

/** The outgoing addresses with the names that they give in EHLO. */
const readSources = ({ outboundIps, hostname }: Config): OutboundSource[] =>
  outboundIps.flatMap((item) => {
    const source = parseOutboundSource(item)
    return source ? [{ ip: source.ip, ehloName: source.ehloName ?? hostname, pool: source.pool }] : []
  })

/** The route of an attempt: from its source, and with the TLS policy of its provider. */
const toRouteOfSource = (route: Route, { provider }: Pair, source: OutboundSource | undefined): Route => ({
  ...route,
  ...(source && { source }),
  ...(route.tls === 'opportunistic' && { tls: provider.policy.tls }),
})

/** The verdict of an attempt whose Worker died. */
const toWorkerDeathVerdict = (attempt: InFlightAttempt): Verdict =>
  attempt.startedAt === undefined
    ? {
        kind: 'deferred',
        category: 'unknown',
        rule: 'worker-ended',
        reason: 'The delivery Worker ended unexpectedly',
        reply: undefined,
      }
    : {
        kind: 'uncertain',
        reason: 'The delivery Worker ended unexpectedly, so the receiver may have it',
      }
