/**
 * @module Tracks sites, their addresses and their slots: how many slots a lane may take, when to back off from a site
 * whose hosts accept no connection, and which lane is offered free slots. Never claims, and knows lanes only by name.
 *
 * slot: capacity for one message in delivery; counted in total, per address that is dialled first, per site, and per
 * pair of provider and outgoing address (providers/pair). Accounts share them: see slot-pool.
 *
 * bulk lane: the lane of an account's broadcasts. It comes after all other lanes and never uses the last free slots, so
 * that other mail always finds one.
 */

import { isIPv4 } from 'node:net'
import { classOfLane, type LaneClass } from '#features/sending/queue/lanes.ts'
import { networkOf } from '#platform/net/network.ts'
import type { Clock } from '#platform/time/clock.ts'
import { hours, type Millis, minutes, seconds } from '#platform/units.ts'
import type { Route } from '../protocol.ts'
import type { Instant, Pair } from '../providers/pair.ts'
import { CLAIMED_PER_CONNECTION, SITE_RULES, SlotPool, type SlotRules, type WaitQueue } from '../providers/slot-pool.ts'
import { computeSiteBackoffMs, MAX_SITE_BACKOFF_MS } from '../verdict/outcome.ts'

export type BackoffRule = 'site-backoff' | 'proxy-failed'

export interface Site {
  backoffUntil: Millis
  backoffSince: Millis
  backoffReason: string
  backoffRule: BackoffRule
  /** Backoffs since the last session. */
  failures: number
  /** Sessions since the last backoff. */
  sessions: number
  /** Connections that the policies of its provider allow at the same time, from all our addresses. */
  connections: number
  readonly slots: SlotPool
}

/** Where messages of a lane go: each needs a slot of the site, of the address, of the pair, and of the total. */
export interface Destination {
  readonly siteName: string
  readonly pair: Pair
  /** The network of the address that is dialled first. */
  readonly network: string
  /** Whether the route has IPv4 addresses, so that IPv6 can be left out. */
  readonly hasIpv4: boolean
}

/** What a queue of lanes is for. */
interface QueueUse {
  /** How many more messages of an account and class may begin. */
  readonly freeFor: (owner: number, laneClass: LaneClass) => number
  readonly pair?: Pair
  readonly site?: readonly [name: string, site: Site]
}

export interface SitesOptions {
  readonly clock: Clock
  /** Messages in delivery at the same time, over all sites. */
  readonly deliveryConcurrency: number
  readonly connectionsPerSite: number
  readonly instant: () => Instant
  /** Called while lanes wait for a pair over which no message may begin now. */
  readonly onPairBlocked: (pair: Pair) => void
  /** The account that a lane's slots are counted for. */
  readonly ownerOf: (lane: string) => number
  /** Starts the turn of a lane that waited here; false when it has no mail any more. */
  readonly wake: (lane: string) => boolean
}

/** Claimed before the first session; each session adds as many. A silent site must not hold all slots. */
const CLAIMED_BEFORE_SESSION = 2
/**
 * Fraction of all slots that messages to one address may take: thousands of names may lead to the same silent server.
 * The fraction is not smaller, because large providers have a name for each customer at few addresses.
 */
const MAX_ADDRESS_FRACTION = 0.25
/** How long after the end of its last backoff a site is remembered, so that the next backoff is longer. */
const BACKOFF_RETENTION_MS = hours(1)
/** Short: a probe costs one connection to a machine of the operator. */
const MAX_PROXY_BACKOFF_MS = minutes(2)
/** When the outcome of a probe is known: after the timeout of a connection, and some. */
const PROBE_MS = seconds(40)
/** Rather long: until the server answers, or its connection times out. */
const SLOT_WAIT_MS = seconds(30)
/** Slots are scarce when a smaller fraction of them is free. */
const SCARCE_FRACTION = 0.25

const GLOBAL_RULES: SlotRules = { contestedFraction: 0.25, bulkFraction: 0.5, leavesFree: true }
const ADDRESS_RULES: SlotRules = { contestedFraction: 1, bulkFraction: 0.8, leavesFree: true }

export class Sites {
  readonly #options: SitesOptions
  readonly #sites = new Map<string, Site>()
  readonly #addresses = new Map<string, SlotPool>()
  readonly #all: SlotPool
  /** Queues of sites, addresses and pairs in which lanes wait; without those where nothing may begin for a time. */
  readonly #crowded = new Set<WaitQueue>()
  readonly #useOf = new WeakMap<WaitQueue, QueueUse>()
  /** The queues in which each lane waits or was woken. */
  readonly #queuesOf = new Map<string, Set<WaitQueue>>()
  #nextSweepAt: Millis = 0

