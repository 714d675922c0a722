/** @module /v1/operator/providers and /v1/operator/alerts: limits, rates and suspensions of receiving providers, and alerts. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { type AuditActor, audit, recordView, toServiceActor } from '#features/core/audit-logs/audit.ts'
import { accountOfLane } from '#features/sending/queue/lanes.ts'
import { notFound } from '#platform/errors.ts'
import { dataBody, isoTime, pageBody, toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { days, hours, seconds } from '#platform/units.ts'
import { NO_COUNTS } from '../providers/limits.ts'
import { type Instant, Pair } from '../providers/pair.ts'
import { Pairs } from '../providers/pairs.ts'
import type { ProviderPolicy } from '../providers/registry.ts'
import type { DeliveryScheduler, FindScheduler } from '../schedule/scheduler.ts'
import { adviseOnAttempt } from './explain.ts'

const ProviderQuery = Type.Object({
  ...S.PAGE_FIELDS,
  used: Type.Optional(
    S.StringEnum(['true', 'false'], { description: 'true: only those to which something was sent.' }),
  ),
})

const traffic = (description: string) =>
  S.Part(description, {
    attempted: S.Count('Attempts.'),
    accepted: S.Count('Messages that it accepted.'),
    deferred: S.Count('Attempts that will be made again.'),
    refused: S.Count('Messages that it rejected permanently.'),
  })
const Limits = S.Part('The limits of the provider.', {
  connections: S.Count('Connections at the same time.'),
  messages_per_connection: S.Count('Messages over one connection.'),
  connection_age_seconds: S.Count('How long a connection is used at most.'),
  idle_seconds: S.Count('How long a connection waits for the next message.'),
  per_second: S.Count('Messages in any second; 0: no limit.'),
  per_minute: S.Count('Messages in any minute; 0: no limit.'),
  tls: S.Text('opportunistic or required.'),
  route: S.Text('direct or smarthost.'),
  figures_from: S.Text('Where the figures are published.'),
})
const Suspension = Type.Object({
  rule: S.Text('Rule of the reply that began it.'),
  reason: S.Text('The reply.'),
  since: S.Timestamp({ description: 'When it began.' }),
  until: S.Timestamp({ description: 'When the next message is tried.' }),
  failures: S.Count('Rejections in a row.'),
})
const ServerProvider = Type.Object({
  provider: S.Text('Name in the list of providers, or the mail hosts of a site without an entry.'),
  source: S.TextOrNull('Our outgoing address; null: the system chooses it, or nothing was sent yet.'),
  is_listed: Type.Boolean({ description: 'Whether it has an entry in the list of providers.' }),
  limits: Limits,
  rate_factor: Type.Number({
    description: 'Fraction of the limits in use; replies lower it, accepted mail raises it.',
  }),
  rate_per_minute: S.Nullable(Type.Number(), { description: 'Messages a minute in use; null: no limit.' }),
  suspension: S.Nullable(Suspension, { description: 'Why nothing is sent; null: not suspended.' }),
  warm_up: S.NullablePart('The daily budget while our address is new to the provider; null: it is not.', {
    budget: S.Count('Messages that the provider gets on this day (UTC).'),
    used: S.Count('Messages that it has had, or that are in delivery.'),
    next_day_at: S.Timestamp({ description: 'When the next day begins.' }),
  }),
  in_delivery: S.Count('Messages in delivery.'),
  waiting_lanes: S.Count('Destinations whose mail waits for the provider; each account has its own.'),
  last_hour: traffic('The last hour, since the start of the service.'),
  last_day: traffic('The last day, since the start of the service.'),
})
type ServerProvider = Static<typeof ServerProvider>
const ProviderResumeResult = Type.Object({
  provider: S.Text('Name of the provider.'),
  resumed: S.Count('Suspensions and lowered rates that were lifted.'),
})

const DeliveryAlert = Type.Object({
  provider: S.Text('Name in the list of providers, or the mail hosts of a site without an entry.'),
  source: S.TextOrNull('Our outgoing address; null: it is not known.'),
  rule: S.Text('Rule of the reply.'),
  category: S.Text('reputation or authentication, or another category of bounces.'),
  reply: S.Text('The last reply.'),
  count: S.Count('Attempts that ended with such a reply.'),
  first_at: S.Timestamp({ description: 'When the first one came.' }),
  last_at: S.Timestamp({ description: 'When the last one came.' }),
  advice: S.Text('What to do.'),
})
export type DeliveryAlert = Static<typeof DeliveryAlert>

export const operatorProviderRoutes = (app: App, scheduler: FindScheduler) =>
  new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get(
      '/providers',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'providers' })
        const page = S.parsePage(query)
        const { used, all, views } = listProviders(app, scheduler())
        const total = query.used === 'true' ? used : all
        return pageBody(views(page.offset, Math.min(page.offset + page.limit, total)), { ...page, total })
      },
      {
        query: ProviderQuery,
        response: S.PageBody(ServerProvider),
        detail: operatorRoute(
          'List receiving providers',
          'By provider and outgoing address: limits, rates, suspensions and figures. Suspended ones first, then slowed ones, then those in use.',
        ),
      },
    )
    .get(
      '/alerts',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'providers' })
        const page = S.parsePage(query)
        const alerts = listAlerts(scheduler())
        return pageBody(alerts.slice(page.offset, page.offset + page.limit), { ...page, total: alerts.length })
      },
      {
        query: S.PageQuery,
        response: S.PageBody(DeliveryAlert),
        detail: operatorRoute(
          'List delivery alerts',
          'Replies that blame our addresses or set-up (block lists, reputation, authentication), by provider, outgoing address and rule: the last day, since the start of the service, the newest first. The mail is retried.',
        ),
      },
    )
    .post(
      '/providers/:name/resume',
      async ({ actor, params }) => {
        const resumed = await resumeProvider(app, scheduler(), toServiceActor(actor), params.name)
        return dataBody({ provider: params.name, resumed })
      },
      {
        params: Type.Object({ name: Type.String({ maxLength: 300, description: 'Name of the provider.' }) }),
        response: S.DataBody(ProviderResumeResult),
        detail: operatorRoute(
          'Lift the suspension of a provider',
          'Also restores a lowered rate. Mail that is due is tried at once; if the provider rejects it again, the suspension begins again.',
          { 404: ['provider_not_found', 'Nothing was sent to a provider of this name.'] },
        ),
      },
    )

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
    suspension: suspension ? toWire(Suspension, suspension, {}) : null,
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
  limits: toWire(Limits, policy, {
    connection_age_seconds: policy.connectionAgeMs / seconds(1),
    idle_seconds: policy.idleMs / seconds(1),
    figures_from: policy.source,
  }),
  rate_factor: 1,
  rate_per_minute: policy.perMinute || policy.perSecond * 60 || null,
  suspension: null,
  warm_up: null,
  in_delivery: 0,
  waiting_lanes: 0,
  last_hour: NO_COUNTS,
  last_day: NO_COUNTS,
})

/** Lifts suspensions and lowered rates of a provider; returns how many. Throws 404 if nothing was sent to it. */
async function resumeProvider(
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
  (scheduler?.alerts.list() ?? []).map((alert) =>
    toWire(DeliveryAlert, alert, {
      source: alert.source ?? null,
      advice: adviseOnAttempt({ type: 'deferred', data: { bounce_category: alert.category } }).text,
    }),
  )
