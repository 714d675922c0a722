/**
 * @module How much may be under way at the same time: over one webhook, over those of one account, over all. Says who may begin and who waits until
 * somebody else is done; begins nothing itself.
 */
import { MiB } from '#platform/units.ts'
import { MOST_FAILURES } from './ladder.ts'
import type { Lane } from './lane.ts'
import type { Webhook } from './webhooks.ts'

/** Attempts under way over all webhooks, beyond the one that each may always have. */
const MOST_RUNNING = 500
/**
 * The same over the webhooks of one account, so that no tenant takes all. Of inbound routes there are too many for one attempt each: over theirs it is
 * the most, and who finds no place waits for one.
 */
const MOST_RUNNING_OF_ACCOUNT = 50
/** Characters of the bodies under way over the webhooks of one account: what came in by mail may be large. Who finds no room waits for it. */
const MOST_CHARACTERS_OF_ACCOUNT = 8 * MiB

/** Attempts under way, and the characters of their bodies. */
interface UnderWay {
  readonly attempts: number
  readonly characters: number
}

const NOTHING_UNDER_WAY: UnderWay = { attempts: 0, characters: 0 }

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
    if (lane.running === 0) return this.#hasFirstRoom(lane.webhook)
    // So that the failure that switches it off is the last attempt.
    const most =
      lane.failures === 0 ? this.#mostOfWebhook : Math.min(this.#mostOfWebhook, MOST_FAILURES - lane.failures)
    const underWay = this.#underWay(lane.webhook.accountId)
    return (
      lane.isTrusted &&
      lane.running < most &&
      this.#attempts < MOST_RUNNING &&
      underWay.attempts < MOST_RUNNING_OF_ACCOUNT &&
      underWay.characters < MOST_CHARACTERS_OF_ACCOUNT
    )
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
        this.#countOfAccount(accountId, { attempts: 0, characters })
      },
      giveBack: () => {
        if (isGivenBack) return
        isGivenBack = true
        this.#countOfAccount(accountId, { attempts: 0, characters: -held })
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
      const { attempts, characters } = this.#underWay(accountId)
      if (characters >= MOST_CHARACTERS_OF_ACCOUNT) return
      if (attempts >= MOST_RUNNING_OF_ACCOUNT && isOfRoute(id)) continue
      waiting.delete(id)
      pump(id)
    }
    if (waiting.size === 0) this.#waiting.delete(accountId)
  }

  /** Whether a webhook with nothing under way may have an attempt; one that may not is looked at again when another is over. */
  #hasFirstRoom({ id, accountId, routeId }: Webhook): boolean {
    const { attempts, characters } = this.#underWay(accountId)
    const isFull = characters >= MOST_CHARACTERS_OF_ACCOUNT || (routeId !== null && attempts >= MOST_RUNNING_OF_ACCOUNT)
    if (isFull) this.#waiting.set(accountId, (this.#waiting.get(accountId) ?? new Set()).add(id))
    return !isFull
  }

  #underWay(accountId: number): UnderWay {
    return this.#ofAccount.get(accountId) ?? NOTHING_UNDER_WAY
  }

  #count(lane: Lane, delta: 1 | -1): void {
    lane.running += delta
    this.#attempts += delta
    this.#countOfAccount(lane.webhook.accountId, { attempts: delta, characters: 0 })
  }

  #countOfAccount(accountId: number, delta: UnderWay): void {
    const before = this.#underWay(accountId)
    const after = { attempts: before.attempts + delta.attempts, characters: before.characters + delta.characters }
    if (after.attempts === 0 && after.characters === 0) this.#ofAccount.delete(accountId)
    else this.#ofAccount.set(accountId, after)
  }
}
