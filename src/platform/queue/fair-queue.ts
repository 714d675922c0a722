/**
 * @module A fair queue: the owner (an account, a network) that has used least is next, so an owner with much work
 * delays only itself. Start-time fair queuing (Goyal, Vin, Cheng 1996): each owner has a virtual start time, which
 * grows by the cost of the owner's items; a new owner starts at the virtual time of the last item taken out. An owner
 * may have several shares (a network and an account): the owner's use counts for each of them, and the share with the
 * most use decides. Never runs anything and reads no clock.
 */

export type Owner = string | number

export interface FairQueueLimits {
  /**
   * Limit for the number of waiting items of all owners. At the limit, a new item evicts the newest item of the owner
   * with the most items, if the new item's owner has fewer.
   */
  readonly maxWaiting?: number
  /** Limit for the number of waiting items of one owner. */
  readonly maxPerOwner?: number
}

export interface FairQueueOptions extends FairQueueLimits {
  /**
   * Returns the shares that an owner's use counts for; must always return the same shares for an owner. Default: a
   * share of the owner's own.
   */
  readonly sharesOf?: (owner: Owner) => readonly Owner[]
}

interface Share {
  readonly name: Owner
  /** Virtual time at which the next item begins. */
  start: number
  /** Number of waiting items of all owners that use this share. */
  waiting: number
}

interface OwnerState<T> {
  readonly shares: readonly Share[]
  readonly waiting: QueuedItem<T>[]
  /** Number of waiting items that count towards the limits. */
  limited: number
}

interface QueuedItem<T> {
  readonly item: T
  readonly cost: number
  readonly isLimited: boolean
  readonly rank: number
}

export interface DequeuedItem<T> {
  readonly owner: Owner
  readonly item: T
  readonly cost: number
}

export class FairQueue<T> {
  readonly #limits: Required<FairQueueLimits>
  readonly #sharesOf: (owner: Owner) => readonly Owner[]
  readonly #onEvicted: (item: T) => void
  readonly #owners = new Map<Owner, OwnerState<T>>()
  readonly #shares = new Map<Owner, Share>()
  #virtualTime = 0
  #size = 0
  /** Items that count towards the limits. */
  #limited = 0

  /** @param onEvicted called with each item that is evicted to admit an item of an owner with fewer items */
  constructor(options: FairQueueOptions = {}, onEvicted: (item: T) => void = () => undefined) {
    const { sharesOf = (owner) => [owner], ...limits } = options
    this.#limits = { maxWaiting: Number.POSITIVE_INFINITY, maxPerOwner: Number.POSITIVE_INFINITY, ...limits }
    this.#sharesOf = sharesOf
    this.#onEvicted = onEvicted
  }

  /** Items of all owners. */
  get size(): number {
    return this.#size
  }

  sizeOf(owner: Owner): number {
    return this.#owners.get(owner)?.waiting.length ?? 0
  }

  /** Number of owners with items. */
  get ownerCount(): number {
    return this.#owners.size
  }

