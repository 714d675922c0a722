/**
 * @module The sites that lanes lead to and the places there: how much of each a lane may have, when a site rests, who is offered what became
 * free. Never claims and knows lanes only by name.
 *
 * place: room for one message in delivery, counted over all sites and for its site. bulk lane: that of broadcasts. It comes after all other lanes, and
 * leaves room that only they may use, so that their mail finds some whenever it comes.
 */
import type { Clock, Millis } from '#platform/clock.ts'
import { isBulkLane } from '../emails/lanes.ts'
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
  /** Lanes that have due mail and found the site full or resting. */
  readonly waiting: Line
}

/** Lanes that wait; who waits longest is first. */
class Line {
  readonly #ordinary = new Set<string>()
  /** They come after all others. */
  readonly #bulk = new Set<string>()
  /** Lanes that were woken and have not had their turn yet. */
  readonly #woken = new Set<string>()

  /** Whether a lane that is not bulk waits, or is about to take what it waited for. */
  get hasOrdinary(): boolean {
    if (this.#ordinary.size > 0) return true
    for (const lane of this.#woken) if (!isBulkLane(lane)) return true
    return false
  }

  get isEmpty(): boolean {
    return this.#ordinary.size + this.#bulk.size + this.#woken.size === 0
  }

  add(lane: string): void {
    if (isBulkLane(lane)) this.#bulk.add(lane)
    else this.#ordinary.add(lane)
  }

  delete(lane: string): void {
    this.#ordinary.delete(lane)
    this.#bulk.delete(lane)
    this.#woken.delete(lane)
  }

  has(lane: string): boolean {
    return this.#ordinary.has(lane) || this.#bulk.has(lane)
  }

  all(): string[] {
    return [...this.#ordinary, ...this.#bulk]
  }

  /** Takes out the first of the bulk lanes, or of the others. */
  shift(isBulk: boolean): string | undefined {
    const lanes = isBulk ? this.#bulk : this.#ordinary
    const [lane] = lanes
    if (lane === undefined) return undefined
    lanes.delete(lane)
    this.#woken.add(lane)
    return lane
  }

  /** The turn of a lane that was taken out is over. */
  turnOver(lane: string): void {
    this.#woken.delete(lane)
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

  constructor(options: SitesOptions) {
    this.#options = options
  }

  /** Messages in delivery, over all sites. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Places that are left for a lane, over all sites. None for a bulk lane while another one waits for a place. */
  placesFor(isBulk: boolean): number {
    const most = this.#options.deliveryConcurrency
    if (!isBulk) return most - this.#inFlight
    if (this.#waitingForPlace.hasOrdinary) return 0
    const mostBulk = Math.max(1, Math.floor(most * MOST_BULK_PLACES))
    return Math.min(mostBulk - this.#bulkInFlight, bulkShare(most) - this.#inFlight)
  }

  /** The site of that name; a new one when nothing is known of it. */
  of(name: string): Site {
    let site = this.#sites.get(name)
    if (!site) {
      site = { inFlight: 0, restUntil: 0, restReason: '', failures: 0, answers: 0, waiting: new Line() }
      this.#sites.set(name, site)
    }
    return site
  }

  /** How many more messages of a lane the site may have. None of a bulk lane while another one waits for room there. */
  roomFor(site: Site, isBulk: boolean): number {
    const all = this.#options.connectionsPerSite * CLAIMED_PER_CONNECTION
    const most = Math.min(all, CLAIMED_UNANSWERED * (1 + site.answers))
    if (!isBulk) return most - site.inFlight
    return site.waiting.hasOrdinary ? 0 : bulkShare(most) - site.inFlight
  }

  takePlaces(site: Site, count: number, isBulk: boolean): void {
    site.inFlight += count
    this.#inFlight += count
    if (isBulk) this.#bulkInFlight += count
  }

  /** Whoever waits for them has to be offered them: `offerPlaces`. */
  giveBackPlaces(site: Site, count: number, isBulk: boolean): void {
    this.takePlaces(site, -count, isBulk)
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
   * Gives free places to who waits longest, to bulk lanes when nobody else waits there. One lane at a time: it claims as much as it can use, and when
   * its turn is over the next one's begins, also when it used nothing.
   */
  offerPlaces(): void {
    const now = this.#options.clock.now()
    if (this.placesFor(false) <= 0) return
    for (const site of this.#crowded) {
      if (site.restUntil <= now) this.#wakeNext(site.waiting, (isBulk) => this.roomFor(site, isBulk))
      if (site.waiting.isEmpty) this.#crowded.delete(site)
    }
    this.#wakeNext(this.#waitingForPlace, (isBulk) => this.placesFor(isBulk))
  }

  #wakeNext(line: Line, free: (isBulk: boolean) => number): void {
    for (const isBulk of [false, true]) {
      if (free(isBulk) <= 0) continue
      for (let lane = line.shift(isBulk); lane !== undefined; lane = line.shift(isBulk)) {
        if (this.#options.wake(lane)) return
        line.turnOver(lane)
      }
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
