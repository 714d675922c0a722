/** @module Chooses how the mail of a lane leaves: route, address and pair, or the smarthost. Never claims or waits. */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { accountOfLane, isBulkLane } from '#features/sending/queue/lanes.ts'
import { findFirstWaiting } from '#features/sending/queue/queue.ts'
import { findHold, findRedirect, hasProviderRules, listPools } from '#features/sending/queue/queue-rules.ts'
import type { TransportSecurity } from '#features/sending/transport-security/transport-security.ts'
import { type Millis, minutes } from '#platform/units.ts'
import { nameProxy, type OutboundSource, type Route } from '../protocol.ts'
import { isOftenBlocked } from '../providers/daily-outcomes.ts'
import { findLaneProvider } from '../providers/lane-provider.ts'
import type { OutboundSources } from '../providers/outbound-sources.ts'
import type { Instant, Pair } from '../providers/pair.ts'
import type { Pairs } from '../providers/pairs.ts'
import { OVERFLOW_PROVIDER, SMARTHOST_PROVIDER } from '../providers/registry.ts'
import { type LocalServers, type RouteResult, resolveSmarthostRoute, routeLane } from '../sites/route.ts'
import type { Sites } from '../sites/sites.ts'
import type { Lane } from './lanes.ts'

export interface LaneRouterOptions {
  readonly app: App
  readonly localServers: LocalServers
  readonly pairs: Pairs
  readonly sites: Sites
  readonly sources: OutboundSources
  readonly security: TransportSecurity
}

export interface ChosenPair {
  readonly pair: Pair
  /**
   * The site, for an address with a proxy one of its own: what fails there may be the fault of the proxy, and holds up nothing
   * that goes another way.
   */
  readonly siteName: string
  /** Undefined when the system chooses the outgoing address. */
  readonly source: OutboundSource | undefined
  /** Whether a recipient may leave from there, by the address of its last attempt. Absent when all may. */
  readonly canLeave?: (lastSendingIp: string | null) => boolean
}

export class LaneRouter {
  readonly #options: LaneRouterOptions
  readonly #missingPools = new Set<string>()

  constructor(options: LaneRouterOptions) {
    this.#options = options
  }

  /** Whether an operator holds the provider of a lane, which is looked up only while a rule names a provider. */
  async isProviderHeld(lane: Lane): Promise<boolean> {
    const { app } = this.#options
    lane.provider = hasProviderRules(app.db) ? await findLaneProvider(app, lane.name) : undefined
    return lane.provider !== undefined && findHold(app.db, lane.name, lane.provider) !== undefined
  }

  /** The route of a lane. Mail to a provider with `route = "smarthost"` takes the smarthost in delivery mode direct, too. */
  async findRoute(lane: Lane, owner: number): Promise<RouteResult> {
    const { app, localServers, security, pairs } = this.#options
    const found = await routeLane(app, lane.name, localServers, security.ofAccount(owner), lane.provider)
    if (found.kind !== 'route' || pairs.registry.providerOf(found.route).policy.route === 'direct') return found
    if (found.route.smarthost || !found.route.fromOutboundIps) return found
    return resolveSmarthostRoute(app, app.config.relayUrl === '' ? OVERFLOW_PROVIDER : SMARTHOST_PROVIDER)
  }

  /** Chooses the outgoing address of the next attempts of a lane, and with it the pair. */
  choosePair(lane: Lane, route: Route): ChosenPair {
    const { app, pairs, sites, sources } = this.#options
    const provider = pairs.registry.providerOf(route)
    const usable = this.#usableSources(lane, route)
    const hasProxy = usable.some(({ isProxied }) => isProxied)
    const waitMs = (source: OutboundSource) => {
      const names = hasProxy ? [nameProxy(source.ip), nameSiteFrom(source, route)] : []
      return Math.max(0, ...names.map((name) => sites.msUntilFree(name, lane.name)))
    }
    const pairOf = ({ ip }: OutboundSource) => pairs.get(provider, ip)
    const isBulk = isBulkLane(lane.name)
    const msUntilAllowed = (source: OutboundSource) => {
      const pair = pairOf(source)
      const at = pairs.instant()
      const budgetMs = pair.budgetLeft(isBulk, at.now) > 0 ? 0 : (pair.warmUp?.msUntilNextDay(at.now) ?? 0)
      return Math.max(pair.msUntilAllowed(at) ?? Number.POSITIVE_INFINITY, budgetMs, waitMs(source))
    }
    // The address of the last attempt has no preference while it is suspended, or its mail would be all its probes.
    const isPreferable = (source: OutboundSource) =>
      pairOf(source).state.suspension === undefined && msUntilAllowed(source) === 0
    const last = usable.length > 1 ? findFirstWaiting(app.db, lane.name)?.sendingIp : undefined
    const preferred = usable.find((source) => source.ip === last && isPreferable(source))
    // An address that the provider blocks gets mail when no other may send now.
    const isClean = (source: OutboundSource) => !isOftenBlocked(app.db, pairOf(source), pairs.instant().now)
    const clean =
      usable.length > 1 && !preferred ? usable.filter((source) => isPreferable(source) && isClean(source)) : []
    const source = preferred ?? sources.choose(clean.length > 0 ? clean : usable, msUntilAllowed)
    if (!source) return { pair: pairs.get(provider, ''), source, siteName: route.site }
    // Mail that was last sent from another address that may send now waits for a turn of that one.
    const others = new Set(usable.filter((other) => other !== source && isPreferable(other)).map(({ ip }) => ip))
    const siteName = nameSiteFrom(source, route)
    return { pair: pairOf(source), source, siteName, canLeave: (ip) => ip === null || !others.has(ip) }
  }

