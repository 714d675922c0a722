/**
 * @module How much may be under way at the same time: over one webhook, over those of one account, over all. Says who may begin and who waits until
 * somebody else is done; begins nothing itself.
 */
import { Counts } from '#platform/queue/counts.ts'
import { KiB, MiB } from '#platform/units.ts'
import type { Lane, Pace } from './lane.ts'

/** Of what pace attempts beyond the first of a webhook are; an unproven one has none. */
type FurtherPace = Exclude<Pace, 'unproven'>

/**
 * Attempts under way over all webhooks, beyond the one that each may always have: those take no place from anybody. Late endpoints share places of their
 * own, or they would hold those of all others.
 */
const MOST_FURTHER: Readonly<Record<FurtherPace, number>> = { fast: 500, slow: 250 }
/** The same over the webhooks of one account, so that no tenant takes all. */
const MOST_FURTHER_OF_ACCOUNT: Readonly<Record<FurtherPace, number>> = { fast: 50, slow: 10 }
/** Attempts under way of a late endpoint: enough for 200,000 events a day at two seconds each. */
const MOST_OF_SLOW_WEBHOOK = 5
/** Inbound routes are too many for one attempt each: over those of an account this is the most, and who finds no place waits for one. */
const MOST_OF_ROUTES = 50
/** Characters of the bodies under way over the webhooks of one account: what came in by mail may be large. Who finds no room waits for it. */
const MOST_CHARACTERS_OF_ACCOUNT = 8 * MiB
/** Over all accounts there are no more than these, */
const MOST_CHARACTERS = 32 * MiB
/** but for those of accounts that have less than this under way: many events, which are small, or one mail. */
const CHARACTERS_ALWAYS = 256 * KiB

/** What an attempt takes of what all share. */
export interface Place {
  /** Its body is in memory. */
  hold(characters: number): void
  /** It is over; called again it does nothing. */
  giveBack(): void
}

export class Places {
  readonly #mostOfWebhook: number
  #attempts = 0
  /** Attempts beyond the first of each webhook, by account and by lane, and by the pace that it had when they began. */
  readonly #further = { fast: new Counts(), slow: new Counts() }
  readonly #furtherOf = { fast: new Counts<Lane>(), slow: new Counts<Lane>() }
  /** Attempts of inbound routes, first and further, by account. */
  readonly #ofRoutes = new Counts()
  /** Of the bodies under way, by account. */
  readonly #characters = new Counts()
  /** Webhooks without an attempt under way that wait for a place in their account, in order. */
  readonly #waiting = new Map<number, Set<number>>()

  /** @param mostOfWebhook attempts under way of one webhook */
  constructor(mostOfWebhook: number) {
    this.#mostOfWebhook = mostOfWebhook
  }

  /** Attempts under way now. */
  get attempts(): number {
    return this.#attempts
  }

  /** Whether a lane may begin one attempt more; one with nothing under way that may not is remembered, for `pumpWaiting`. */
  hasRoom(lane: Lane): boolean {
    const { id, accountId, routeId } = lane.webhook
    const isFree = this.#hasRoomForBody(accountId) && (routeId === null || this.#hasRoomForRoute(accountId))
    if (lane.running > 0) return isFree && this.#hasRoomForFurther(lane)
    if (!isFree) this.#waiting.set(accountId, (this.#waiting.get(accountId) ?? new Set()).add(id))
    return isFree
  }

  /** Takes a place for an attempt that begins. `isOver` is called once, when it is given back. */
  take(lane: Lane, isOver: () => void): Place {
    const { accountId, routeId } = lane.webhook
    const further = lane.running > 0 && lane.pace !== 'unproven' ? lane.pace : undefined
    const ofRoutes = routeId === null ? 0 : 1
    let isGivenBack = false
    let held = 0
    lane.running++
    this.#attempts++
    this.#countFurther(lane, further, 1)
    this.#ofRoutes.add(accountId, ofRoutes)
    return {
      hold: (characters) => {
        held += characters
        this.#characters.add(accountId, characters)
      },
      giveBack: () => {
        if (isGivenBack) return
        isGivenBack = true
        lane.running--
        this.#attempts--
        this.#countFurther(lane, this.#furtherLeft(lane, further), -1)
        this.#ofRoutes.add(accountId, -ofRoutes)
        this.#characters.add(accountId, -held)
        isOver()
      },
    }
  }

  /** Has those begin that waited for a place in an account, before whoever has just given one back takes it again. */
  pumpWaiting(accountId: number, isOfRoute: (id: number) => boolean, pump: (id: number) => void): void {
    const waiting = this.#waiting.get(accountId)
    if (!waiting) return
    for (const id of waiting) {
      if (!this.#hasRoomForBody(accountId)) return
      if (!this.#hasRoomForRoute(accountId) && isOfRoute(id)) continue
      waiting.delete(id)
      pump(id)
    }
    if (waiting.size === 0) this.#waiting.delete(accountId)
  }

  #hasRoomForBody(accountId: number): boolean {
    const isFree = this.#characters.total < MOST_CHARACTERS
    return this.#characters.of(accountId) < (isFree ? MOST_CHARACTERS_OF_ACCOUNT : CHARACTERS_ALWAYS)
  }

  #hasRoomForRoute(accountId: number): boolean {
    return this.#ofRoutes.of(accountId) < MOST_OF_ROUTES
  }

  #hasRoomForFurther({ webhook: { accountId }, pace, running }: Lane): boolean {
    if (pace === 'unproven') return false
    const ofWebhook = pace === 'slow' ? Math.min(this.#mostOfWebhook, MOST_OF_SLOW_WEBHOOK) : this.#mostOfWebhook
    const further = this.#further[pace]
    return (
      running < ofWebhook && further.of(accountId) < MOST_FURTHER_OF_ACCOUNT[pace] && further.total < MOST_FURTHER[pace]
    )
  }

  /** The class that gets a place back: that of the attempt; of the first one, whichever others of its webhook go on. */
  #furtherLeft(lane: Lane, own: FurtherPace | undefined): FurtherPace | undefined {
    const hasLeft = (pace: FurtherPace): boolean => this.#furtherOf[pace].of(lane) > 0
    return own !== undefined && hasLeft(own) ? own : (['slow', 'fast'] as const).find(hasLeft)
  }

  #countFurther(lane: Lane, pace: FurtherPace | undefined, delta: 1 | -1): void {
    if (pace === undefined) return
    this.#furtherOf[pace].add(lane, delta)
    this.#further[pace].add(lane.webhook.accountId, delta)
  }
}
