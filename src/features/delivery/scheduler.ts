/**
 * @module The scheduler of the mail queue (main thread): which lane is due, how much of it a site may have at once, and the three commits of an
 * attempt: claim, begin, outcome. Never composes, signs or dials; that is the Workers'.
 *
 * lane: the recipients' domain, or the sandbox. site: where a lane's route leads; lanes with the same MX hosts share it, and its limits.
 */
import { join } from 'node:path'
import type { App } from '#features/app.ts'
import type { Millis, Timer } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import type { Reservation } from '#platform/memory-budget.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { beginDelivery, claimDue, countDue, holdDue, laneFirstDue, NotProcessing, openLanes } from '../emails/status.ts'
import { createJobBuilder, type PreparedJob } from './job.ts'
import { type AttemptInHand, judge, siteRestMs, type Verdict, writeOutcome } from './outcome.ts'
import type { AttemptSession, FromWorker, Route } from './protocol.ts'
import { recoverInterrupted } from './recover.ts'
import { retryDelayMs } from './retry.ts'
import { type CaptureAddress, routeLane } from './route.ts'
import { createWorkerPool, type WorkerPool } from './worker-pool.ts'

interface Lane {
  readonly name: string
  firstDue: Millis | undefined
  isPumping: boolean
  /** Something became due or free while it was pumping. */
  pumpAgain: boolean
  timer: Timer | undefined
}

interface Site {
  inFlight: number
  restUntil: Millis
  restReason: string
  /** Rests since a session was last had. */
  failures: number
  /** Sessions had since the last rest. */
  answers: number
  /** Lanes that have due mail and found the site full or resting; who waits longest is first. */
  readonly waiting: Set<string>
}

interface Hand extends AttemptInHand {
  readonly lane: string
  readonly site: string
  readonly worker: number
  /** It counts among the large messages in work. */
  isLarge: boolean
  reservation: Reservation | undefined
  /** Resolves when its outcome is stored or given up; from then on nothing else is written of it. */
  settling: Promise<void> | undefined
}

/** Why a lane's due mail waits, in words; for `tassis queue`. */
export interface LaneState {
  readonly lane: string
  readonly waiting: number
  readonly firstDue: Millis
  readonly reason: string
}

/** Messages claimed for each connection of a site: the next is composed while the last is on its way. */
const CLAIMED_PER_CONNECTION = 2
/** Messages claimed for a site before it has answered; each answer makes room for as many more. A silent site must not hold everybody's places. */
const CLAIMED_UNANSWERED = 2
/** A hold that is not told by an event. */
const UNTOLD_HOLD_MS = minutes(1)
const HELD_SLICE = 200
/** Recipients settled at once when their lane leads nowhere. */
const UNROUTED_SLICE = 200
/** Wait after the database refused a claim or an outcome, for example because the disk is full. */
const STORAGE_RETRY_MS = seconds(1)
const STORAGE_RELEASE_MS = seconds(30)
const LONGEST_SLEEP_MS = minutes(1)
/** How long begun transactions may go on after the service was told to stop. */
const STOP_GRACE_MS = minutes(1)
/** A composed and signed message, its source and its copy for the socket. */
const MEMORY_FACTOR = 4
const SMALL_MESSAGE_BYTES = 64 * 1024

export class DeliveryScheduler {
  readonly #app: App
  readonly #capture: CaptureAddress
  readonly #lanes = new Map<string, Lane>()
  readonly #sites = new Map<string, Site>()
  /** Sites with waiting lanes. */
  readonly #crowded = new Set<Site>()
  readonly #hands = new Map<number, Hand>()
  /** Lanes that found all places taken; who waits longest is first. */
  readonly #waitingForPlace = new Set<string>()
  /** Claimed jobs for which there is no memory yet, oldest first. */
  #waitingForMemory: { hand: Hand; prepared: PreparedJob; bytes: number }[] = []
  readonly #buildJob: ReturnType<typeof createJobBuilder>
  #pool: WorkerPool | undefined
  #inFlight = 0
  #largeInWork = 0
  /** Outcomes that the database has refused so far: while there are any, nothing more is claimed. */
  #unstored = 0
  /** Claims on their way to the disk. */
  readonly #claiming = new Set<Promise<unknown>>()
  #isStopping = false
  /** The grace of stopping is over: an outcome that is refused once more is left to the recovery of the next start. */
  #hasGivenUp = false
  #stopListening: () => void = () => undefined
  #onSettled: () => void = () => undefined