  /** Connections that a site may have over a route, from all our addresses that the lane may use. */
  countConnections(lane: Lane, route: Route, { pair, siteName }: ChosenPair): number {
    const sources = this.#usableSources(lane, route).filter((source) => nameSiteFrom(source, route) === siteName)
    return pair.provider.policy.connections * Math.max(1, sources.length)
  }

  /** The route of mail that takes the smarthost instead of waiting; undefined if none does, or the smarthost takes none. */
  async findOverflow(lane: Lane, route: Route, pair: Pair) {
    const { app, pairs, sites } = this.#options
    if (!this.#canOverflow(lane, route)) return undefined
    const at = pairs.instant()
    if (!this.#mustOverflow(lane, pair, at)) return undefined
    const found = await resolveSmarthostRoute(app, OVERFLOW_PROVIDER)
    if (found.kind !== 'route' || sites.backoffLeftMs(sites.getSite(found.route.site)) > 0) return undefined
    if (this.choosePair(lane, found.route).pair.allowance(at) <= 0) return undefined
    return found
  }

  /** How many messages may be claimed before the next ones take the smarthost, because the budget is used. */
  maxBeforeOverflow(lane: Lane, route: Route, pair: Pair): number {
    const left = pair.budgetLeft(isBulkLane(lane.name), this.#options.pairs.instant().now)
    return left > 0 && this.#canOverflow(lane, route) ? left : Number.POSITIVE_INFINITY
  }

  /** When the waiting mail of a lane may take the smarthost; infinite if it may not, or if only the pair decides that. */
  nextOverflowAt(lane: Lane, route: Route, pair: Pair): Millis {
    const at = this.#options.pairs.instant()
    const mayOverflow = this.#canOverflow(lane, route) && this.#mustOverflow(lane, pair, at)
    return mayOverflow ? at.now + RETRY_MS : Number.POSITIVE_INFINITY
  }

  /** Whether mail over a route may take the smarthost for overflow: not where an operator sends it, and not locally. */
  #canOverflow(lane: Lane, route: Route): boolean {
    const { config, db } = this.#options.app
    if (config.overflowUrl === '' || config.delivery !== 'direct') return false
    return route.fromOutboundIps && !route.smarthost && findRedirect(db, lane.name) === undefined
  }

  /** Whether everything of the lane that is due takes the smarthost. */
  #mustOverflow({ name }: Lane, pair: Pair, at: Instant): boolean {
    // Mail that was attempted is no probe, or the same message would be it until it expires.
    const isNoProbe = () => (findFirstWaiting(this.#options.app.db, name)?.attempts ?? 0) > 0 || pair.allowance(at) <= 0
    return (pair.state.suspension !== undefined && isNoProbe()) || pair.budgetLeft(isBulkLane(name), at.now) <= 0
  }

  #usableSources(lane: Lane, route: Route): readonly OutboundSource[] {
    return this.#options.sources.usableFor(route, this.#poolOf(lane))
  }

  /** The pool of a lane's mail. One that is not configured counts as none, with a warning. */
  #poolOf({ name }: Lane): string | undefined {
    const { app, sources } = this.#options
    return listPools(app.db, name, getTenantId(app.db, accountOfLane(name))).find((pool) => {
      if (sources.hasPool(pool)) return true
      if (!this.#missingPools.has(pool))
        app.log.warn({ pool }, 'no address of TASSIS_OUTBOUND_IPS is in this pool; its mail leaves from the others')
      this.#missingPools.add(pool)
      return false
    })
  }
}

const nameSiteFrom = ({ ip, isProxied }: OutboundSource, { site }: Route): string =>
  isProxied ? `${site} from ${ip}` : site

/** How soon mail is looked at again that could not take the smarthost. */
const RETRY_MS = minutes(1)
