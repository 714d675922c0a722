/**
 * @module The turn of a lane: finds its route, claims as many due recipients as there is capacity for and passes them
 * on, or queues the lane for what it lacks. Never starts a turn by itself, and never ends an attempt.
 */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { accountOfLane, isBulkLane, rankOfLane } from '#features/sending/queue/lanes.ts'
import { countDue, findFirstWaiting } from '#features/sending/queue/queue.ts'
import { findHold } from '#features/sending/queue/queue-rules.ts'
import { canOpenDescriptor } from '#platform/process/descriptors.ts'
import { FairScheduler } from '#platform/queue/fair-scheduler.ts'
import { STORAGE_RETRY_MS } from '#platform/queue/retry.ts'
import type { Millis } from '#platform/units.ts'
import type { AttemptStarter } from '../attempt/attempt-starter.ts'
import { type ClaimedRecipient, claimLane, settleUnroutable } from '../attempt/claim.ts'
import type { InFlightAttempts } from '../attempt/in-flight-attempts.ts'
import type { SlowAttempts } from '../attempt/slow-attempts.ts'
import { nameProxy, type OutboundSource, type Route } from '../protocol.ts'
import type { Pair } from '../providers/pair.ts'
import type { Pairs } from '../providers/pairs.ts'
import type { FailedAddresses, RouteResult } from '../sites/route.ts'
import { type Destination, type Site, type Sites, toDestination } from '../sites/sites.ts'
import { categoryOfRule } from '../verdict/reply-rules.ts'
import type { ChosenPair, LaneRouter } from './lane-router.ts'
import type { Lane, Lanes } from './lanes.ts'
import { describePairToSender, type Wait, WaitNotes } from './waits.ts'

export interface LaneClaimerOptions {
  readonly app: App
  /** Once aborted, nothing more is claimed. */
  readonly stopping: AbortSignal
  readonly lanes: Lanes
  readonly router: LaneRouter
  readonly sites: Sites
  readonly pairs: Pairs
  readonly failedAddresses: FailedAddresses
  readonly attempts: InFlightAttempts
  readonly starter: AttemptStarter
  readonly slowAttempts: SlowAttempts
}

type FoundRoute = Omit<Extract<RouteResult, { kind: 'route' }>, 'kind'>

/** How the next messages of a lane leave, once there is capacity. */
interface Departure extends FoundRoute, ChosenPair {
  readonly site: Site
  /** The proxy of the address, for which mail waits as for a site. */
  readonly proxy: Site | undefined
  readonly destination: Destination
  /** Messages that may begin over the pair, as long as the lane is in its queues. */
  readonly pairCapacity: number
}

export class LaneClaimer {
  readonly #options: LaneClaimerOptions
  /** Accounts take turns to begin lookups of routes. */
  readonly #lookups: FairScheduler
  readonly #notes: WaitNotes
  readonly #claiming = new Set<Promise<unknown>>()

  constructor(options: LaneClaimerOptions) {
    this.#options = options
    const overload = () => new Error('too many route lookups')
    this.#lookups = new FairScheduler({ clock: options.app.clock, overload })
    this.#notes = new WaitNotes(options.app)
  }

  /** Resolves when the claims that are being committed have ended. */
  async waitForClaims(): Promise<void> {
    await Promise.allSettled(this.#claiming)
  }

  /** The turn of a lane: claims and starts due recipients as long as there is capacity. */
  async pump(lane: Lane): Promise<void> {
    const { app, stopping, lanes, sites, router, pairs, attempts, failedAddresses } = this.#options
    const { clock, db, log } = app
    try {
      while (!stopping.aborted && lane.firstDue !== undefined) {
        if (lane.firstDue > clock.now()) return lanes.sleepUntil(lane, lane.firstDue)
        if (findHold(db, lane.name)) return this.#sleepHeld(lane)
        if (attempts.unstored > 0) return lanes.sleepUntil(lane, clock.now() + STORAGE_RETRY_MS)
        if (sites.slotsFor(lane.name) <= 0) return this.#waitForSlot(lane)
        if (await router.isProviderHeld(lane)) return this.#sleepHeld(lane)
        const owner = getTenantId(db, accountOfLane(lane.name))
        let hadDescriptor = true
        const lookUp = () => {
          hadDescriptor = canOpenDescriptor()
          return sites.slotsFor(lane.name) > 0 ? router.findRoute(lane, owner) : undefined
        }
        const found = await this.#lookups.run(owner, lookUp, rankOfLane(lane.name))
        if (stopping.aborted) return
        if (!found) return this.#waitForSlot(lane)
        if (found.kind === 'pending') {
          // The turn ends, so that lanes that wait for the same slots need not wait for the policy of this domain.
          void found.ready.then(() => lanes.wake(lane.name))
          return lanes.sleepInQueue(lane)
        }
        // Descriptors may have become free only after the lookup had failed for lack of one.
        if (found.kind === 'temporary' && !(hadDescriptor && canOpenDescriptor())) {
          log.warn({ lane: lane.name }, 'delivery waits: this process has too many open files')
          return lanes.sleepUntil(lane, clock.now() + STORAGE_RETRY_MS)
        }
        const claiming =
          found.kind === 'route'
            ? this.#handOut(lane, {
                ...found,
                route: failedAddresses.apply(found.route, pairs.registry.providerOf(found.route).name),
              })
            : this.#settleUnroutable(lane, found)
        this.#claiming.add(claiming)
        const canContinue = await claiming.finally(() => this.#claiming.delete(claiming))
        if (!canContinue) return
      }
    } catch (error) {
      log.error({ err: error, lane: lane.name }, 'queue processing failed; retrying')
      lanes.sleepUntil(lane, clock.now() + STORAGE_RETRY_MS)
    }
  }

