/**
 * @module The scheduler of the mail queue (main thread): starts and stops delivery, claims what is due as far as its site has room, and hands it to
 * the Workers. Never composes, signs or dials; that is the Workers'.
 *
 * lane: see queue/lanes. site: where a lane's route leads; lanes with the same MX hosts share it, and its limits. Mail of broadcasts has lanes of its
 * own, which come after all others everywhere: for slots, for memory and in the Workers.
 */
import { join } from 'node:path'
import { tenantOf } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { accountOfLane, isBulkLane } from '#features/sending/queue/lanes.ts'
import { logIdOf } from '#features/sending/queue/names.ts'
import { countDue, laneFirstDue, openLanes } from '#features/sending/queue/queue.ts'
import { ownUrl } from '#features/sending/tracking/base-url.ts'
import type { Millis, Timer } from '#platform/clock.ts'
import { MissingPart } from '#platform/content/read.ts'
import { canOpenDescriptor } from '#platform/descriptors.ts'
import { STORAGE_RETRY_MS } from '#platform/queue/retry.ts'
import { isPassingError, publicReason } from '#platform/storage-errors.ts'
import { minutes, seconds } from '#platform/units.ts'
import { type Claimed, claimLane, holdLane, settleUnrouted, type Unrouted } from './claim.ts'
import { type Hand, Hands } from './hands.ts'
import { JobBuilder, type UnrenderedJob } from './job.ts'
import { type Lane, Lanes } from './lanes.ts'
import { MemoryQueue } from './memory-queue.ts'
import { judge, type Verdict } from './outcome.ts'
import { makeOverdueDue } from './overdue.ts'
import type { AttemptResult, AttemptSession, FromWorker, Route } from './protocol.ts'
import { recoverInterrupted } from './recover.ts'
import { RenderLine } from './render-line.ts'
import { TemplateFailure } from './rendered.ts'
import { type CaptureAddress, routeLane } from './route.ts'
import { siteRefusalOf } from './site-refusal.ts'
import { destinationOf, type Site, Sites } from './sites.ts'
import { releaseWithoutContent } from './without-content.ts'
import { createWorkerPool, type WorkerPool } from './worker-pool.ts'

/** Why a lane's due mail waits, in words; for `tassis queue`. */
export interface LaneState {
  readonly lane: string
  readonly waiting: number
  readonly firstDue: Millis
  readonly reason: string
}

/** A hold that is not told by an event. */
const UNTOLD_HOLD_MS = minutes(1)
/**
 * How long an attempt may take whose slot or memory is wanted: until the message begins, and from there. RFC 5321
 * §4.5.3.2 gives a server up to 20 minutes for the first and 10 for its reply to the final dot. What ends before the
 * message began is deferred and tried again; what ends after it is `uncertain`, so that longer is waited there, though no
 * server that works well takes so long.
 */
const MAX_WANTED_ENVELOPE_MS = minutes(1)
const MAX_WANTED_BODY_MS = minutes(2)
/** Beyond that, time for the octets of the message over a slow line: 64 kB a second. */
const MIN_BYTES_PER_MS = 64
const SLOW_ATTEMPTS_INTERVAL_MS = seconds(5)
/** Of why an email could not be built, as it is stored with each recipient. */
const MOST_REASON_CHARACTERS = 1000

export class DeliveryScheduler {
  readonly #app: App
  readonly #capture: CaptureAddress
  readonly #stopping = new AbortController()
  readonly #lanes: Lanes
  readonly #sites: Sites
  readonly #hands: Hands
  readonly #memoryQueue: MemoryQueue<Hand>
  readonly #jobs: JobBuilder
  #pool: WorkerPool | undefined
  /** Those to be rendered, and those whose bodies no Worker has yet. */
  readonly #renderLine = new RenderLine<Hand>()
  /** Claims on their way to the disk. */
  readonly #claiming = new Set<Promise<unknown>>()
  /** Set while attempts are watched. */
  #watch: Timer | undefined
  #stopListening: () => void = () => undefined

