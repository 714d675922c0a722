/**
 * @module The scheduler of the mail queue (main thread): which lane is due, how much of it a site may have at once, and the three commits of an
 * attempt: claim, begin, outcome. Never composes, signs or dials; that is the Workers'.
 *
 * lane: the recipients' domain, or the sandbox. site: where a lane's route leads; lanes with the same MX hosts share it, and its limits.
 */
import { join } from 'node:path'
import type { App } from '#features/app.ts'
import type { Millis, Timer } from '#platform/clock.ts'
import type { Reservation } from '#platform/memory-budget.ts'
import { minutes, seconds } from '#platform/units.ts'
import { beginDelivery, claimDue, holdDue, laneFirstDue, openLanes } from '../emails/status.ts'
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
  /** Lanes that have due mail and found the site full. */
  readonly waiting: Set<string>
}

interface Hand extends AttemptInHand {
  readonly lane: string
  readonly site: string
  readonly worker: number
  reservation: Reservation | undefined
  /** Its place among the site's messages in flight was given back. */
  hasLeftSite: boolean
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
const PUMP_GRACE_MS = seconds(2)
/** A composed and signed message, its source and its copy for the socket. */
const MEMORY_FACTOR = 4
const SMALL_MESSAGE_BYTES = 64 * 1024

export class DeliveryScheduler {
  readonly #app: App
  readonly #capture: CaptureAddress
  readonly #lanes = new Map<string, Lane>()
  readonly #sites = new Map<string, Site>()
  readonly #hands = new Map<number, Hand>()
  /** Lanes that found all places taken. */
  readonly #waitingForPlace = new Set<string>()
  /** Claimed jobs for which there is no memory yet, oldest first. */
  #waitingForMemory: { hand: Hand; prepared: PreparedJob; bytes: number }[] = []
  readonly #buildJob: ReturnType<typeof createJobBuilder>
  #pool: WorkerPool | undefined
  #inFlight = 0
  #isStopping = false
  #stopListening: () => void = () => undefined
  #onSettled: () => void = () => undefined
  /** Pumps under way: a claim of theirs may still be on its way to the disk. */
  readonly #pumps = new Set<Promise<void>>()

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
    // A claim on its way to the disk still makes hands, which are given back below; a pump that waits for DNS claims nothing any more.
    await Promise.race([
      Promise.all(this.#pumps),
      new Promise<void>((resolve) => this.#app.clock.after(PUMP_GRACE_MS, resolve)),
    ])
    await this.#begunSettled()
    for (const hand of [...this.#hands.values()]) {
      await this.#settle(
        hand,
        hand.startedAt === undefined
          ? { kind: 'released' }
          : {
              kind: 'uncertain',
              reason: 'The service was stopped while the message was being sent, so the receiver may have it',
            },
        undefined,
      )
    }
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
    const pump = this.#pump(lane).finally(() => {
      this.#pumps.delete(pump)
      lane.isPumping = false
      if (lane.pumpAgain && !this.#isStopping) {
        lane.pumpAgain = false
        this.#wake(lane)
      } else if (lane.firstDue === undefined && this.#lanes.get(lane.name) === lane) {
        lane.timer?.cancel()
        this.#lanes.delete(lane.name)
      }
    })
    this.#pumps.add(pump)
  }

