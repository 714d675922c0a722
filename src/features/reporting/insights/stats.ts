/**
 * @module Collects an account's stats of the last four weeks for a report, under names such as `total.bounce_pct`.
 * Numbers only: streams and sending domains are numbered; recipient domains are named only if they are large public
 * providers. Never includes an address, a subject, a name chosen by a user, or message content.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { ALL_DOMAINS, type DailyStats, dayOf } from '#features/core/events/daily-stats.ts'
import { hourOf, sumCounter } from '#features/core/events/record.ts'
import { findBusiestDomains, sumDomainStats } from '#features/reporting/analytics/domains.ts'
import type { Period } from '#features/reporting/analytics/period.ts'
import { NO_STATS } from '#features/reporting/analytics/stats.ts'
import { isBigProvider } from '#features/reporting/validate/lists.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { STREAM_COUNTERS, STREAM_METRIC_PREFIX } from '#features/setup/streams/reputation.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { days, type Millis } from '#platform/units.ts'

export interface InsightStats {
  readonly periodStart: Millis
  readonly periodEnd: Millis
  /** By name, in display order. Percentages have two decimals; yes is 1 and no is 0. */
  readonly metrics: ReadonlyMap<string, number>
  /** What `stream_1` and `sending_domain_1` stand for. Only readers of the report see these names, never the model. */
  readonly names: ReadonlyMap<string, string>
}

const WEEKS = 4
const DAYS = WEEKS * 7
const MAX_DOMAINS = 12
const MAX_STREAMS = 20
const MAX_SENDING_DOMAINS = 20
/** Maximum number of bounced emails read to count their categories. */
const MAX_BOUNCED_EMAILS = 2000

/**
 * Reference values for the stats: percentages that receivers and other services publish as limits. Part of the stats,
 * so that a report may cite them.
 */
export const GUIDELINES = {
  bounce_pct_warn: 2,
  bounce_pct_critical: 5,
  complaint_pct_warn: 0.1,
  complaint_pct_critical: 0.3,
  delivery_pct_warn: 95,
} as const

const sql = prepareStatements((db) => ({
  streams: db.prepare<{ id: number; slug: string }, [number, number]>(
    'SELECT id, slug FROM streams WHERE account_id = ? AND deleted_at IS NULL ORDER BY id LIMIT ?',
  ),
  categories: db.prepare<{ category: string; n: number }, [number, number, number]>(
    `SELECT bounce_category AS category, count(*) AS n FROM recipients WHERE bounce_category IS NOT NULL AND email_id IN
     (SELECT id FROM emails WHERE account_id = ? AND status = ${statusCode('bounced')} AND created_at >= ? AND sandbox = 0 ORDER BY created_at DESC LIMIT ?)
     GROUP BY 1 ORDER BY n DESC, 1`,
  ),
  sendingDomains: db.prepare<
    { domain: string; verified: number; spf: number; dkim: number; dmarc: number; returnPath: number },
    [number]
  >(
    `SELECT domain, verified_at IS NOT NULL AS verified, spf_verified AS spf, dkim_verified AS dkim, dmarc_verified AS dmarc,
     return_path_verified AS returnPath FROM domains WHERE account_id = ? AND deleted_at IS NULL ORDER BY id`,
  ),
  people: db.prepare<{ users: number; single: number }, [number]>(
    `SELECT count(*) AS users, coalesce(sum(totp_enabled_at IS NULL), 0) AS single FROM members JOIN users ON users.id = user_id WHERE account_id = ?`,
  ),
  keys: db.prepare<{ keys: number; full: number }, [number]>(
    `SELECT count(*) AS keys, coalesce(sum(scopes LIKE '%"account:admin"%'), 0) AS full FROM api_keys WHERE account_id = ?`,
  ),
}))

/** Health of an account's webhooks. */
export interface WebhookStats {
  readonly total: number
  readonly offByFailures: number
  readonly failing: number
  /** Highest number of consecutive failures of one webhook. */
  readonly maxFailures: number
}

/** Reads webhook stats. Passed in, because the webhooks feature ranks above insights. */
export type ReadWebhookStats = (db: Database, accountId: number) => WebhookStats

/**
 * Collects an account's stats of the last four weeks, in whole UTC days, the last of which is today. Yields to the
 * event loop. Throws 429 for the same reason as `findBusiestDomains`.
 */