  constructor(options: SitesOptions) {
    this.#options = options
    this.#all = new SlotPool(GLOBAL_RULES, options.ownerOf)
    this.#useOf.set(this.#all.waiting, { freeFor: (owner, laneClass) => this.#freeOfAll(owner, laneClass) })
  }

  get inFlight(): number {
    return this.#all.inFlight
  }

  /** Slots that a lane may still take, of the total. */
  slotsFor(lane: string): number {
    return this.#freeOfAll(this.#options.ownerOf(lane), classOfLane(lane))
  }

  /** How many more messages of a lane may go to the site. */
  capacityOfSite(site: Site, lane: string): number {
    return this.#freeAtSite(site, this.#options.ownerOf(lane), classOfLane(lane))
  }

  /** How many more messages of a lane may go to an address. */
  capacityOfAddress(network: string, lane: string): number {
    return this.#freeAtAddress(this.#getAddress(network), this.#options.ownerOf(lane), classOfLane(lane))
  }

  /** How many more messages of a lane may go out over a pair. None while it is the turn of other lanes that wait there. */
  capacityOfPair(pair: Pair, lane: string): number {
    const { waiting } = pair.slots
    const isLimited = pair.allowance(this.#options.instant()) !== Number.POSITIVE_INFINITY
    if (isLimited && !waiting.isEmpty && !waiting.isWoken(lane)) return 0
    return this.#freeAtPair(pair, this.#options.ownerOf(lane), classOfLane(lane))
  }

  #freeAtPair(pair: Pair, owner: number, laneClass: LaneClass): number {
    return pair.freeFor(owner, laneClass, this.#options.instant(), this.#canUse)
  }

  #freeOfAll(owner: number, laneClass: LaneClass): number {
    return this.#all.freeFor(owner, laneClass, this.#options.deliveryConcurrency)
  }

  readonly #canUse = (owner: number): boolean => this.#freeOfAll(owner, 'high') > 0

  #freeAtAddress(slots: SlotPool, owner: number, laneClass: LaneClass): number {
    const max = Math.max(
      Math.floor(this.#options.deliveryConcurrency * MAX_ADDRESS_FRACTION),
      this.#options.connectionsPerSite * CLAIMED_PER_CONNECTION,
    )
    return slots.freeFor(owner, laneClass, max, this.#canUse)
  }

  #freeAtSite({ sessions, slots, connections }: Site, owner: number, laneClass: LaneClass): number {
    const all = connections * CLAIMED_PER_CONNECTION
    return slots.freeFor(owner, laneClass, Math.min(all, CLAIMED_BEFORE_SESSION * (1 + sessions)), this.#canUse)
  }

  /** Whether other mail of the account waits for a slot. */
  isSlotWanted(owner: number): boolean {
    return this.#all.waiting.wantsSlots(owner)
  }

  /** How many slots an account has in excess while slots are scarce; it acquired them when more were free. */
  countExcess(owner: number): number {
    return this.#areSlotsScarce ? Math.max(0, -this.#freeOfAll(owner, 'high')) : 0
  }

  /** Whether any account may wait for slots, or have some in excess. */
  get areSlotsWanted(): boolean {
    return this.#areSlotsScarce || !this.#all.waiting.isEmpty
  }

  get #areSlotsScarce(): boolean {
    return this.#freeSlots < this.#options.deliveryConcurrency * SCARCE_FRACTION
  }

