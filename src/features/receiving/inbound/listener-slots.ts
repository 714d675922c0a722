/**
 * @module The connection slots of the SMTP listener: how many in all, how many of one network, and which session gives
 * way when there are no more. Counts and chooses; never closes a connection itself.
 */
import { networksOf } from '#platform/network.ts'
import { Counts } from '#platform/queue/counts.ts'

/** How far a session is, the most dispensable first. Its place among those with the same. */
export type Stage =
  /** Its last words are said; it only has not closed. */
  | 'ended'
  /** No accepted MAIL. */
  | 'idle'
  | 'envelope'
  /** A message is arriving. */
  | 'message'

export interface SlotHolder {
  /** Undefined: it waits for us, and never gives way. */
  readonly stage: Stage | undefined
  /** When it last came a step closer to a message. */
  readonly progressAtMs: number
}

export interface Slot<T> {
  holder: T | undefined
  /** The largest network that the customer may have whose connection it is: an IPv6 /48, an IPv4 address. */
  readonly wideNetwork: string
  /** May be called again. */
  release(): void
}

export interface SlotLimits {
  readonly max: number
  readonly maxPerNetwork: number
}

const STAGES: readonly Stage[] = ['ended', 'idle', 'envelope', 'message']
/** Of all slots, for networks that have none. */
const RESERVED_FRACTION = 0.1

interface HeldSlot<T> extends Slot<T> {
  readonly network: string
}

export class ConnectionSlots<T extends SlotHolder> {
  readonly #limits: SlotLimits
  readonly #onEvicted: (holder: T) => void
  readonly #slots = new Set<HeldSlot<T>>()
  readonly #perNetwork = new Counts<string>()
  /** By the largest network that one customer may have: an IPv6 /48 has 65,536 of the others. */
  readonly #perWideNetwork = new Counts<string>()

  /** @param onEvicted ends a session whose slot another one has got */
  constructor(limits: SlotLimits, onEvicted: (holder: T) => void) {
    this.#limits = limits
    this.#onEvicted = onEvicted
  }

  get size(): number {
    return this.#slots.size
  }

  /**
   * A slot for a connection from an address, or why there is none: its network has as many as it may have, or all are
   * taken.
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
   * The most dispensable session, of the network with most, that has waited longest. @param held slots that the
   * newcomer's network has already
   */
  #findVictim(heldCount: number): HeldSlot<T> | undefined {
    let victim: (Rank & { readonly slot: HeldSlot<T> }) | undefined
    for (const slot of this.#slots) {
      const { holder } = slot
      if (holder?.stage === undefined) continue
      const count = this.#perWideNetwork.of(slot.wideNetwork)
      const stage = STAGES.indexOf(holder.stage)
      // Whoever brings mail gives way only to a network that still has less afterwards, so that two honest ones do not
      // take turns at it.
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
  /** Slots of its network. */
  readonly count: number
  readonly sinceMs: number
}

const isBefore = (a: Rank, b: Rank): boolean => (a.stage - b.stage || b.count - a.count || a.sinceMs - b.sinceMs) < 0