  constructor(app: App, capture: CaptureAddress) {
    const { clock, config } = app
    const stopping = this.#stopping.signal
    this.#app = app
    this.#capture = capture
    this.#jobs = new JobBuilder(app)
    this.#lanes = new Lanes({
      clock,
      stopping,
      pump: (lane) => this.#pump(lane),
      onTurnOver: (lane) => {
        if (!lane.isPumping) this.#sites.endTurn(lane.name)
        this.#offerSlots()
      },
    })
    this.#sites = new Sites({
      clock,
      deliveryConcurrency: config.deliveryConcurrency,
      connectionsPerSite: config.connectionsPerSite,
      ownerOf: (lane) => this.#ownerOf(accountOfLane(lane)),
      wake: (lane) => this.#lanes.wake(lane),
    })
    this.#hands = new Hands({
      app,
      stopping,
      onBegun: ({ worker, recipientId }, ok) => this.#pool?.post(worker, { type: 'go', recipientId, ok }),
      onOver: (hand) => this.#leaveSite(hand),
      onDue: (lane, at) => this.#lanes.due(lane, at),
    })
    this.#memoryQueue = new MemoryQueue({
      memory: app.memory,
      tenantOf: (accountId) => this.#ownerOf(accountId),
      start: (hand, prepared) => {
        const { lane, worker } = hand
        hand.sentToWorkerAt = clock.now()
        hand.maxWantedBodyMs = MAX_WANTED_BODY_MS + prepared.sizeBytes / MIN_BYTES_PER_MS
        this.#pool?.start(worker, prepared, { owner: this.#ownerOf(accountOfLane(lane)), isBulk: isBulkLane(lane) })
        this.#renderLine.leave(hand)
      },
      isBulk: (hand) => isBulkLane(hand.lane),
      workerOf: (hand) => hand.worker,
    })
  }

  /** Settles what a crash left, then starts the Workers and the queue. */
  async start(): Promise<void> {
    const { config, log, clock, keys } = this.#app
    const recovered = await recoverInterrupted(this.#app)
    if (recovered.requeued + recovered.uncertain > 0) log.warn(recovered, 'recovered from an unclean end')
    // It may have been put back since.
    await releaseWithoutContent(this.#app)
    this.#pool = createWorkerPool({
      count: config.workers,
      settings: {
        contentFolder: join(config.dataDir, 'content'),
        ehloName: config.hostname,
        outboundIps: config.outboundIps,
        connectionsPerSite: config.connectionsPerSite,
        messagesPerConnection: config.messagesPerConnection,
        connectionIdleMs: seconds(config.connectionIdleSeconds),
        tracking: { keyHex: keys.subkey('tracking').toHex(), ownUrl: ownUrl(config.publicUrl) },
      },
      clock,
      log,
      onMessage: (_, message) => this.#onMessage(message),
      onDeath: (worker) => this.#onWorkerDeath(worker),
    })
    await this.#makeOverdueDue()
    const stopDue = this.#app.mailDue.listen(({ lane, at }) => this.#lanes.due(lane, at))
    const stopSetBack = this.#app.clockSetBack.listen(() => void this.#makeOverdueDue())
    this.#stopListening = () => {
      stopDue()
      stopSetBack()
    }
    for (const { lane, firstAt } of openLanes(this.#app.db)) this.#lanes.due(lane, firstAt)
  }

  /** Begins nothing more; waits for begun transactions, at most 60 s, and settles the rest. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#stopListening()
    this.#lanes.cancelTimers()
    this.#watch?.cancel()
    this.#pool?.postAll({ type: 'drain' })
    // What is being claimed comes into hand first, or it would stay claimed until the next start.
    await Promise.allSettled(this.#claiming)
    await this.#hands.begunSettled()
    this.#renderLine.clear()
    this.#memoryQueue.clear()
    await this.#hands.settleStopped()
    this.#pool?.terminate()
  }

  /** Messages in hand now. */
  get inFlight(): number {
    return this.#sites.inFlight
  }

  /** Every lane with open mail, and why its due mail waits. */
  states(): LaneState[] {
    const now = this.#app.clock.now()
    return openLanes(this.#app.db).map(({ lane, firstAt, waiting }) => ({
      lane,
      waiting,
      firstDue: firstAt,
      reason: this.#reason(lane, firstAt, now),
    }))
  }

  #reason(lane: string, firstDue: Millis, now: Millis): string {
    const hands = this.#hands.all().filter((hand) => hand.lane === lane)
    if (hands[0]) {
      const isCrowded = this.#sites.isWaitingAt(hands[0].destination.siteName, lane)
      return `${hands.length} in delivery${isCrowded ? ', the rest waits for a connection' : ''}`
    }
    if (firstDue > now) return 'waits for its time'
    const afterOthers = isBulkLane(lane) ? ', after all mail that is not of a broadcast' : ''
    const waiting = this.#sites.siteOfWaiting(lane)
    if (waiting) {
      const [name, site] = waiting
      const { restUntil, restReason } = site
      return this.#sites.restLeftMs(site) > 0
        ? `${name} rests until ${new Date(restUntil).toISOString()}: ${restReason}`
        : `waits for a connection to ${name}${afterOthers}`
    }
    if (this.#sites.isWaitingForSlot(lane))
      return `waits for a free slot${afterOthers}: as many messages as allowed are in delivery, in all, of its account or to one address`
    return 'about to be delivered'
  }

  /** Claims and hands out what is due, as long as there is room. */
  async #pump(lane: Lane): Promise<void> {
    const { clock, log } = this.#app
    const stopping = this.#stopping.signal
    try {
      while (!stopping.aborted && lane.firstDue !== undefined) {
        if (lane.firstDue > clock.now()) return this.#lanes.sleepUntil(lane, lane.firstDue)
        if (this.#hands.unstored > 0) return this.#lanes.sleepUntil(lane, clock.now() + STORAGE_RETRY_MS)
        if (this.#sites.slotsFor(lane.name) <= 0) return this.#waitForSlot(lane)
        const routed = await routeLane(this.#app, lane.name, this.#capture)
        if (stopping.aborted) return
        if (routed.kind === 'temporary' && !canOpenDescriptor()) {
          log.warn({ lane: lane.name }, 'delivery waits: this process has too many open files')
          return this.#lanes.sleepUntil(lane, clock.now() + STORAGE_RETRY_MS)
        }
        const claiming =
          routed.kind === 'route' ? this.#handOut(lane, routed.route) : this.#settleUnrouted(lane, routed)
        this.#claiming.add(claiming)
        const isGoing = await claiming.finally(() => this.#claiming.delete(claiming))
        if (!isGoing) return
      }
    } catch (error) {
      log.error({ err: error, lane: lane.name }, 'the queue could not go on; it tries again')
      this.#lanes.sleepUntil(lane, clock.now() + STORAGE_RETRY_MS)
    }
  }

  #waitForSlot(lane: Lane): void {
    this.#sites.waitForSlot(lane.name)
    this.#watchSlowAttempts()
    this.#lanes.sleepInLine(lane)
  }

  /** Claims for a site and starts the jobs. False when the lane has to wait. */
  async #handOut(lane: Lane, route: Route): Promise<boolean> {
    const now = this.#app.clock.now()
    const site = this.#sites.of(route.site)
    const destination = destinationOf(route)
    if (this.#sites.restLeftMs(site) > 0) return this.#waitForRest(lane, route.site, site)
    if (this.#sites.capacityOfSite(site, lane.name) <= 0) {
      this.#sites.waitForSite(site, lane.name)
      this.#lanes.sleepInLine(lane)
      return false
    }
    if (this.#sites.capacityOfAddress(destination.network, lane.name) <= 0) {
      this.#sites.waitForAddress(destination.network, lane.name)
      this.#lanes.sleepInLine(lane)
      return false
    }
    this.#sites.leaveQueues(lane.name)
    // Looked at only now: while the route was looked up others took theirs.
    if (this.#sites.slotsFor(lane.name) <= 0) {
      this.#waitForSlot(lane)
      return false
    }
    const max = Math.min(
      this.#sites.capacityOfSite(site, lane.name),
      this.#sites.capacityOfAddress(destination.network, lane.name),
      this.#sites.slotsFor(lane.name),
    )
    const limit = countDue(this.#app.db, lane.name, now, max)
    // Acquired before the commit, so that other lanes do not claim into the same slots meanwhile.
    this.#sites.acquireSlots(destination, limit, lane.name)
    let claimed: Claimed = []
    try {
      claimed = await this.#app.commit.writeFromReserve((tx) => claimLane(this.#app, tx, lane.name, { limit, now }))
    } finally {
      this.#sites.releaseSlots(destination, limit - claimed.length, lane.name)
    }
    const hands = claimed.map(
      (recipient): Hand => ({
        ...recipient,
        startedAt: undefined,
        lane: lane.name,
        destination,
        sentToWorkerAt: undefined,
        maxWantedBodyMs: MAX_WANTED_BODY_MS,
        worker: this.#pool?.workerOf(route.site) ?? 0,
        settling: undefined,
      }),
    )
    for (const hand of hands) this.#hands.add(hand)
    for (const hand of hands) this.#startJob(hand, route)
    this.#watchSlowAttempts()
    lane.firstDue = laneFirstDue(this.#app.db, lane.name)
    return true
  }

  /** The site rests. A short rest is waited for; of a longer one each due recipient is told by an event. False when nothing is left to do now. */
  async #waitForRest(lane: Lane, name: string, site: Site): Promise<boolean> {
    const now = this.#app.clock.now()
    const { restUntil: until, failures: siteFailures } = site
    if (until - now <= UNTOLD_HOLD_MS) {
      this.#sites.waitForSite(site, lane.name)
      this.#lanes.sleepUntil(lane, until)
      return false
    }
    site.slots.waiting.delete(lane.name)
    const reason = `${name} is left alone for a while: ${site.restReason}`
    await holdLane(this.#app, lane.name, { now, until, reason, siteFailures })
    lane.firstDue = laneFirstDue(this.#app.db, lane.name)
    return true
  }

  async #settleUnrouted(lane: Lane, unrouted: Unrouted): Promise<boolean> {
    await settleUnrouted(this.#app, lane.name, unrouted)
    lane.firstDue = laneFirstDue(this.#app.db, lane.name)
    return true
  }

  #startJob(hand: Hand, route: Route): void {
    try {
      const built = this.#jobs.build(hand.recipientId, hand.emailId, route)
      if ('render' in built)
        this.#renderLine.enter(hand, this.#ownerOf(built.accountId), () => void this.#render(hand, built))
      else this.#memoryQueue.enter(hand, built)
    } catch (error) {
      if (isPassingError(error)) this.#postpone(hand, error)
      else this.#failUnbuilt(hand, error)
    }
  }

  /** The job of a broadcast's email is started once it is rendered. */
  async #render(hand: Hand, unrendered: UnrenderedJob): Promise<void> {
    try {
      const prepared = await unrendered.render()
      // What ended meanwhile, with the service or otherwise, is nobody's to send.
      if (this.#hands.unsettled(hand.recipientId) !== hand) return
      this.#memoryQueue.enter(hand, prepared)
      this.#watchSlowAttempts()
    } catch (error) {
      if (this.#hands.unsettled(hand.recipientId) !== hand) return
      if (error instanceof TemplateFailure) return this.#failUnbuilt(hand, error)
      if (error instanceof MissingPart) return this.#holdWithoutContent(hand)
      this.#postpone(hand, error)
    }
  }

  #holdWithoutContent(hand: Hand): void {
    this.#logAttempt(hand, { kind: 'content_missing' }, undefined)
    void this.#hands.settle(hand, { kind: 'content_missing' }, undefined)
  }

  /** What may work later goes back into the queue without an attempt. */
  #postpone(hand: Hand, error: unknown): void {
    this.#app.log.warn(
      { err: error, email: logIdOf(this.#app.db, hand.emailId), recipient: hand.recipientId },
      'delivery postponed: cannot prepare the message',
    )
    void this.#hands.settle(hand, { kind: 'released' }, undefined)
  }

  #failUnbuilt(hand: Hand, error: unknown): void {
    this.#app.log.error(
      { err: error, email: logIdOf(this.#app.db, hand.emailId), recipient: hand.recipientId },
      'the message could not be made',
    )
    const reason = publicReason(error).slice(0, MOST_REASON_CHARACTERS).toWellFormed()
    void this.#hands.settle(hand, { kind: 'failed', reason }, undefined)
  }

  #onMessage(message: FromWorker): void {
    const hand = this.#hands.unsettled(message.recipientId)
    if (!hand) return
    if (message.type === 'begin') void this.#hands.begin(hand)
    else this.#onOutcome(hand, message)
  }

  #onOutcome(hand: Hand, { result, session }: Extract<FromWorker, { type: 'outcome' }>): void {
    const site = this.#sites.of(hand.destination.siteName)
    const siteRefusal = siteRefusalOf(result)
    if (siteRefusal !== undefined) this.#sites.rest(site, siteRefusal)
    else if (session) this.#sites.answered(site)
    const judged = judge(result)
    const verdict =
      siteRefusal !== undefined && judged.kind === 'deferred' ? { ...judged, siteFailures: site.failures } : judged
    if (result.kind === 'postponed' || result.kind === 'broken') this.#logOwnFault(hand, result)
    else this.#logAttempt(hand, verdict, session)
    void this.#hands.settle(hand, verdict, session)
  }

  /** One line for an attempt that a fault of our own ended before the message began. */
  #logOwnFault(hand: Hand, { kind, detail }: Extract<AttemptResult, { kind: 'postponed' | 'broken' }>): void {
    const facts = { email: logIdOf(this.#app.db, hand.emailId), recipient: hand.recipientId, detail }
    if (kind === 'postponed') this.#app.log.warn(facts, 'delivery postponed')
    else this.#app.log.error(facts, 'the message could not be made')
  }

  /** A line an attempt: what succeeded for those who debug, all else for everybody. */
  #logAttempt(hand: Hand, verdict: Verdict, session: AttemptSession | undefined): void {
    const isRoutine = verdict.kind === 'sent' || verdict.kind === 'released'
    if (isRoutine && !this.#app.log.isLevelEnabled('debug')) return
    const facts = {
      email: logIdOf(this.#app.db, hand.emailId),
      recipient: hand.recipientId,
      lane: hand.lane,
      attempt: hand.attempt,
      host: session?.host,
      ...verdict,
    }
    if (isRoutine) this.#app.log.debug(facts, verdict.kind)
    else if (verdict.kind === 'failed') this.#app.log.error(facts, verdict.kind)
    else if (verdict.kind === 'content_missing')
      this.#app.log.error(
        facts,
        'an email waits because its stored content is missing; `tassis check` lists such emails',
      )
    else this.#app.log.info(facts, verdict.kind)
  }

  async #makeOverdueDue(): Promise<void> {
    try {
      await makeOverdueDue(this.#app, this.#stopping.signal)
    } catch (error) {
      this.#app.log.error({ err: error }, 'looking for mail that a wrong clock put off failed; the next start does it')
    }
  }

  #onWorkerDeath(worker: number): void {
    // Looked at before any is settled, since that starts the next who wait.
    const notGiven = this.#memoryQueue.waiting()
    const lost = this.#hands
      .all()
      .filter((h) => h.worker === worker && !h.settling && !notGiven.has(h) && !this.#renderLine.has(h))
    for (const hand of lost) void this.#hands.settle(hand, lostVerdict(hand), undefined)
  }

  /** Gives slot and memory back, and wakes who waits for them. */
  #leaveSite(hand: Hand): void {
    this.#renderLine.leave(hand)
    this.#memoryQueue.release(hand)
    this.#sites.releaseSlots(hand.destination, 1, hand.lane)
    this.#memoryQueue.startWaiting()
    this.#offerSlots()
    this.#sites.forgetIdle(hand.destination)
  }

  #offerSlots(): void {
    if (!this.#stopping.signal.aborted) this.#sites.offerSlots()
  }

  /** While slots or memory are wanted, looks now and then for attempts that take too long. */
  #watchSlowAttempts(): void {
    if (this.#watch || this.#stopping.signal.aborted) return
    if (!this.#sites.areSlotsWanted && !this.#memoryQueue.hasWaiting) return
    this.#watch = this.#app.clock.after(SLOW_ATTEMPTS_INTERVAL_MS, () => {
      this.#watch = undefined
      // Requests may have given memory back meanwhile.
      this.#memoryQueue.startWaiting()
      this.#cutSlowAttempts()
      this.#watchSlowAttempts()
    })
  }

  /**
   * Has the Workers end attempts that silent servers hold up: before their messages begin if other mail of their account waits for a slot or for memory,
   * else as many as their account has too many, those first that came first, and all whose memory others wait for.
   */
  #cutSlowAttempts(): void {
    const now = this.#app.clock.now()
    const cut = new Map<number, number[]>()
    const excess = new Map<number, number>()
    for (const hand of this.#hands.all()) {
      const { lane, worker, recipientId, startedAt, sentToWorkerAt = now, settling } = hand
      const hasBegun = startedAt !== undefined
      const isSlow = hasBegun ? now - startedAt >= hand.maxWantedBodyMs : now - sentToWorkerAt >= MAX_WANTED_ENVELOPE_MS
      if (!isSlow || settling) continue
      const owner = this.#ownerOf(accountOfLane(lane))
      const tooMany = excess.get(owner) ?? this.#sites.excessOf(owner)
      const holdsUpOthers = tooMany > 0 || this.#memoryQueue.isInWayOfOthers(hand)
      const holdsUpOwn = this.#sites.isSlotWanted(owner) || this.#memoryQueue.isInWayOfOwn(hand)
      if (!holdsUpOthers && (hasBegun || !holdsUpOwn)) continue
      excess.set(owner, tooMany - 1)
      cut.set(worker, [...(cut.get(worker) ?? []), recipientId])
    }
    for (const [worker, recipientIds] of cut) this.#pool?.post(worker, { type: 'cut', recipientIds })
  }

  /** The account that slots, memory and rendering are counted for: sub-accounts share those of their parent. */
  #ownerOf(accountId: number): number {
    return tenantOf(this.#app.db, accountId)
  }
}

/** What becomes of a message whose Worker died. */
const lostVerdict = (hand: Hand): Verdict =>
  hand.startedAt === undefined
    ? {
        kind: 'deferred',
        category: 'unknown',
        reason: 'The part of the service that was sending the message ended unexpectedly',
        reply: undefined,
      }
    : {
        kind: 'uncertain',
        reason: 'The part of the service that was sending the message ended unexpectedly, so the receiver may have it',
      }