  get #freeSlots(): number {
    return this.#options.deliveryConcurrency - this.#all.inFlight
  }

  getSite(name: string): Site {
    const known = this.#sites.get(name)
    if (known) return known
    const slots = new SlotPool(SITE_RULES, this.#options.ownerOf)
    const connections = this.#options.connectionsPerSite
    const backoff = { backoffUntil: 0, backoffSince: 0, backoffReason: '', backoffRule: 'site-backoff' as const }
    const site: Site = { ...backoff, failures: 0, sessions: 0, connections, slots }
    this.#sites.set(name, site)
    this.#useOf.set(slots.waiting, {
      freeFor: (owner, laneClass) => (this.backoffLeftMs(site) > 0 ? 0 : this.#freeAtSite(site, owner, laneClass)),
      site: [name, site],
    })
    return site
  }

  #getAddress(network: string): SlotPool {
    const known = this.#addresses.get(network)
    if (known) return known
    const slots = new SlotPool(ADDRESS_RULES, this.#options.ownerOf)
    this.#addresses.set(network, slots)
    this.#useOf.set(slots.waiting, { freeFor: (owner, laneClass) => this.#freeAtAddress(slots, owner, laneClass) })
    return slots
  }

  acquireSlots({ siteName, network, pair }: Destination, count: number, lane: string): void {
    for (const slots of [this.getSite(siteName).slots, this.#getAddress(network), pair.slots, this.#all])
      slots.acquire(lane, count)
  }

  /** Releases slots. The caller then offers the free slots to waiting lanes with `offerSlots`. */
  releaseSlots(destination: Destination, count: number, lane: string): void {
    this.acquireSlots(destination, -count, lane)
  }

  /** Queues a lane for a slot of a site, or for the end of the site's backoff. */
  waitForSite(site: Site, lane: string): void {
    this.#crowded.add(site.slots.waiting)
    this.#wait(site.slots.waiting, lane)
  }

  waitForAddress(network: string, lane: string): void {
    const { waiting } = this.#getAddress(network)
    this.#crowded.add(waiting)
    this.#wait(waiting, lane)
  }

  waitForPair(pair: Pair, lane: string): void {
    const freeFor = (owner: number, laneClass: LaneClass) => this.#freeAtPair(pair, owner, laneClass)
    this.#useOf.set(pair.slots.waiting, { freeFor, pair })
    this.#wait(pair.slots.waiting, lane)
    if (pair.allowance(this.#options.instant()) > 0) this.#crowded.add(pair.slots.waiting)
    else this.#options.onPairBlocked(pair)
  }

  /** A message may begin over the pair: the next `offerSlots` includes its waiting lanes. */
  allowPair(pair: Pair): void {
    if (!pair.slots.waiting.isEmpty) this.#crowded.add(pair.slots.waiting)
  }

  waitForSlot(lane: string): void {
    this.#wait(this.#all.waiting, lane)
  }

  #wait(queue: WaitQueue, lane: string): void {
    queue.add(lane)
    const queues = this.#queuesOf.get(lane)
    if (queues) queues.add(queue)
    else this.#queuesOf.set(lane, new Set([queue]))
  }

  /** Ends the turn of a woken lane, even if it used nothing. */
  endTurn(lane: string): void {
    const queues = this.#queuesOf.get(lane)
    if (!queues) return
    for (const queue of queues) {
      queue.endTurn(lane)
      if (!queue.has(lane)) queues.delete(queue)
    }
    if (queues.size === 0) this.#queuesOf.delete(lane)
  }

  /** Removes a lane from all queues, because its turn has come. */
  leaveQueues(lane: string): void {
    for (const queue of this.#queuesOf.get(lane) ?? []) queue.delete(lane)
    this.#queuesOf.delete(lane)
  }

  /** What a lane waits for: a pair, a site (for a slot or for the end of a backoff), or a slot of an address or of all. */
  listWaits(lane: string): QueueUse[] {
    const queues = [...(this.#queuesOf.get(lane) ?? [])].filter((queue) => queue.has(lane))
    return queues.flatMap((queue) => this.#useOf.get(queue) ?? [])
  }

  /**
   * Offers free slots to the waiting accounts in turn, and to bulk lanes when no other lane can use them. Wakes one
   * lane of a queue at a time: this lane claims as much as it may. When its turn has ended, even if it used no slot,
   * the next lane of the queue is woken.
   */
  offerSlots(): void {
    if (this.#freeSlots <= 0) return
    for (const queue of this.#crowded) {
      this.#wakeNext(queue)
      const { site: [, site] = [], pair } = this.#useOf.get(queue) ?? {}
      const isPairBlocked = pair?.allowance(this.#options.instant()) === 0
      // A timer wakes the lanes at the end of a backoff.
      const isBackingOff = site !== undefined && this.backoffLeftMs(site) > 0
      if (queue.isEmpty || isPairBlocked || isBackingOff) this.#crowded.delete(queue)
      if (pair && isPairBlocked && !queue.isEmpty) this.#options.onPairBlocked(pair)
    }
    this.#wakeNext(this.#all.waiting)
  }

  #wakeNext(queue: WaitQueue): void {
    const hasFree = (owner: number, laneClass: LaneClass) => this.#hasFree(queue, owner, laneClass)
    for (let lane = queue.shift(hasFree); lane !== undefined; lane = queue.shift(hasFree)) {
      if (this.#options.wake(lane)) return
      this.endTurn(lane)
    }
  }

  #hasFree(queue: WaitQueue, owner: number, laneClass: LaneClass): boolean {
    return this.#freeOfAll(owner, laneClass) > 0 && (this.#useOf.get(queue)?.freeFor(owner, laneClass) ?? 1) > 0
  }

  /** Remaining backoff; 0: none. One longer than any backoff was computed under a fast clock, and has ended. */
  backoffLeftMs(site: Site): Millis {
    const leftMs = site.backoffUntil - this.#options.clock.now()
    return leftMs > MAX_SITE_BACKOFF_MS ? 0 : Math.max(leftMs, 0)
  }

  /** How long the mail of a lane has to wait for a site: for the end of its backoff, or about so long for a slot. */
  msUntilFree(name: string, lane: string): Millis {
    const site = this.#sites.get(name)
    if (!site) return 0
    return this.backoffLeftMs(site) || (this.capacityOfSite(site, lane) > 0 ? 0 : SLOT_WAIT_MS)
  }

  /** Ends a backoff that began before a time; its lanes are then offered slots again. */
  endBackoff(site: Site, before: Millis): void {
    if (this.backoffLeftMs(site) === 0 || site.backoffSince > before) return
    site.backoffUntil = this.#options.clock.now()
    if (!site.slots.waiting.isEmpty) this.#crowded.add(site.slots.waiting)
  }

  /** Records that the site accepted a connection. */
  recordSession(site: Site): void {
    site.failures = 0
    site.sessions++
  }

  /** Each backoff is longer than the one before, up to a maximum. Failures during one do not begin another. */
  backOff(site: Site, reason: string, rule: BackoffRule = 'site-backoff'): void {
    if (this.backoffLeftMs(site) > 0) return
    site.failures++
    site.sessions = 0
    site.backoffSince = this.#options.clock.now()
    site.backoffUntil = site.backoffSince + computeSiteBackoffMs(site.failures)
    site.backoffReason = reason
    site.backoffRule = rule
    // Wakes the lanes that wait for a slot, so that they wait for the end of the backoff instead: perhaps no attempt is
    // left that would free a slot.
    for (const lane of site.slots.waiting.all()) this.#options.wake(lane)
  }

  /** The same for a proxy that does nothing for us; true at the first failure. */
  backOffProxy(site: Site, reason: string): boolean {
    // The outcome of the probe, which holds up the others, or of an attempt that began before the first failure.
    site.backoffUntil = 0
    this.backOff(site, reason, 'proxy-failed')
    site.backoffUntil = Math.min(site.backoffUntil, site.backoffSince + MAX_PROXY_BACKOFF_MS)
    return site.failures === 1
  }

  /** How many messages may begin: one at a proxy that failed, which holds up the others until its outcome is known. */
  allowProbe(site: Site): number {
    if (site.failures === 0) return Number.POSITIVE_INFINITY
    site.backoffUntil = this.#options.clock.now() + PROBE_MS
    return 1
  }

  /** The proxy works: the mail that waits for it goes on. True if it had failed. */
  endOutage(name: string): boolean {
    const site = this.#sites.get(name)
    if (!site || site.failures === 0) return false
    site.failures = 0
    this.endBackoff(site, Number.POSITIVE_INFINITY)
    return true
  }

  /** Evicts an unused address and site. A site that backed off is evicted later, by an occasional sweep. */
  evictIdle({ siteName, network }: Destination): void {
    const now = this.#options.clock.now()
    if (this.#addresses.get(network)?.isIdle) this.#addresses.delete(network)
    this.#evictIdleSite(siteName, now)
    if (now < this.#nextSweepAt) return
    this.#nextSweepAt = now + BACKOFF_RETENTION_MS
    for (const name of this.#sites.keys()) this.#evictIdleSite(name, now)
  }

  #evictIdleSite(name: string, now: Millis): void {
    const site = this.#sites.get(name)
    if (site?.slots.isIdle && site.backoffUntil + BACKOFF_RETENTION_MS <= now) this.#sites.delete(name)
  }
}

export const toDestination = ({ site, hosts }: Route, pair: Pair): Destination => ({
  siteName: site,
  pair,
  network: networkOf(hosts[0]?.addresses[0] ?? ''),
  hasIpv4: hosts.some(({ addresses }) => addresses.some(isIPv4)),
})
