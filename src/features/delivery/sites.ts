/**
 * @module The sites that lanes lead to and the places there: how much of each a lane may have, when a site rests, who is offered what became
 * free. Never claims and knows lanes only by name.
 *
 * place: room for one message in delivery, counted over all sites and for its site. bulk lane: that of an account's broadcasts. It comes after all other
 * lanes, and leaves room that only they may use, so that their mail finds some whenever it comes. What is left to bulk lanes is shared by the
 * accounts that want it.
 */
import type { Clock, Millis } from '#platform/clock.ts'
import { accountOfLane, isBulkLane } from '../emails/lanes.ts'
import { bulkShare } from './bulk-share.ts'
import { siteRestMs } from './outcome.ts'

export interface Site {
  inFlight: number
  restUntil: Millis
  restReason: string
  /** Rests since a session was last had. */
  failures: number
  /** Sessions had since the last rest. */
  answers: number
  /** Of `inFlight`, what each account has there by bulk lanes. */
  readonly bulk: Counts
  /** Lanes that have due mail and found the site full or resting. */
  readonly waiting: Line
}

/** Counts by account; those of zero are forgotten. */
class Counts {
  readonly #counts = new Map<number, number>()

  get size(): number {
    return this.#counts.size
  }

  of(accountId: number): number {
    return this.#counts.get(accountId) ?? 0
  }

  add(accountId: number, delta: number): void {
    const count = this.of(accountId) + delta
    if (count === 0) this.#counts.delete(accountId)
    else this.#counts.set(accountId, count)
  }
}

/** Lanes that wait; who waits longest is first. */
class Line {
  readonly #ordinary = new Set<string>()
  /** They come after all others. Of each account, in the order of the accounts' turns. */
  readonly #bulk = new Map<number, Set<string>>()
  /** Lanes that were woken and have not had their turn yet. */
  readonly #woken = new Set<string>()
  /** Bulk lanes of each account in `#bulk` and in `#woken`. */
  readonly #wanting = new Counts()