  /** The owners with items. */
  owners(): Owner[] {
    return [...this.#owners.keys()]
  }

  /**
   * Adds an item behind the other items of its owner, or before those of a higher rank. Returns false, and adds nothing, when a limit is reached and no
   * item can be evicted.
   * @param cost in any unit, the same unit for all items; `charge` adds a cost that is known only afterwards
   * @param options.isLimited false: exempt from limits and eviction, because the item continues work that was admitted
   * within the limits
   */
  push(
    owner: Owner,
    item: T,
    cost = 1,
    { isLimited = true, rank = 0 }: { readonly isLimited?: boolean; readonly rank?: number } = {},
  ): boolean {
    const count = this.#owners.get(owner)?.limited ?? 0
    if (isLimited && count >= this.#limits.maxPerOwner) return false
    if (isLimited && this.#limited >= this.#limits.maxWaiting && !this.#evictFor(count)) return false
    const state = this.#ensureOwner(owner)
    const place = state.waiting.findLastIndex((other) => other.rank <= rank) + 1
    state.waiting.splice(place, 0, { item, cost, isLimited, rank })
    for (const share of state.shares) share.waiting++
    this.#size++
    if (isLimited) {
      state.limited++
      this.#limited++
    }
    return true
  }

  /**
   * The next item, without taking it out; undefined when no servable item waits.
   * @param isServable returns false for owners that cannot be served now; these are skipped and keep their turn
   */
  peek(isServable: (owner: Owner) => boolean = () => true): T | undefined {
    return this.#next(isServable)?.state.waiting[0]?.item
  }

  /** Takes out the item that `peek` returns. */
  shift(isServable: (owner: Owner) => boolean = () => true): DequeuedItem<T> | undefined {
    const next = this.#next(isServable)
    const dequeued = next?.state.waiting.shift()
    if (!next || !dequeued) return undefined
    const { owner, state, start } = next
    this.#virtualTime = Math.max(this.#virtualTime, start)
    // The other shares move up to the start of the share that decided the order, so that they accumulate no credit.
    for (const share of state.shares) share.start = Math.max(share.start, start) + dequeued.cost
    this.#uncount(state, dequeued)
    // Moves the owner behind others with the same start.
    this.#owners.delete(owner)
    if (state.waiting.length > 0) this.#owners.set(owner, state)
    this.#evictIdleShares()
    return { owner, item: dequeued.item, cost: dequeued.cost }
  }

  /** Puts an item back in front of the other items of its owner, for another turn; limits do not apply. */
  putBack({ owner, item, cost }: DequeuedItem<T>): void {
    const state = this.#ensureOwner(owner)
    for (const share of state.shares) {
      share.start -= cost
      share.waiting++
    }
    state.waiting.unshift({ item, cost, isLimited: false, rank: 0 })
    this.#size++
  }

  #next(isServable: (owner: Owner) => boolean) {
    let next: { readonly owner: Owner; readonly state: OwnerState<T>; readonly start: number } | undefined
    for (const [owner, state] of this.#owners) {
      const start = findVirtualStart(state)
      const isBefore = !next || start < next.start || (start === next.start && sumUse(state) < sumUse(next.state))
      if (isBefore && isServable(owner)) next = { owner, state, start }
    }
    return next
  }

  /**
   * Adds to an owner's use; a negative cost reduces the use. Does nothing while no items wait: an owner is not charged
   * for use that delayed no one.
   */
  charge(owner: Owner, cost: number): void {
    if (this.#size === 0) return
    for (const name of this.#sharesOf(owner)) this.#ensureShare(name).start += cost
  }

  /**
   * Removes all items for which `isSelected` is true, and returns them grouped by owner. The owners' use stays counted.
   */
  remove(isSelected: (item: T, owner: Owner) => boolean): T[] {
    const removed: T[] = []
    for (const [owner, state] of this.#owners) {
      const { waiting } = state
      for (let i = 0; i < waiting.length; ) {
        const entry = waiting[i]
        if (entry && isSelected(entry.item, owner)) {
          removed.push(entry.item)
          waiting.splice(i, 1)
          this.#uncount(state, entry)
        } else i++
      }
      if (waiting.length === 0) this.#owners.delete(owner)
    }
    return removed
  }

  /** Returns an owner's state, which is created if missing. */
  #ensureOwner(owner: Owner): OwnerState<T> {
    let state = this.#owners.get(owner)
    if (!state) {
      state = { shares: this.#sharesOf(owner).map((name) => this.#ensureShare(name)), waiting: [], limited: 0 }
      this.#owners.set(owner, state)
    }
    return state
  }

  /**
   * Returns a share, which is created if missing. A share without waiting items starts no earlier than the current
   * virtual time.
   */
  #ensureShare(name: Owner): Share {
    let share = this.#shares.get(name)
    if (!share) {
      share = { name, start: this.#virtualTime, waiting: 0 }
      this.#shares.set(name, share)
    } else if (share.waiting === 0) share.start = Math.max(share.start, this.#virtualTime)
    return share
  }

  #uncount(state: OwnerState<T>, { isLimited }: QueuedItem<T>): void {
    this.#size--
    if (isLimited) {
      state.limited--
      this.#limited--
    }
    for (const share of state.shares) {
      share.waiting--
      // The share's past use no longer matters: a new share would start at the same virtual time.
      if (share.waiting === 0 && share.start <= this.#virtualTime) this.#shares.delete(share.name)
    }
  }

  /**
   * Evicts the newest item of the owner with the most items, if that owner has more than `count` + 1 items. Otherwise
   * evicts nothing and returns false.
   */
  #evictFor(count: number): boolean {
    let largest: OwnerState<T> | undefined
    for (const state of this.#owners.values()) if (state.limited > (largest?.limited ?? 0)) largest = state
    if (!largest || largest.limited <= count + 1) return false
    const position = largest.waiting.findLastIndex(({ isLimited }) => isLimited)
    const [evicted] = largest.waiting.splice(position, 1)
    if (!evicted) return false
    this.#uncount(largest, evicted)
    this.#onEvicted(evicted.item)
    return true
  }

  #evictIdleShares(): void {
    if (this.#size > 0 && this.#shares.size <= MAX_IDLE_SHARES) return
    for (const [name, { start, waiting }] of this.#shares)
      if (waiting === 0 && (start <= this.#virtualTime || this.#shares.size > MAX_IDLE_SHARES))
        this.#shares.delete(name)
  }
}

/** Virtual start time of an owner's next item. */
const findVirtualStart = <T>({ shares }: OwnerState<T>): number => {
  let start = 0
  for (const share of shares) if (share.start > start) start = share.start
  return start
}

/** Breaks ties between owners whose fullest shares are equal. */
const sumUse = <T>({ shares }: OwnerState<T>): number => {
  let sum = 0
  for (const share of shares) sum += share.start
  return sum
}

/** Maximum number of shares; above it, shares without waiting items are deleted and their use is forgotten. */
const MAX_IDLE_SHARES = 10_000
