/** @module What operators see of receiving providers: limits, rates, suspensions, and alerts; lifts a suspension. */
import type { App } from '#features/core/app/app.ts'
import { type AuditActor, audit } from '#features/core/audit-logs/audit.ts'
import { accountOfLane } from '#features/sending/queue/lanes.ts'
import { notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { days, hours, seconds } from '#platform/units.ts'
import type { TrafficCounts } from '../providers/limits.ts'
import { type Instant, Pair } from '../providers/pair.ts'
import { Pairs } from '../providers/pairs.ts'
import type { ProviderPolicy } from '../providers/registry.ts'
import type { DeliveryScheduler } from '../schedule/scheduler.ts'
import { adviseOnAttempt } from './explain.ts'
import type { DeliveryAlert, ServerProvider } from './operator-provider-model.ts'

const NO_TRAFFIC: TrafficCounts = { attempted: 0, accepted: 0, deferred: 0, refused: 0 }

/** The pairs of the running delivery; without one, those that are stored. */
export const openPairs = (app: App, scheduler: DeliveryScheduler | undefined): Pairs =>
  scheduler?.pairs ?? new Pairs({ app, ownerOf: accountOfLane, onAllowed: () => undefined, onChanged: () => undefined })

/**
 * The pairs of provider and outgoing address: suspended ones first, then slowed ones, then those in use; last, the
 * listed providers to which nothing was sent. `views` builds the rows of a page.
 */
export function listProviders(app: App, scheduler: DeliveryScheduler | undefined) {
  const pairs = openPairs(app, scheduler)
  const at = pairs.instant()
  const rankOf = (pair: Pair) => (pair.state.suspension ? 0 : pair.isNormal ? (pair.slots.isIdle ? 3 : 2) : 1)
  const used = pairs
    .all()
    .filter(({ provider }) => !provider.isLocal)
    .toSorted(
      (a, b) =>
        rankOf(a) - rankOf(b) || Number(b.provider.isNamed) - Number(a.provider.isNamed) || a.key.localeCompare(b.key),
    )
  const names = new Set(used.map(({ provider }) => provider.name))
  const unused = pairs.registry.policies().filter(({ name }) => !names.has(name))
  return {
    used: used.length,
    all: used.length + unused.length,
    views: (from: number, to: number): ServerProvider[] =>
      [...used, ...unused]
        .slice(from, to)
        .map((entry) => (entry instanceof Pair ? toPairView(entry, at) : toPolicyView(entry))),
  }
}

function toPairView(pair: Pair, at: Instant): ServerProvider {
  const { provider, sourceIp, slots, traffic, ratePerMinute } = pair
  const { factor, suspension } = pair.state
  return {
    ...toPolicyView(provider.policy),
    provider: provider.name,
    source: sourceIp === '' ? null : sourceIp,
    is_listed: provider.isNamed,
    rate_factor: factor,
    rate_per_minute: ratePerMinute === 0 ? null : Math.round(ratePerMinute * 10) / 10,
    suspension: suspension
      ? {
          rule: suspension.rule,
          reason: suspension.reason,
          since: isoTime(suspension.since),
          until: isoTime(suspension.until),
          failures: suspension.failures,
        }
      : null,
    warm_up: toWarmUpView(pair, at),
    in_delivery: slots.inFlight,
    waiting_lanes: slots.waiting.all().length,
    last_hour: traffic.sum(hours(1), at.now),
    last_day: traffic.sum(days(1), at.now),
  }
}

function toWarmUpView({ warmUp, slots }: Pair, { now }: Instant): ServerProvider['warm_up'] {
  const state = warmUp?.stateAt(now)
  if (!warmUp || !state || state.budget === null) return null
  return {
    budget: state.budget,
    used: state.tried + slots.inFlight,
    next_day_at: isoTime(now + warmUp.msUntilNextDay(now)),
  }
}

const toPolicyView = (policy: ProviderPolicy): ServerProvider => ({
  provider: policy.name,
  source: null,
  is_listed: true,
  limits: {
    connections: policy.connections,
    messages_per_connection: policy.messagesPerConnection,
    connection_age_seconds: policy.connectionAgeMs / seconds(1),
    idle_seconds: policy.idleMs / seconds(1),
    per_second: policy.perSecond,
    per_minute: policy.perMinute,
    tls: policy.tls,
    route: policy.route,
    figures_from: policy.source,
  },
  rate_factor: 1,
  rate_per_minute: policy.perMinute || policy.perSecond * 60 || null,
  suspension: null,
  warm_up: null,
  in_delivery: 0,
  waiting_lanes: 0,
  last_hour: NO_TRAFFIC,
  last_day: NO_TRAFFIC,
})

/**
 * Lifts the suspensions and lowered rates of a provider, from all our addresses. Returns how many there were. Throws
 * 404 for a provider to which nothing was sent.
 */
export async function resumeProvider(
  app: App,
  scheduler: DeliveryScheduler | undefined,
  actor: AuditActor,
  name: string,
): Promise<number> {
  const pairs = openPairs(app, scheduler)
  if (!pairs.all().some(({ provider }) => provider.name === name))
    throw notFound(
      'provider_not_found',
      `Nothing was sent to a provider with the name ${name}; \`tassis providers\` lists their names.`,
    )
  await app.commit.writeFromReserve((tx) =>
    audit(app, tx, actor, { action: 'operator.provider_resumed', resourceType: 'provider', resourceId: name }),
  )
  const resumed = pairs.resume(name)
  await pairs.flush()
  return resumed
}

/** What receivers hold against our addresses or set-up, the newest reply first; empty while nothing is delivered. */
export const listAlerts = (scheduler: DeliveryScheduler | undefined): DeliveryAlert[] =>
  (scheduler?.alerts.list() ?? []).map(({ rule, category, provider, source, reply, firstAt, lastAt, count }) => ({
    provider,
    source: source ?? null,
    rule,
    category,
    reply,
    count,
    first_at: isoTime(firstAt),
    last_at: isoTime(lastAt),
    advice: adviseOnAttempt({ type: 'deferred', data: { bounce_category: category } }).text,
  }))