  constructor(app: App, capture: CaptureAddress) {
    this.#app = app
    this.#capture = capture
    this.#buildJob = createJobBuilder(app)
  }

  /** Settles what a crash left, then starts the Workers and the queue. */
  async start(): Promise<void> {
    const { config, log, clock } = this.#app
    const recovered = await recoverInterrupted(this.#app)
    if (recovered.requeued + recovered.uncertain > 0) log.warn(recovered, 'recovered from an unclean end')
    this.#pool = createWorkerPool({
      count: config.workers,
      settings: {
        contentFolder: join(config.dataDir, 'content'),
        ehloName: config.hostname,
        outboundIps: config.outboundIps,
        connectionsPerSite: config.connectionsPerSite,
        messagesPerConnection: config.messagesPerConnection,
        connectionIdleMs: seconds(config.connectionIdleSeconds),
      },
      clock,
      log,
      onMessage: (_, message) => this.#onMessage(message),
      onDeath: (worker) => this.#onWorkerDeath(worker),
    })
    this.#stopListening = this.#app.mailDue.listen(({ lane, at }) => this.#due(lane, at))
    for (const { lane, firstAt } of openLanes(this.#app.db)) this.#due(lane, firstAt)
  }

  /** Begins nothing more; waits for begun transactions, at most 60 s, and settles the rest. */
  async stop(): Promise<void> {
    this.#isStopping = true
    this.#stopListening()
    for (const lane of this.#lanes.values()) lane.timer?.cancel()
    this.#pool?.postAll({ type: 'drain' })
    // What is being claimed comes into hand first, or it would stay claimed until the next start.
    await Promise.allSettled(this.#claiming)
    await this.#begunSettled()
    this.#hasGivenUp = true
    this.#waitingForMemory = []
    await Promise.all(
      [...this.#hands.values()].map((hand) => hand.settling ?? this.#settle(hand, stoppedVerdict(hand), undefined)),
    )
    this.#pool?.terminate()
  }

  /** Messages in hand now. */
  get inFlight(): number {
    return this.#inFlight
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
    const hands = [...this.#hands.values()].filter((hand) => hand.lane === lane)
    const site = this.#sites.get(hands[0]?.site ?? '')
    if (hands.length > 0)
      return `${hands.length} in delivery${site?.waiting.has(lane) ? ', the rest waits for a connection' : ''}`
    if (firstDue > now) return 'waits for its time'
    const resting = [...this.#sites].find(([, s]) => s.waiting.has(lane) && s.restUntil > now)
    if (resting)
      return `${resting[0]} rests until ${new Date(resting[1].restUntil).toISOString()}: ${resting[1].restReason}`
    if (this.#waitingForPlace.has(lane)) return 'waits for a free place: as many messages as allowed are in delivery'
    return 'about to be delivered'
  }

  #due(name: string, at: Millis): void {
    if (this.#isStopping) return
    let lane = this.#lanes.get(name)
    if (!lane) {
      lane = { name, firstDue: undefined, isPumping: false, pumpAgain: false, timer: undefined }
      this.#lanes.set(name, lane)
    }
    if (lane.firstDue === undefined || at < lane.firstDue) lane.firstDue = at
    this.#wake(lane)
  }

  #wake(lane: Lane): void {
    if (lane.isPumping) {
      lane.pumpAgain = true
      return
    }
    lane.isPumping = true
    void this.#pump(lane).finally(() => {
      lane.isPumping = false
      if (lane.pumpAgain && !this.#isStopping) {
        lane.pumpAgain = false
        this.#wake(lane)
      } else if (lane.firstDue === undefined && this.#lanes.get(lane.name) === lane) {
        lane.timer?.cancel()
        this.#lanes.delete(lane.name)
      }
      this.#offerPlaces()
    })
  }

  /** Claims and hands out what is due, as long as there is room. */
  async #pump(lane: Lane): Promise<void> {
    const { clock, log } = this.#app
    try {
      while (!this.#isStopping && lane.firstDue !== undefined) {
        if (lane.firstDue > clock.now()) return this.#sleepUntil(lane, lane.firstDue)
        if (this.#unstored > 0) return this.#sleepUntil(lane, clock.now() + STORAGE_RETRY_MS)
        if (this.#freePlaces <= 0) return this.#waitIn(this.#waitingForPlace, lane)
        const routed = await routeLane(this.#app, lane.name, this.#capture)
        if (this.#isStopping) return
        const claiming =
          routed.kind === 'route' ? this.#handOut(lane, routed.route) : this.#settleUnrouted(lane, routed)
        this.#claiming.add(claiming)
        const isGoing = await claiming.finally(() => this.#claiming.delete(claiming))
        if (!isGoing) return
      }
    } catch (error) {
      log.error({ err: error, lane: lane.name }, 'the queue could not go on; it tries again')
      this.#sleepUntil(lane, clock.now() + STORAGE_RETRY_MS)
    }
  }

  #sleepUntil(lane: Lane, at: Millis): void {
    lane.timer?.cancel()
    // Never long: a wall clock that jumps, or a machine that slept, must not make a lane late.
    lane.timer = this.#app.clock.after(Math.min(Math.max(at - this.#app.clock.now(), 0), LONGEST_SLEEP_MS), () =>
      this.#wake(lane),
    )
  }

  /** Claims for a site and starts the jobs. False when the lane has to wait. */
  async #handOut(lane: Lane, route: Route): Promise<boolean> {
    const now = this.#app.clock.now()
    const site = this.#siteOf(route.site)
    if (site.restUntil > now) return this.#waitForRest(lane, route.site, site)
    if (this.#roomAt(site) <= 0) {
      this.#crowded.add(site)
      this.#waitIn(site.waiting, lane)
      return false
    }
    site.waiting.delete(lane.name)
    // Looked at only now: while the route was looked up others took theirs.
    if (this.#freePlaces <= 0) {
      this.#waitIn(this.#waitingForPlace, lane)
      return false
    }
    const limit = countDue(this.#app.db, lane.name, now, Math.min(this.#roomAt(site), this.#freePlaces))
    // Taken before the commit, so that other lanes do not claim into the same places meanwhile.
    site.inFlight += limit
    this.#inFlight += limit
    let claimed: ReturnType<typeof claimDue> = []
    try {
      claimed = await this.#app.commit.write((tx) => this.#claim(tx, lane, limit, now))
    } finally {
      site.inFlight -= limit - claimed.length
      this.#inFlight -= limit - claimed.length
    }
    const hands = claimed.map(
      (recipient): Hand => ({
        ...recipient,
        startedAt: undefined,
        lane: lane.name,
        site: route.site,
        worker: this.#pool?.workerOf(route.site) ?? 0,
        isLarge: false,
        reservation: undefined,
        settling: undefined,
      }),
    )
    for (const hand of hands) this.#hands.set(hand.recipientId, hand)
    for (const hand of hands) this.#startJob(hand, route)
    lane.firstDue = laneFirstDue(this.#app.db, lane.name)
    return true
  }

  #claim(tx: Tx, lane: Lane, limit: number, now: Millis, dueSince?: Millis): ReturnType<typeof claimDue> {
    const retryAt = (attempt: number) => now + retryDelayMs(attempt, 0)
    return claimDue(tx, lane.name, {
      now,
      eventTime: this.#app.eventTime(),
      limit,
      retryAt,
      ...(dueSince !== undefined && { dueSince }),
    })
  }

  get #freePlaces(): number {
    return this.#app.config.deliveryConcurrency - this.#inFlight
  }

  #roomAt(site: Site): number {
    const most = this.#app.config.connectionsPerSite * CLAIMED_PER_CONNECTION
    return Math.min(most, CLAIMED_UNANSWERED * (1 + site.answers)) - site.inFlight
  }

  /** The lane waits for its turn; now and then it also looks by itself. */
  #waitIn(line: Set<string>, lane: Lane): void {
    line.add(lane.name)
    this.#sleepUntil(lane, this.#app.clock.now() + LONGEST_SLEEP_MS)
  }

  /**
   * Gives free places to who waits longest. One lane at a time: it claims as much as it can use, and when its turn is over the next one's
   * begins, also when it used nothing.
   */
  #offerPlaces(): void {
    const now = this.#app.clock.now()
    const wakeFirst = (line: Set<string>) => {
      const [name] = line
      if (name === undefined) return
      line.delete(name)
      const lane = this.#lanes.get(name)
      if (lane) this.#wake(lane)
    }
    if (this.#isStopping || this.#freePlaces <= 0) return
    for (const site of this.#crowded) {
      if (site.restUntil <= now && this.#roomAt(site) > 0) wakeFirst(site.waiting)
      if (site.waiting.size === 0) this.#crowded.delete(site)
    }
    wakeFirst(this.#waitingForPlace)
  }

  /** The site rests. A short rest is waited for; of a longer one each due recipient is told by an event. False when nothing is left to do now. */
  async #waitForRest(lane: Lane, name: string, site: Site): Promise<boolean> {
    const app = this.#app
    const now = app.clock.now()
    const until = site.restUntil
    if (until - now <= UNTOLD_HOLD_MS) {
      this.#crowded.add(site)
      site.waiting.add(lane.name)
      this.#sleepUntil(lane, until)
      return false
    }
    site.waiting.delete(lane.name)
    const reason = `${name} is left alone for a while: ${site.restReason}`
    await app.commit.write((tx) => {
      this.#expireHeld(tx, lane, now, reason)
      holdDue(tx, lane.name, { now, eventTime: app.eventTime(), until, reason, limit: HELD_SLICE })
    })
    lane.firstDue = laneFirstDue(app.db, lane.name)
    return true
  }

  /**
   * Mail that is older than it may become ends here: the attempt that began the rest was made for all who wait. Else so few would be tried at a
   * dead site that the others outlived their time by days.
   */
  #expireHeld(tx: Tx, lane: Lane, now: Millis, reason: string): void {
    const dueSince = now - hours(this.#app.config.retryExpiryHours)
    const verdict: Verdict = { kind: 'deferred', category: 'connection_failure', reason, reply: undefined }
    for (const claimed of this.#claim(tx, lane, HELD_SLICE, now, dueSince)) {
      writeOutcome(this.#app, tx, { ...claimed, startedAt: undefined }, verdict, undefined)
    }
  }

  #startJob(hand: Hand, route: Route): void {
    try {
      const prepared = this.#buildJob(hand.recipientId, hand.emailId, route)
      const { sizeBytes } = prepared
      const bytes = sizeBytes <= SMALL_MESSAGE_BYTES ? 0 : sizeBytes * MEMORY_FACTOR
      if (bytes > 0 && (this.#waitingForMemory.length > 0 || !this.#reserve(hand, bytes)))
        this.#waitingForMemory.push({ hand, prepared, bytes })
      else this.#pool?.start(hand.worker, prepared.job, prepared.privateKeyPem)
    } catch (error) {
      void this.#settle(
        hand,
        { kind: 'failed', reason: error instanceof Error ? error.message : String(error) },
        undefined,
      )
    }
  }

  /** Takes a large job's share of the memory budget. The only large one always goes: else a message larger than the budget never would. */
  #reserve(hand: Hand, bytes: number): boolean {
    const reservation = this.#app.memory.reserve(bytes)
    if (!reservation && this.#largeInWork > 0) return false
    hand.reservation = reservation
    hand.isLarge = true
    this.#largeInWork++
    return true
  }

  #startWaitingForMemory(): void {
    while (this.#waitingForMemory[0]) {
      const { hand, prepared, bytes } = this.#waitingForMemory[0]
      if (!this.#reserve(hand, bytes)) return
      this.#waitingForMemory.shift()
      this.#pool?.start(hand.worker, prepared.job, prepared.privateKeyPem)
    }
  }

  /** The lane leads nowhere: its due recipients bounce or are deferred, without any session. */
  async #settleUnrouted(
    lane: Lane,
    routed: Exclude<Awaited<ReturnType<typeof routeLane>>, { kind: 'route' }>,
  ): Promise<boolean> {
    const verdict: Verdict =
      routed.kind === 'undeliverable'
        ? { kind: 'bounced', category: routed.category, reply: routed.text }
        : { kind: 'deferred', category: routed.category, reason: routed.text, reply: undefined }
    // In one commit, since nothing is dialled between: a claim without its outcome would wait for the next start.
    await this.#app.commit.write((tx) => {
      for (const recipient of this.#claim(tx, lane, UNROUTED_SLICE, this.#app.clock.now()))
        writeOutcome(this.#app, tx, { ...recipient, startedAt: undefined }, verdict, undefined)
    })
    lane.firstDue = laneFirstDue(this.#app.db, lane.name)
    return true
  }

  #onMessage(message: FromWorker): void {
    const hand = this.#hands.get(message.recipientId)
    if (!hand || hand.settling) return
    if (message.type === 'begin') void this.#begin(hand)
    else void this.#outcome(hand, message)
  }

  /** The 354 is here: the message may leave once the start is on disk. */
  async #begin(hand: Hand): Promise<void> {
    const answer = (ok: boolean) => this.#pool?.post(hand.worker, { type: 'go', recipientId: hand.recipientId, ok })
    if (this.#isStopping) return answer(false)
    const startedAt = this.#app.eventTime()
    hand.startedAt = startedAt
    try {
      const begun = await this.#app.commit.write((tx) => beginDelivery(tx, hand.recipientId, startedAt))
      if (!begun) hand.startedAt = undefined
      answer(begun)
    } catch (error) {
      hand.startedAt = undefined
      this.#app.log.error({ err: error }, 'the start of a delivery could not be stored; nothing was sent')
      answer(false)
    }
  }

  async #outcome(hand: Hand, { result, session }: Extract<FromWorker, { type: 'outcome' }>): Promise<void> {
    const site = this.#siteOf(hand.site)
    if (session) {
      site.failures = 0
      site.answers++
    }
    if (result.kind === 'unreachable') this.#rest(site, result.failure.message)
    const verdict = judge(result)
    this.#logAttempt(hand, verdict, session)
    await this.#settle(hand, verdict, session)
  }

  /** Each time that nobody lets us in, the site is left alone longer; what fails while it rests belongs to the same time. */
  #rest(site: Site, reason: string): void {
    const now = this.#app.clock.now()
    if (site.restUntil > now) return
    site.failures++
    site.answers = 0
    site.restUntil = now + siteRestMs(site.failures)
    site.restReason = reason
    // Who waits for room waits for the end of the rest from now on: perhaps nobody leaves the site any more.
    for (const name of site.waiting) {
      const lane = this.#lanes.get(name)
      if (lane) this.#wake(lane)
    }
  }

  /** A line an attempt: what succeeded for those who debug, all else for everybody. */
  #logAttempt(hand: Hand, verdict: Verdict, session: AttemptSession | undefined): void {
    const facts = {
      recipient: hand.recipientId,
      lane: hand.lane,
      attempt: hand.attempt,
      host: session?.host,
      ...verdict,
    }
    if (verdict.kind === 'sent' || verdict.kind === 'released') this.#app.log.debug(facts, verdict.kind)
    else if (verdict.kind === 'failed') this.#app.log.error(facts, verdict.kind)
    else this.#app.log.info(facts, verdict.kind)
  }

  #onWorkerDeath(worker: number): void {
    const notGiven = new Set(this.#waitingForMemory.map(({ hand }) => hand))
    const lost = [...this.#hands.values()].filter((h) => h.worker === worker && !h.settling && !notGiven.has(h))
    for (const hand of lost) {
      const verdict: Verdict =
        hand.startedAt === undefined
          ? {
              kind: 'deferred',
              category: 'unknown',
              reason: 'The part of the service that was sending the message ended unexpectedly',
              reply: undefined,
            }
          : {
              kind: 'uncertain',
              reason:
                'The part of the service that was sending the message ended unexpectedly, so the receiver may have it',
            }
      void this.#settle(hand, verdict, undefined)
    }
  }

  #settle(hand: Hand, verdict: Verdict, session: AttemptSession | undefined): Promise<void> {
    this.#leaveSite(hand)
    hand.settling = this.#store(hand, verdict, session)
    return hand.settling
  }

  /** Writes the verdict, again and again while the database refuses: an outcome is never dropped. */
  async #store(hand: Hand, verdict: Verdict, session: AttemptSession | undefined): Promise<void> {
    let isRefused = false
    for (;;) {
      try {
        const releaseAt =
          this.#app.clock.now() + (verdict.kind === 'released' && !this.#isStopping ? STORAGE_RELEASE_MS : 0)
        const nextAt = await this.#app.commit.write((tx) =>
          writeOutcome(this.#app, tx, hand, verdict, session, releaseAt),
        )
        this.#hands.delete(hand.recipientId)
        if (nextAt !== undefined) this.#due(hand.lane, nextAt)
        break
      } catch (error) {
        const { log } = this.#app
        if (error instanceof NotProcessing) {
          log.error(
            { err: error, recipient: hand.recipientId },
            'an outcome came for a recipient that is not in delivery',
          )
          this.#hands.delete(hand.recipientId)
          break
        }
        log.error({ err: error, recipient: hand.recipientId }, 'an outcome could not be stored; it is tried again')
        if (this.#hasGivenUp) {
          this.#hands.delete(hand.recipientId)
          break
        }
        if (!isRefused) this.#unstored++
        isRefused = true
        await this.#app.clock.sleep(STORAGE_RETRY_MS)
      }
    }
    if (isRefused) this.#unstored--
    this.#onSettled()
  }

