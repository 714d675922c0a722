/**
 * @module How much may be under way at the same time: over one webhook, over those of one account, over all. Says who may begin and who waits until
 * somebody else is done; begins nothing itself.
 */
import { KiB, MiB } from '#platform/units.ts'
import { MOST_FAILURES } from './ladder.ts'
import type { Lane } from './lane.ts'

/** Attempts under way over all webhooks, beyond the one that each may always have: those take no place from anybody. */
const MOST_FURTHER = 500
/** The same over the webhooks of one account, so that no tenant takes all. */
const MOST_FURTHER_OF_ACCOUNT = 50
/** Inbound routes are too many for one attempt each: over those of an account this is the most, and who finds no place waits for one. */
const MOST_OF_ROUTES = 50
/** Characters of the bodies under way over the webhooks of one account: what came in by mail may be large. Who finds no room waits for it. */
const MOST_CHARACTERS_OF_ACCOUNT = 8 * MiB
/** Over all accounts there are no more than these, */
const MOST_CHARACTERS = 32 * MiB
/** but for those of accounts that have less than this under way: many events, which are small, or one mail. */
const CHARACTERS_ALWAYS = 256 * KiB

/** What is under way over the webhooks of an account. */
interface UnderWay {
  /** Attempts beyond the first of each webhook. */
  further: number
  /** Attempts of inbound routes, first and further. */
  ofRoutes: number
  characters: number
}

const NOTHING: Readonly<UnderWay> = { further: 0, ofRoutes: 0, characters: 0 }

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
  #further = 0
  #characters = 0
  readonly #ofAccount = new Map<number, UnderWay>()
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
    const { accountId } = lane.webhook
    let isGivenBack = false
    let held = 0
    this.#count(lane, 1)
    return {
      hold: (characters) => {
        held += characters
        this.#countOfAccount(accountId, { characters })
      },
      giveBack: () => {
        if (isGivenBack) return
        isGivenBack = true
        this.#countOfAccount(accountId, { characters: -held })
        this.#count(lane, -1)
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
    const { characters } = this.#underWay(accountId)
    return characters < (this.#characters < MOST_CHARACTERS ? MOST_CHARACTERS_OF_ACCOUNT : CHARACTERS_ALWAYS)
  }

  #hasRoomForRoute(accountId: number): boolean {
    return this.#underWay(accountId).ofRoutes < MOST_OF_ROUTES
  }

  #hasRoomForFurther({ webhook: { accountId }, isTrusted, running, failures }: Lane): boolean {
    // So that the failure that switches it off is the last attempt.
    const most = failures === 0 ? this.#mostOfWebhook : Math.min(this.#mostOfWebhook, MOST_FAILURES - failures)
    const { further } = this.#underWay(accountId)
    return isTrusted && running < most && this.#further < MOST_FURTHER && further < MOST_FURTHER_OF_ACCOUNT
  }

  #underWay(accountId: number): Readonly<UnderWay> {
    return this.#ofAccount.get(accountId) ?? NOTHING
  }

  #count(lane: Lane, delta: 1 | -1): void {
    const { accountId, routeId } = lane.webhook
    const before = Math.max(0, lane.running - 1)
    lane.running += delta
    const further = Math.max(0, lane.running - 1) - before
    this.#attempts += delta
    this.#further += further
    this.#countOfAccount(accountId, { further, ofRoutes: routeId === null ? 0 : delta })
  }

  #countOfAccount(accountId: number, delta: Partial<UnderWay>): void {
    const { further, ofRoutes, characters } = this.#underWay(accountId)
    const after = {
      further: further + (delta.further ?? 0),
      ofRoutes: ofRoutes + (delta.ofRoutes ?? 0),
      characters: characters + (delta.characters ?? 0),
    }
    this.#characters += delta.characters ?? 0
    if (after.further === 0 && after.ofRoutes === 0 && after.characters === 0) this.#ofAccount.delete(accountId)
    else this.#ofAccount.set(accountId, after)
  }
}