export async function collectStats(
  app: Pick<App, 'db' | 'clock'>,
  accountId: number,
  webhookStats: ReadWebhookStats,
): Promise<InsightStats> {
  const periodEnd = app.clock.now()
  const lastDay = dayOf(periodEnd)
  const period: Period = { fromDay: lastDay - DAYS + 1, toDay: lastDay, name: 'custom' }
  const periodStart = period.fromDay * days(1)
  const account: StatsTarget = { db: app.db, accountId, metrics: new Map(), names: new Map() }
  const { metrics, names } = account
  metrics.set('period.days', DAYS).set('period.weeks', WEEKS)
  for (const [name, value] of Object.entries(GUIDELINES)) metrics.set(`guideline.${name}`, value)
  addTotals(account, period)
  await addRecipients(app, account, period)
  addBounces(account, periodStart)
  await yieldToEventLoop()
  addStreams(account, periodStart)
  await yieldToEventLoop()
  addSendingDomains(account)
  addWebhooks(account, webhookStats(app.db, accountId))
  addAccess(account)
  return { periodStart, periodEnd, metrics, names }
}

interface StatsTarget {
  readonly db: Database
  readonly accountId: number
  readonly metrics: Map<string, number>
  readonly names: Map<string, string>
}

const countSince = ({ db, accountId }: StatsTarget, metric: string, since: Millis): number =>
  sumCounter(db, accountId, metric, hourOf(since))

function addTotals(account: StatsTarget, { fromDay, toDay }: Period): void {
  const { db, accountId, metrics } = account
  const sumAll = (from: number, to: number): DailyStats =>
    sumDomainStats(db, accountId, ALL_DOMAINS, { fromDay: from, toDay: to, name: 'custom' })
  addSums(metrics, 'total', sumAll(fromDay, toDay))
  for (const type of ['deferred', 'failed', 'uncertain'])
    metrics.set(`total.${type}`, countSince(account, `event:${type}`, fromDay * days(1)))
  for (let week = 1; week <= WEEKS; week++) {
    const from = fromDay + (week - 1) * 7
    addSums(metrics, `week_${week}`, sumAll(from, from + 6))
  }
}

async function addRecipients(
  app: Pick<App, 'db' | 'clock'>,
  { accountId, metrics }: StatsTarget,
  period: Period,
): Promise<void> {
  let otherDomains = 0
  for (const { domain, ...stats } of await findBusiestDomains(app, accountId, period, MAX_DOMAINS)) {
    const label = isBigProvider(domain) ? domain : `other_domain_${++otherDomains}`
    addSums(metrics, `recipients.${label}`, stats, WITHOUT_ENGAGEMENT)
  }
}

function addBounces({ db, accountId, metrics }: StatsTarget, since: Millis): void {
  for (const { category, n } of sql(db).categories.all(accountId, since, MAX_BOUNCED_EMAILS)) {
    // Only categories of this service are included, never text that a server sent.
    if (/^[a-z_]{1,40}$/.test(category)) metrics.set(`recent_bounces.${category}`, n)
  }
}

function addStreams(account: StatsTarget, since: Millis): void {
  const { db, accountId, metrics, names } = account
  for (const [index, { id, slug }] of sql(db).streams.all(accountId, MAX_STREAMS).entries()) {
    const [sent = 0, delivered = 0, bounced = 0, complaints = 0] = STREAM_COUNTERS.map((name) =>
      countSince(account, `${STREAM_METRIC_PREFIX}${id}:${name}`, since),
    )
    if (sent === 0) continue
    const label = `stream_${index + 1}`
    addSums(metrics, label, { ...NO_STATS, sent, delivered, bounced, complaints }, WITHOUT_ENGAGEMENT)
    names.set(label, slug)
  }
}

function addSendingDomains({ db, accountId, metrics, names }: StatsTarget): void {
  const domains = sql(db).sendingDomains.all(accountId)
  metrics.set('sending_domains.total', domains.length)
  metrics.set('sending_domains.unverified', domains.filter(({ verified }) => !verified).length)
  for (const [index, { domain, spf, dkim, dmarc, returnPath }] of domains.slice(0, MAX_SENDING_DOMAINS).entries()) {
    const label = `sending_domain_${index + 1}`
    names.set(label, domain)
    for (const [name, value] of Object.entries({ spf, dkim, dmarc, return_path: returnPath }))
      metrics.set(`${label}.${name}`, value)
  }
}