  /** Waits until an operator releases the lane: it then gets the signal `mailDue`. */
  #sleepHeld(lane: Lane): void {
    this.#options.sites.leaveQueues(lane.name)
    this.#options.lanes.sleepInQueue(lane)
  }

  #waitForSlot(lane: Lane): void {
    const { sites, slowAttempts, lanes } = this.#options
    sites.waitForSlot(lane.name)
    slowAttempts.watch()
    lanes.sleepInQueue(lane)
  }

  /** Claims for a route and starts the jobs. False when the lane has to wait. */
  async #handOut(lane: Lane, found: FoundRoute): Promise<boolean> {
    const { sites, router } = this.#options
    const chosen = router.choosePair(lane, found.route)
    const { pair, siteName } = chosen
    const route = { ...found.route, site: siteName }
    const site = sites.getSite(siteName)
    const proxy = chosen.source?.isProxied ? sites.getSite(nameProxy(pair.sourceIp)) : undefined
    if (lane.retryAskedAt !== undefined)
      for (const waited of proxy ? [site, proxy] : [site]) sites.endBackoff(waited, lane.retryAskedAt)
    lane.retryAskedAt = undefined
    lane.pair = pair
    lane.site = site
    const overflow = await router.findOverflow(lane, route, pair)
    if (overflow) return this.#handOut(lane, overflow)
    if (proxy && sites.backoffLeftMs(proxy) > 0) return this.#waitForBackoff(lane, route, proxy, pair)
    if (sites.backoffLeftMs(site) > 0) return this.#waitForBackoff(lane, route, site, pair)
    site.connections = router.countConnections(lane, found.route, chosen)
    const pairCapacity = sites.capacityOfPair(pair, lane.name)
    const departure = { route, ...chosen, site, proxy, destination: toDestination(route, pair), pairCapacity }
    const waiting = this.#waitForCapacity(lane, departure)
    if (waiting) return waiting
    sites.leaveQueues(lane.name)
    // Checked again, because others may have taken slots during the route lookup.
    if (sites.slotsFor(lane.name) <= 0) {
      this.#waitForSlot(lane)
      return false
    }
    await this.#claim(lane, departure)
    return true
  }

  /** Queues the lane for the first capacity that it lacks; undefined when it lacks none. */
  #waitForCapacity(
    lane: Lane,
    { route, pair, pairCapacity, site, destination }: Departure,
  ): Promise<boolean> | undefined {
    const { sites, lanes, pairs } = this.#options
    const at = pairs.instant()
    if (pair.allowance(at) <= 0 || pair.budgetWaitMs(isBulkLane(lane.name), at.now) > 0)
      return this.#waitForPair(lane, route, pair)
    const isSiteFull = sites.capacityOfSite(site, lane.name) <= 0
    if (isSiteFull || sites.capacityOfAddress(destination.network, lane.name) <= 0) {
      if (isSiteFull) sites.waitForSite(site, lane.name)
      else sites.waitForAddress(destination.network, lane.name)
      lanes.sleepInQueue(lane)
      return Promise.resolve(false)
    }
    return pairCapacity <= 0 ? this.#waitForPair(lane, route, pair) : undefined
  }

  /** Claims as many recipients as there is capacity for, and starts their attempts. */
  async #claim(lane: Lane, departure: Departure): Promise<void> {
    const { app, sites, pairs, router, starter, slowAttempts } = this.#options
    const { route, pair, source, canLeave, site, proxy, destination } = departure
    const now = app.clock.now()
    const max = Math.min(
      departure.pairCapacity,
      sites.capacityOfSite(site, lane.name),
      sites.capacityOfAddress(destination.network, lane.name),
      sites.slotsFor(lane.name),
      router.maxBeforeOverflow(lane, route, pair),
      proxy ? sites.allowProbe(proxy) : Number.POSITIVE_INFINITY,
    )
    const limit = countDue(app.db, lane.name, now, max)
    // Every other claim takes the newest mail, so that a single email does not wait behind all mail of its lane.
    const isNewestFirst = lane.hasClaimedOldest && !isBulkLane(lane.name)
    lane.hasClaimedOldest = !isNewestFirst
    // Acquired before the commit, so that other lanes do not claim into the same slots.
    sites.acquireSlots(destination, limit, lane.name)
    pair.acquire(limit, pairs.instant())
    const pairGeneration = pair.generation
    let claimed: ClaimedRecipient[] = []
    try {
      claimed = await app.commit.writeFromReserve((tx) =>
        claimLane(app, tx, lane.name, {
          limit,
          now,
          isNewestFirst,
          provider: lane.provider,
          ...(canLeave && { canLeave }),
        }),
      )
    } finally {
      sites.releaseSlots(destination, limit - claimed.length, lane.name)
      pair.release(limit - claimed.length, pairs.instant())
      // A probe that was not claimed has no outcome that would wake the lanes that wait for it.
      if (claimed.length < limit) pairs.onOutcome(pair, false)
    }
    starter.start(claimed, {
      lane: lane.name,
      destination,
      pairGeneration,
      route: toRouteOfSource(route, pair, source),
    })
    slowAttempts.watch()
    lane.firstDue = findFirstWaiting(app.db, lane.name)?.nextAt
  }

  /** Sleeps until a time, or until the mail may take the smarthost, if that is earlier. */
  #sleepOrOverflow(lane: Lane, route: Route, pair: Pair, until: Millis): void {
    const { lanes, router } = this.#options
    lanes.sleepUntil(lane, Math.min(until, router.nextOverflowAt(lane, route, pair)))
  }

  /** Waits for the backoff of a site. True when there is more to do now. */
  async #waitForBackoff(lane: Lane, route: Route, site: Site, pair: Pair): Promise<boolean> {
    const { backoffUntil: until, backoffReason, backoffRule: rule, failures } = site
    const reason = `${route.site} is not tried for a while: ${backoffReason}`
    if (await this.#recordWait(lane, { reason, until, failures, rule, category: categoryOfRule(rule) })) return true
    this.#options.sites.waitForSite(site, lane.name)
    this.#sleepOrOverflow(lane, route, pair, until)
    return false
  }

  /** Waits until a message may begin over a pair. True when there is more to do now. */
  async #waitForPair(lane: Lane, route: Route, pair: Pair): Promise<boolean> {
    const { pairs, sites } = this.#options
    const at = pairs.instant()
    const { suspension } = pair.state
    const isBulk = isBulkLane(lane.name)
    const budgetWaitMs = pair.budgetWaitMs(isBulk, at.now)
    const reason = describePairToSender(pair, at, isBulk)
    const until = at.now + Math.max(pair.msUntilAllowed(at) ?? 0, budgetWaitMs)
    const isBlocked = budgetWaitMs > 0 || pair.allowance(at) !== Number.POSITIVE_INFINITY
    const rule = suspension?.rule ?? (budgetWaitMs > 0 ? 'warm-up' : 'provider-rate')
    const category = suspension ? categoryOfRule(rule) : 'rate_limited'
    const wait: Wait = { reason, until, failures: suspension?.failures ?? 0, rule, category }
    if (isBlocked && (await this.#recordWait(lane, wait))) return true
    sites.waitForPair(pair, lane.name)
    this.#sleepOrOverflow(lane, route, pair, budgetWaitMs > 0 ? until : Number.POSITIVE_INFINITY)
    return false
  }

  /** Records why the due mail of a lane waits. True when the lane has more to record, or nothing due any more. */
  async #recordWait(lane: Lane, wait: Wait): Promise<boolean> {
    const { app } = this.#options
    const hasMore = await this.#notes.record(lane, wait)
    lane.firstDue = findFirstWaiting(app.db, lane.name)?.nextAt
    return hasMore || lane.firstDue === undefined || lane.firstDue > app.clock.now()
  }

  async #settleUnroutable(lane: Lane, unroutable: Parameters<typeof settleUnroutable>[2]): Promise<boolean> {
    const { app } = this.#options
    await settleUnroutable(app, lane.name, unroutable)
    lane.firstDue = findFirstWaiting(app.db, lane.name)?.nextAt
    return true
  }
}

/** The route of an attempt: from its source, and with the TLS policy of its provider. */
const toRouteOfSource = (route: Route, { provider }: Pair, source: OutboundSource | undefined): Route => ({
  ...route,
  ...(source && { source }),
  ...(route.tls === 'opportunistic' && { tls: provider.policy.tls }),
})
