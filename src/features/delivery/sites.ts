/**
 * @module The sites that lanes lead to and the places there: how much of each a lane may have, when a site rests, who is offered what became
 * free. Never claims and knows lanes only by name.
 *
 * place: room for one message in delivery, counted over all sites and for its site.
 */
import type { Clock, Millis } from '#platform/clock.ts'
import { siteRestMs } from './outcome.ts'

export interface Site {
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

export interface SitesOptions {
  readonly clock: Clock
  /** Messages in delivery at the same time, over all sites. */
  readonly deliveryConcurrency: number
  readonly connectionsPerSite: number
  /** Begins the turn of a lane that waited here. */
  readonly wake: (lane: string) => void
}

/** Messages claimed for each connection of a site: the next is composed while the last is on its way. */
const CLAIMED_PER_CONNECTION = 2
/** Messages claimed for a site before it has answered; each answer makes room for as many more. A silent site must not hold everybody's places. */
const CLAIMED_UNANSWERED = 2

export class Sites {
  readonly #options: SitesOptions
  readonly #sites = new Map<string, Site>()
  /** Sites with waiting lanes. */
  readonly #crowded = new Set<Site>()
  /** Lanes that found all places taken; who waits longest is first. */
  readonly #waitingForPlace = new Set<string>()
  #inFlight = 0

  constructor(options: SitesOptions) {
    this.#options = options
  }

  /** Messages in delivery, over all sites. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Places that are left, over all sites. */
  get freePlaces(): number {
    return this.#options.deliveryConcurrency - this.#inFlight
  }

  /** The site of that name; a new one when nothing is known of it. */
  of(name: string): Site {
    let site = this.#sites.get(name)
    if (!site) {
      site = { inFlight: 0, restUntil: 0, restReason: '', failures: 0, answers: 0, waiting: new Set() }
      this.#sites.set(name, site)
    }
    return site
  }

  /** How many more messages the site may have. */
  roomAt(site: Site): number {
    const most = this.#options.connectionsPerSite * CLAIMED_PER_CONNECTION
    return Math.min(most, CLAIMED_UNANSWERED * (1 + site.answers)) - site.inFlight
  }

  takePlaces(site: Site, count: number): void {
    site.inFlight += count
    this.#inFlight += count
  }

  /** Whoever waits for them has to be offered them: `offerPlaces`. */
  giveBackPlaces(site: Site, count: number): void {
    site.inFlight -= count
    this.#inFlight -= count
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

  isWaitingAt(name: string, lane: string): boolean {
    return this.#sites.get(name)?.waiting.has(lane) ?? false
  }

  isWaitingForPlace(lane: string): boolean {
    return this.#waitingForPlace.has(lane)
  }

  /** The site, with its name, whose rest a lane waits for. */
  restingFor(lane: string, now: Millis): [name: string, site: Site] | undefined {
    return [...this.#sites].find(([, site]) => site.waiting.has(lane) && site.restUntil > now)
  }

  /**
   * Gives free places to who waits longest. One lane at a time: it claims as much as it can use, and when its turn is over the next one's
   * begins, also when it used nothing.
   */
  offerPlaces(): void {
    const now = this.#options.clock.now()
    if (this.freePlaces <= 0) return
    for (const site of this.#crowded) {
      if (site.restUntil <= now && this.roomAt(site) > 0) this.#wakeFirst(site.waiting)
      if (site.waiting.size === 0) this.#crowded.delete(site)
    }
    this.#wakeFirst(this.#waitingForPlace)
  }

  #wakeFirst(line: Set<string>): void {
    const [lane] = line
    if (lane === undefined) return
    line.delete(lane)
    this.#options.wake(lane)
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
    for (const lane of site.waiting) this.#options.wake(lane)
  }

  /** Drops what is known of a site that nobody uses and that does not rest. */
  forgetIdle(name: string): void {
    const site = this.of(name)
    if (site.inFlight === 0 && site.waiting.size === 0 && site.restUntil <= this.#options.clock.now())
      this.#sites.delete(name)
  }
}