  /** Claims and hands out what is due, as long as there is room. */
  async #pump(lane: Lane): Promise<void> {
    const { clock, log } = this.#app
    try {
      while (!this.#isStopping && lane.firstDue !== undefined) {
        if (lane.firstDue > clock.now()) return this.#sleepUntil(lane, lane.firstDue)
        const places = this.#app.config.deliveryConcurrency - this.#inFlight
        if (places <= 0) {
          this.#waitingForPlace.add(lane.name)
          return
        }
        const routed = await routeLane(this.#app, lane.name, this.#capture)
        const isGoing =
          routed.kind === 'route'
            ? await this.#handOut(lane, routed.route, places)
            : await this.#settleUnrouted(lane, routed)
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

  /** Claims for a site and starts the jobs. False when the lane has to wait for the site. */
  async #handOut(lane: Lane, route: Route, places: number): Promise<boolean> {
    const site = this.#siteOf(route.site)
    if (site.restUntil > this.#app.clock.now()) return this.#waitForRest(lane, route.site, site)
    const room = this.#app.config.connectionsPerSite * CLAIMED_PER_CONNECTION - site.inFlight
    if (room <= 0) {
      site.waiting.add(lane.name)
      return false
    }
    site.waiting.delete(lane.name)
    const limit = Math.min(room, places)
    // Taken before the commit, so that other lanes of the site do not claim into the same places meanwhile.
    site.inFlight += limit
    this.#inFlight += limit
    let claimed: ReturnType<typeof claimDue> = []
    try {
      claimed = await this.#claim(lane, limit)
    } finally {
      site.inFlight -= limit - claimed.length
      this.#inFlight -= limit - claimed.length
    }
    for (const { recipientId, emailId, attempt } of claimed) {
      const hand: Hand = {
        recipientId,
        emailId,
        attempt,
        startedAt: undefined,
        lane: lane.name,
        site: route.site,
        worker: this.#pool?.workerOf(route.site) ?? 0,
        reservation: undefined,
        hasLeftSite: false,
      }
      this.#hands.set(recipientId, hand)
      this.#startJob(hand, route)
    }
    return true
  }

  /** The site rests. A short rest is waited for; of a longer one each due recipient is told by an event. False when nothing is left to do now. */
  async #waitForRest(lane: Lane, name: string, site: Site): Promise<boolean> {
    const app = this.#app
    const now = app.clock.now()
    const until = site.restUntil
    if (until - now <= UNTOLD_HOLD_MS) {
      site.waiting.add(lane.name)
      this.#sleepUntil(lane, until)
      return false
    }
    const reason = `${name} is left alone for a while: ${site.restReason}`
    await app.commit.write((tx) =>
      holdDue(tx, lane.name, { now, eventTime: app.eventTime(), until, reason, limit: HELD_SLICE }),
    )
    lane.firstDue = laneFirstDue(app.db, lane.name)
    return true
  }

  async #claim(lane: Lane, limit: number): Promise<ReturnType<typeof claimDue>> {
    const { app, now } = { app: this.#app, now: this.#app.clock.now() }
    const claimed = await app.commit.write((tx) =>
      claimDue(tx, lane.name, {
        now,
        eventTime: app.eventTime(),
        limit,
        retryAt: (attempt) => now + retryDelayMs(attempt, 0),
      }),
    )
    lane.firstDue = laneFirstDue(app.db, lane.name)
    return claimed
  }

  #startJob(hand: Hand, route: Route): void {
    try {
      const prepared = this.#buildJob(hand.recipientId, hand.emailId, route)
      const { sizeBytes } = prepared
      const bytes = sizeBytes <= SMALL_MESSAGE_BYTES ? 0 : sizeBytes * MEMORY_FACTOR
      if (this.#waitingForMemory.length > 0 || !this.#reserve(hand, bytes))
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

  /** Takes the job's share of the memory budget. When nothing large is in hand it always goes: else a message larger than the budget never would. */
  #reserve(hand: Hand, bytes: number): boolean {
    if (bytes === 0) return true
    hand.reservation = this.#app.memory.reserve(bytes)
    if (hand.reservation) return true
    return ![...this.#hands.values()].some((other) => other.reservation)
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
    const claimed = await this.#claim(lane, UNROUTED_SLICE)
    const verdict: Verdict =
      routed.kind === 'undeliverable'
        ? { kind: 'bounced', category: routed.category, reply: routed.text }
        : { kind: 'deferred', category: routed.category, reason: routed.text, reply: undefined }
    const next = await this.#app.commit.write((tx) =>
      claimed.map(({ recipientId, emailId, attempt }) =>
        writeOutcome(this.#app, tx, { recipientId, emailId, attempt, startedAt: undefined }, verdict, undefined),
      ),
    )
    if (next.length > 0) lane.firstDue = laneFirstDue(this.#app.db, lane.name)
    return claimed.length > 0
  }

  #onMessage(message: FromWorker): void {
    const hand = this.#hands.get(message.recipientId)
    if (!hand) return
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
    if (session) site.failures = 0
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
    site.restUntil = now + siteRestMs(site.failures)
    site.restReason = reason
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
    for (const hand of [...this.#hands.values()].filter((h) => h.worker === worker)) {
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
    this.#waitingForMemory = this.#waitingForMemory.filter(({ hand }) => hand.worker !== worker)
  }

  /** Writes the verdict, again and again while the database refuses: an outcome is never dropped. */
  async #settle(hand: Hand, verdict: Verdict, session: AttemptSession | undefined): Promise<void> {
    this.#leaveSite(hand)
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
        this.#app.log.error(
          { err: error, recipient: hand.recipientId },
          'an outcome could not be stored; it is tried again',
        )
        if (this.#isStopping) break
        await this.#app.clock.sleep(STORAGE_RETRY_MS)
      }
    }
    this.#onSettled()
  }

  /** Gives place and memory back, and wakes who waits for them. */
  #leaveSite(hand: Hand): void {
    if (hand.hasLeftSite) return
    hand.hasLeftSite = true
    hand.reservation?.release()
    hand.reservation = undefined
    this.#inFlight--
    const site = this.#siteOf(hand.site)
    site.inFlight--
    this.#startWaitingForMemory()
    const now = this.#app.clock.now()
    const woken = [...this.#waitingForPlace, ...(site.restUntil > now ? [] : site.waiting)]
    this.#waitingForPlace.clear()
    if (site.restUntil <= now) site.waiting.clear()
    for (const name of woken) {
      const lane = this.#lanes.get(name)
      if (lane) this.#wake(lane)
    }
    if (site.inFlight === 0 && site.waiting.size === 0 && site.restUntil <= now) this.#sites.delete(hand.site)
  }

  #siteOf(name: string): Site {
    let site = this.#sites.get(name)
    if (!site) {
      site = { inFlight: 0, restUntil: 0, restReason: '', failures: 0, waiting: new Set() }
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
