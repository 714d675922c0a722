/**
 * @module The connection slots of the SMTP listener: limits the total and each network, and chooses the session to
 * evict when all are in use. Never closes a connection itself.
 */
import { networksOf } from '#platform/net/network.ts'
import { Counts } from '#platform/queue/counts.ts'

/** Progress of a session, the most dispensable first. */
export type Stage =
  /** The last reply was sent, but the connection has not closed yet. */
  | 'ended'
  /** No accepted MAIL. */
  | 'idle'
  | 'envelope'
  /** A message is arriving. */
  | 'message'

export interface SlotHolder {
  /** Undefined: the session waits for us and is never evicted. */
  readonly stage: Stage | undefined
  /** When it last made progress towards a message. */
  readonly progressAtMs: number
}

export interface Slot<T> {
  holder: T | undefined
  /** The largest network that the customer may have: an IPv6 /48, an IPv4 address. */
  readonly wideNetwork: string
  /** May be called more than once. */
  release(): void
}

export interface SlotLimits {
  readonly max: number
  readonly maxPerNetwork: number
}

const STAGES: readonly Stage[] = ['ended', 'idle', 'envelope', 'message']
/** Fraction of all slots reserved for networks that have no slot yet. */
const RESERVED_FRACTION = 0.1

interface HeldSlot<T> extends Slot<T> {
  readonly network: string
}

export class ConnectionSlots<T extends SlotHolder> {
  readonly #limits: SlotLimits
  readonly #onEvicted: (holder: T) => void
  readonly #slots = new Set<HeldSlot<T>>()
  readonly #perNetwork = new Counts<string>()
  /**
   * Slots by the largest network that one customer may have: an IPv6 /48 contains 65,536 of the networks in
   * `#perNetwork`.
   */
  readonly #perWideNetwork = new Counts<string>()

  /** @param onEvicted ends a session whose slot another one received */
  constructor(limits: SlotLimits, onEvicted: (holder: T) => void) {
    this.#limits = limits
    this.#onEvicted = onEvicted
  }

  get size(): number {
    return this.#slots.size
  }

  /**
   * Acquires a slot for a connection from an address. Returns why there is none: its network is at its limit, or all
   * are in use.
   */
  acquire(address: string): Slot<T> | 'network' | 'all' {
    const networks = networksOf(address)
    const [network = address] = networks
    const wideNetwork = networks.at(-1) ?? address
    const { max, maxPerNetwork } = this.#limits
    if (this.#perNetwork.of(network) >= maxPerNetwork) return 'network'
    const heldCount = this.#perWideNetwork.of(wideNetwork)
    const available = heldCount === 0 ? max : max - Math.floor(max * RESERVED_FRACTION)
    if (this.#slots.size >= available) {
      const victim = this.#findVictim(heldCount)
      if (!victim?.holder) return 'all'
      victim.release()
      this.#onEvicted(victim.holder)
    }
    const slot: HeldSlot<T> = { network, wideNetwork, holder: undefined, release: () => this.#release(slot) }
    this.#slots.add(slot)
    this.#perNetwork.add(network, 1)
    this.#perWideNetwork.add(wideNetwork, 1)
    return slot
  }

  #release(slot: HeldSlot<T>): void {
    if (!this.#slots.delete(slot)) return
    this.#perNetwork.add(slot.network, -1)
    this.#perWideNetwork.add(slot.wideNetwork, -1)
  }

  /**
   * The session to evict: the most dispensable, then of the network with the most slots, then the longest without
   * progress.
   * @param heldCount slots that the newcomer's network already has
   */
  #findVictim(heldCount: number): HeldSlot<T> | undefined {
    let victim: (Rank & { readonly slot: HeldSlot<T> }) | undefined
    for (const slot of this.#slots) {
      const { holder } = slot
      if (holder?.stage === undefined) continue
      const count = this.#perWideNetwork.of(slot.wideNetwork)
      const stage = STAGES.indexOf(holder.stage)
      // A session with a transaction is evicted only for a network that still has fewer slots afterwards, so that two
      // honest networks do not evict each other in turn.
      if (count <= heldCount + (stage > IDLE ? 1 : 0)) continue
      const rank = { stage, count, sinceMs: holder.progressAtMs, slot }
      if (!victim || isBefore(rank, victim)) victim = rank
    }
    return victim?.slot
  }
}

const IDLE = STAGES.indexOf('idle')

interface Rank {
  readonly stage: number
  /** Slots of the session's network. */
  readonly count: number
  readonly sinceMs: number
}

const isBefore = (a: Rank, b: Rank): boolean => (a.stage - b.stage || b.count - a.count || a.sinceMs - b.sinceMs) < 0
