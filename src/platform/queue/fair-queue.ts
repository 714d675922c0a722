/**
 * @module A queue in which owners (accounts, networks) take turns: who has used least is next, so that one who brings much holds up himself only.
 * Start-time fair queuing (Goyal, Vin, Cheng 1996): each owner has a virtual start time, which grows by the cost of what he was given; who comes
 * anew starts at that of the item given out last. Never runs anything and knows no clock.
 */

export type Owner = string | number

export interface FairQueueLimits {
  /** Items of all owners together. When they are reached, the newest item of the owner with most of them gives way to one of an owner with fewer. */
  readonly maxWaiting?: number
  /** Items of one owner. */
  readonly maxPerOwner?: number
}

interface OwnerState<T> {
  /** Virtual time at which his next item begins. */
  start: number
  readonly waiting: { readonly item: T; readonly cost: number }[]
}

export interface Shifted<T> {
  readonly owner: Owner
  readonly item: T
  readonly cost: number
}

export class FairQueue<T> {
  readonly #limits: Required<FairQueueLimits>
  readonly #onEvicted: (item: T) => void
  readonly #owners = new Map<Owner, OwnerState<T>>()
  #virtualTime = 0
  #size = 0

  /** @param onEvicted is given what had to give way to an owner with fewer items */
  constructor(limits: FairQueueLimits = {}, onEvicted: (item: T) => void = () => undefined) {
    this.#limits = { maxWaiting: Number.POSITIVE_INFINITY, maxPerOwner: Number.POSITIVE_INFINITY, ...limits }
    this.#onEvicted = onEvicted
  }

  /** Items of all owners. */
  get size(): number {
    return this.#size
  }

  sizeOf(owner: Owner): number {
    return this.#owners.get(owner)?.waiting.length ?? 0
  }

  /** Owners with items. */
  get ownerCount(): number {
    let count = 0
    for (const { waiting } of this.#owners.values()) if (waiting.length > 0) count++
    return count
  }

  /**
   * Adds an item behind those of its owner. False, and nothing is added, when a limit is reached and nobody gives way.
   * @param cost what it will use, in any unit that is the same for all; what is only known afterwards is added by `charge`
   */
  push(owner: Owner, item: T, cost = 1): boolean {
    const count = this.sizeOf(owner)
    if (count >= this.#limits.maxPerOwner) return false
    if (this.#size >= this.#limits.maxWaiting && !this.#evictFor(count)) return false
    this.#stateOf(owner).waiting.push({ item, cost })
    this.#size++
    return true
  }

  /**
   * The next item, without taking it out; undefined when none waits.
   * @param isServable leaves out owners who cannot be served now; they keep their turn
   */
  peek(isServable: (owner: Owner) => boolean = () => true): T | undefined {
    return this.#next(isServable)?.[1].waiting[0]?.item
  }

  /** Takes out the item that `peek` returns. */
  shift(isServable: (owner: Owner) => boolean = () => true): Shifted<T> | undefined {
    const next = this.#next(isServable)
    if (!next) return undefined
    const [owner, state] = next
    const taken = state.waiting.shift()
    if (!taken) return undefined
    this.#size--
    this.#virtualTime = Math.max(this.#virtualTime, state.start)
    state.start += taken.cost
    // Behind others with the same start.
    this.#owners.delete(owner)
    this.#owners.set(owner, state)
    if (this.#size === 0) this.#forgetIdle()
    return { owner, ...taken }
  }

  #next(isServable: (owner: Owner) => boolean): [Owner, OwnerState<T>] | undefined {
    let next: [Owner, OwnerState<T>] | undefined
    for (const [owner, state] of this.#owners) {
      if (state.waiting.length === 0) {
        // What he used is paid off: who is not known starts at the same time.
        if (state.start <= this.#virtualTime) this.#owners.delete(owner)
      } else if ((!next || state.start < next[1].start) && isServable(owner)) next = [owner, state]
    }
    return next
  }

  /** Puts an item that was taken out before all others of its owner, for another turn; no limit applies. */
  putBack({ owner, item, cost }: Shifted<T>): void {
    const state = this.#stateOf(owner)
    state.start -= cost
    state.waiting.unshift({ item, cost })
    this.#size++
  }

  /** Adds to what an owner has used; negative gives back. Counts only while somebody waits: nobody is held against what held up nobody. */
  charge(owner: Owner, cost: number): void {
    if (this.#size > 0) this.#stateOf(owner).start += cost
  }

  /** Takes out all items that `isWanted`, in the order of their owners; what the owners used stays counted. */
  remove(isWanted: (item: T, owner: Owner) => boolean): T[] {
    const removed: T[] = []
    for (const [owner, { waiting }] of this.#owners)
      for (let i = 0; i < waiting.length; ) {
        const entry = waiting[i]
        if (entry && isWanted(entry.item, owner)) {
          removed.push(entry.item)
          waiting.splice(i, 1)
        } else i++
      }
    this.#size -= removed.length
    return removed
  }

  #stateOf(owner: Owner): OwnerState<T> {
    let state = this.#owners.get(owner)
    if (!state) {
      state = { start: this.#virtualTime, waiting: [] }
      this.#owners.set(owner, state)
    } else if (state.waiting.length === 0) state.start = Math.max(state.start, this.#virtualTime)
    return state
  }

  /** The newest item of the owner with most goes, unless he has no more than the newcomer would have. */
  #evictFor(count: number): boolean {
    let most: OwnerState<T> | undefined
    for (const state of this.#owners.values()) if (state.waiting.length > (most?.waiting.length ?? 0)) most = state
    if (!most || most.waiting.length <= count + 1) return false
    const evicted = most.waiting.pop()
    if (!evicted) return false
    this.#size--
    this.#onEvicted(evicted.item)
    return true
  }

  #forgetIdle(): void {
    for (const [owner, { start }] of this.#owners) if (start <= this.#virtualTime) this.#owners.delete(owner)
    if (this.#owners.size > MAX_IDLE_OWNERS) this.#owners.clear()
  }
}

/** Owners without items whose use is remembered while nobody waits. */
const MAX_IDLE_OWNERS = 10_000