  /** Whether a lane that is not bulk waits, or is about to take what it waited for. */
  get hasOrdinary(): boolean {
    if (this.#ordinary.size > 0) return true
    for (const lane of this.#woken) if (!isBulkLane(lane)) return true
    return false
  }

  get isEmpty(): boolean {
    return this.#ordinary.size + this.#bulk.size + this.#woken.size === 0
  }

  /** How many accounts share what is left to bulk lanes here: one of them, and the others of which a lane waits or is about to take something. */
  sharers(accountId: number): number {
    return this.#wanting.size + (this.#wanting.of(accountId) === 0 ? 1 : 0)
  }

  add(lane: string): void {
    const accountId = accountOfLane(lane)
    if (accountId === undefined) this.#ordinary.add(lane)
    else if (!this.has(lane)) {
      const lanes = this.#bulk.get(accountId)
      if (lanes) lanes.add(lane)
      else this.#bulk.set(accountId, new Set([lane]))
      this.#wanting.add(accountId, 1)
    }
  }

  delete(lane: string): void {
    this.#ordinary.delete(lane)
    this.#takeOut(lane)
    this.turnOver(lane)
  }

  has(lane: string): boolean {
    const accountId = accountOfLane(lane)
    return accountId === undefined ? this.#ordinary.has(lane) : (this.#bulk.get(accountId)?.has(lane) ?? false)
  }

  all(): string[] {
    return [...this.#ordinary, ...[...this.#bulk.values()].flatMap((lanes) => [...lanes])]
  }

  /** Takes out the first that is not bulk. */
  shiftOrdinary(): string | undefined {
    const [lane] = this.#ordinary
    if (lane === undefined) return undefined
    this.#ordinary.delete(lane)
    this.#woken.add(lane)
    return lane
  }

  /** Takes out the first bulk lane of the account whose turn it is, among those for which something is free. */
  shiftBulk(isFree: (accountId: number) => boolean): string | undefined {
    for (const [accountId, lanes] of this.#bulk) {
      const [lane] = lanes
      if (lane === undefined || !isFree(accountId)) continue
      this.#takeOut(lane)
      const others = this.#bulk.get(accountId)
      if (others) {
        // To the end of those who wait.
        this.#bulk.delete(accountId)
        this.#bulk.set(accountId, others)
      }
      this.#woken.add(lane)
      this.#wanting.add(accountId, 1)
      return lane
    }
    return undefined
  }

  /** The turn of a lane that was taken out is over. */
  turnOver(lane: string): void {
    const accountId = accountOfLane(lane)
    if (this.#woken.delete(lane) && accountId !== undefined) this.#wanting.add(accountId, -1)
  }

  #takeOut(lane: string): void {
    const accountId = accountOfLane(lane)
    const lanes = accountId === undefined ? undefined : this.#bulk.get(accountId)
    if (accountId === undefined || !lanes?.delete(lane)) return
    if (lanes.size === 0) this.#bulk.delete(accountId)
    this.#wanting.add(accountId, -1)
  }
}

export interface SitesOptions {
  readonly clock: Clock
  /** Messages in delivery at the same time, over all sites. */
  readonly deliveryConcurrency: number
  readonly connectionsPerSite: number
  /** Begins the turn of a lane that waited here; false when it has no mail any more. */
  readonly wake: (lane: string) => boolean
}

/** Messages claimed for each connection of a site: the next is composed while the last is on its way. */
const CLAIMED_PER_CONNECTION = 2
/** Messages claimed for a site before it has answered; each answer makes room for as many more. A silent site must not hold everybody's places. */
const CLAIMED_UNANSWERED = 2
/** Places that bulk lanes have at most together. */
const MOST_BULK_PLACES = 0.5

export class Sites {
  readonly #options: SitesOptions
  readonly #sites = new Map<string, Site>()
  /** Sites with waiting lanes. */
  readonly #crowded = new Set<Site>()
  /** Lanes that found all places taken. */
  readonly #waitingForPlace = new Line()
  #inFlight = 0
  #bulkInFlight = 0
  /** Of these, what each account has. */
  readonly #bulk = new Counts()

  constructor(options: SitesOptions) {
    this.#options = options
  }

  /** Messages in delivery, over all sites. */
  get inFlight(): number {
    return this.#inFlight
  }

  /**
   * Places that are left for a lane, over all sites. None for a bulk lane while one that is not waits for a place; no more than its account's part
   * while a bulk lane of another account waits for one.
   */
  placesFor(lane: string): number {
    return this.#placesFor(accountOfLane(lane))
  }

  #placesFor(bulkAccount: number | undefined): number {
    const most = this.#options.deliveryConcurrency
    if (bulkAccount === undefined) return most - this.#inFlight
    if (this.#waitingForPlace.hasOrdinary) return 0
    const mostBulk = Math.max(1, Math.floor(most * MOST_BULK_PLACES))
    return Math.min(
      mostBulk - this.#bulkInFlight,
      bulkShare(most) - this.#inFlight,
      partOf(mostBulk, this.#waitingForPlace, bulkAccount) - this.#bulk.of(bulkAccount),
    )
  }

  /** The site of that name; a new one when nothing is known of it. */
  of(name: string): Site {
    let site = this.#sites.get(name)
    if (!site) {
      site = {
        inFlight: 0,
        restUntil: 0,
        restReason: '',
        failures: 0,
        answers: 0,
        bulk: new Counts(),
        waiting: new Line(),
      }
      this.#sites.set(name, site)
    }
    return site
  }

  /**
   * How many more messages of a lane the site may have. None of a bulk lane while one that is not waits for room there; no more than its account's
   * part while a bulk lane of another account waits for some.
   */
  roomFor(site: Site, lane: string): number {
    return this.#roomFor(site, accountOfLane(lane))
  }

  #roomFor(site: Site, bulkAccount: number | undefined): number {
    const all = this.#options.connectionsPerSite * CLAIMED_PER_CONNECTION
    const most = Math.min(all, CLAIMED_UNANSWERED * (1 + site.answers))
    if (bulkAccount === undefined) return most - site.inFlight
    if (site.waiting.hasOrdinary) return 0
    const mostBulk = bulkShare(most)
    return Math.min(mostBulk - site.inFlight, partOf(mostBulk, site.waiting, bulkAccount) - site.bulk.of(bulkAccount))
  }

  takePlaces(site: Site, count: number, lane: string): void {
    site.inFlight += count
    this.#inFlight += count
    const bulkAccount = accountOfLane(lane)
    if (bulkAccount === undefined) return
    this.#bulkInFlight += count
    this.#bulk.add(bulkAccount, count)
    site.bulk.add(bulkAccount, count)
  }

  /** Whoever waits for them has to be offered them: `offerPlaces`. */
  giveBackPlaces(site: Site, count: number, lane: string): void {
    this.takePlaces(site, -count, lane)
  }

  /** Puts a lane into the line for room at a site, or for the end of its rest. */
  waitForRoom(site: Site, lane: string): void {
    this.#crowded.add(site)
    site.waiting.add(lane)
  }

  /** Puts a lane into the line for any place at all. */
  waitForPlace(lane: string): void {
    this.#waitingForPlace.add(lane)
  }

  /** A lane that was woken has had its turn, whatever it used it for. */
  turnOver(lane: string): void {
    this.#waitingForPlace.turnOver(lane)
    for (const site of this.#crowded) site.waiting.turnOver(lane)
  }

  /** The lane takes its turn: it waits nowhere. */
  leaveLines(site: Site, lane: string): void {
    site.waiting.delete(lane)
    this.#waitingForPlace.delete(lane)
  }

  isWaitingAt(name: string, lane: string): boolean {
    return this.#sites.get(name)?.waiting.has(lane) ?? false
  }

  isWaitingForPlace(lane: string): boolean {
    return this.#waitingForPlace.has(lane)
  }

  /** The site, with its name, at which a lane waits for room or for the end of a rest. */
  siteOfWaiting(lane: string): [name: string, site: Site] | undefined {
    return [...this.#sites].find(([, site]) => site.waiting.has(lane))
  }

  /**
   * Gives free places to who waits longest, to bulk lanes when nobody else waits there, whose accounts take turns. One lane at a time: it claims as
   * much as it may, and when its turn is over the next one's begins, also when it used nothing.
   */
  offerPlaces(): void {
    const now = this.#options.clock.now()
    if (this.#placesFor(undefined) <= 0) return
    for (const site of this.#crowded) {
      if (site.restUntil <= now) this.#wakeNext(site.waiting, (bulkAccount) => this.#roomFor(site, bulkAccount))
      if (site.waiting.isEmpty) this.#crowded.delete(site)
    }
    this.#wakeNext(this.#waitingForPlace, (bulkAccount) => this.#placesFor(bulkAccount))
  }

  /** @param freeFor what is free for bulk lanes of an account, or for lanes that are not bulk */
  #wakeNext(line: Line, freeFor: (bulkAccount: number | undefined) => number): void {
    const next = (): string | undefined =>
      (freeFor(undefined) > 0 ? line.shiftOrdinary() : undefined) ??
      line.shiftBulk((accountId) => freeFor(accountId) > 0)
    for (let lane = next(); lane !== undefined; lane = next()) {
      if (this.#options.wake(lane)) return
      line.turnOver(lane)
    }
  }

  /** A session was had there. */
  answered(site: Site): void {
    site.failures = 0
    site.answers++
  }

  /** Each time that nobody lets us in, the site is left alone longer; what fails while it rests belongs to the same time. */
  rest(site: Site, reason: string): void {
    const now = this.#options.clock.now()
    if (site.restUntil > now) return
    site.failures++
    site.answers = 0
    site.restUntil = now + siteRestMs(site.failures)
    site.restReason = reason
    // Who waits for room waits for the end of the rest from now on: perhaps nobody leaves the site any more.
    for (const lane of site.waiting.all()) this.#options.wake(lane)
  }

  /** Drops what is known of a site that nobody uses and that does not rest. */
  forgetIdle(name: string): void {
    const site = this.of(name)
    if (site.inFlight === 0 && site.waiting.isEmpty && site.restUntil <= this.#options.clock.now())
      this.#sites.delete(name)
  }
}

/** What one account may have by bulk lanes of what is left to all of them; all of it when nobody else wants any. */
const partOf = (mostBulk: number, line: Line, accountId: number): number =>
  Math.ceil(mostBulk / line.sharers(accountId))