function addWebhooks({ metrics }: StatsTarget, webhooks: WebhookStats): void {
  metrics
    .set('webhooks.total', webhooks.total)
    .set('webhooks.switched_off_by_failures', webhooks.offByFailures)
    .set('webhooks.failing', webhooks.failing)
    .set('webhooks.most_failures_in_a_row', webhooks.maxFailures)
}

function addAccess({ db, accountId, metrics }: StatsTarget): void {
  const people = sql(db).people.get(accountId)
  const keys = sql(db).keys.get(accountId)
  metrics
    .set('access.users', people?.users ?? 0)
    .set('access.users_without_second_factor', people?.single ?? 0)
    .set('access.api_keys', keys?.keys ?? 0)
    .set('access.api_keys_with_full_access', keys?.full ?? 0)
}

/** For groups whose opens and clicks are not stored, or whose opens and clicks would add too many numbers. */
const WITHOUT_ENGAGEMENT = { engagement: false }

function addSums(
  metrics: Map<string, number>,
  group: string,
  sums: DailyStats,
  { engagement } = { engagement: true },
): void {
  const { sent, delivered, bounced, complaints, ...rest } = sums
  const add = (name: string, value: number | undefined) => {
    if (value !== undefined) metrics.set(`${group}.${name}`, value)
  }
  add('sent', sent)
  add('delivered', delivered)
  add('bounced', bounced)
  add('complaints', complaints)
  add('delivery_pct', toPercent(delivered, sent))
  add('bounce_pct', toPercent(bounced, delivered + bounced))
  add('complaint_pct', toPercent(complaints, delivered))
  if (!engagement) return
  add('opens', rest.opens)
  add('clicks', rest.clicks)
  add('unsubscribes', rest.unsubscribes)
  add('open_pct', toPercent(rest.openedEmails, delivered))
  add('click_pct', toPercent(rest.clickedEmails, delivered))
  add('unsubscribe_pct', toPercent(rest.unsubscribes, delivered))
}

/**
 * Returns a percentage with two decimals, at most 100: events of earlier mail may outnumber the period's mail.
 * Undefined when the denominator is 0.
 */
const toPercent = (part: number, whole: number): number | undefined =>
  whole <= 0 ? undefined : Math.min(100, Math.round((Math.max(0, part) / whole) * 10_000) / 100)

export const SEVERITIES = ['info', 'warn', 'critical'] as const
export const AREAS = ['deliverability', 'reputation', 'performance', 'security'] as const

export interface InsightFinding {
  readonly severity: (typeof SEVERITIES)[number]
  readonly area: (typeof AREAS)[number]
  /** One or two sentences of plain text. */
  readonly observation: string
  readonly recommendation: string
}

/** A finding with the names of the stats that it cites. */
export interface GroundedFinding extends InsightFinding {
  readonly metrics: readonly string[]
}

/** Findings per report. */
export const MAX_FINDINGS = 20

type Metrics = ReadonlyMap<string, number>

/** Minimum number of recipients for a meaningful percentage. */
export const MIN_RECIPIENTS = 100

const DELIVERY_PCT_CRITICAL = 80

/** Whether the value of one stat alone requires action today. */
export function isCritical(metrics: Metrics, name: string): boolean {
  const value = metrics.get(name)
  if (value === undefined) return false
  const group = name.slice(0, name.lastIndexOf('.'))
  const read = (stat: string): number => metrics.get(`${group}.${stat}`) ?? 0
  if (name.startsWith('guideline.')) return false
  if (name.endsWith('.bounce_pct'))
    return value >= GUIDELINES.bounce_pct_critical && read('delivered') + read('bounced') >= MIN_RECIPIENTS
  if (name.endsWith('.complaint_pct'))
    return value >= GUIDELINES.complaint_pct_critical && read('delivered') >= MIN_RECIPIENTS
  if (name.endsWith('.delivery_pct')) return value < DELIVERY_PCT_CRITICAL && read('sent') >= MIN_RECIPIENTS
  if (/^sending_domain_\d+\.(spf|dkim)$/.test(name)) return value === 0
  return name === 'webhooks.switched_off_by_failures' && value > 0
}