  /** Gives place and memory back, and wakes who waits for them. */
  #leaveSite(hand: Hand): void {
    if (hand.isLarge) this.#largeInWork--
    hand.reservation?.release()
    this.#inFlight--
    const site = this.#siteOf(hand.site)
    site.inFlight--
    this.#startWaitingForMemory()
    this.#offerPlaces()
    if (site.inFlight === 0 && site.waiting.size === 0 && site.restUntil <= this.#app.clock.now())
      this.#sites.delete(hand.site)
  }

  #siteOf(name: string): Site {
    let site = this.#sites.get(name)
    if (!site) {
      site = { inFlight: 0, restUntil: 0, restReason: '', failures: 0, answers: 0, waiting: new Set() }
      this.#sites.set(name, site)
    }
    return site
  }

  /** Resolves when no begun transaction is in hand, or the grace is over. */
  #begunSettled(): Promise<void> {
    return new Promise((resolve) => {
      const check = () => {
        if ([...this.#hands.values()].some((hand) => hand.startedAt !== undefined)) return
        timer.cancel()
        resolve()
      }
      const timer = this.#app.clock.after(STOP_GRACE_MS, resolve)
      this.#onSettled = check
      check()
    })
  }
}

/** What becomes of a message that is still in hand when the service ends. */
const stoppedVerdict = (hand: Hand): Verdict =>
  hand.startedAt === undefined
    ? { kind: 'released' }
    : {
        kind: 'uncertain',
        reason: 'The service was stopped while the message was being sent, so the receiver may have it',
      }
