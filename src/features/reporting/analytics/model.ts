/** @module Wire shapes of /v1/analytics. Rates are fractions with four decimals, and percentages with two. */
import { type Static, Type } from '@sinclair/typebox'
import { COUNTER_RETENTION_DAYS } from '#features/core/events/purge.ts'
import type { StreamCounter } from '#features/setup/streams/reputation.ts'
import { toWire } from '#platform/http/envelope.ts'
import { Count, extra, Text, Timestamp } from '#platform/http/schemas.ts'
import type { DomainStats } from './domains.ts'
import { createParameterError, formatDay, PERIOD_FIELDS, PeriodQuery, PeriodRecord, TIME_ZONE_FIELD } from './period.ts'
import { computeRates, type DayStats, OUTCOMES, type PeriodStats } from './stats.ts'

const COUNT_FIELDS = {
  sent: Count('Recipients of accepted mail, without suppressed and cancelled ones.'),
  delivered: Count('Recipients whose server accepted the mail.'),
  bounced: Count('Bounces, hard and soft.'),
  opens: Count('Events `opened`.'),
  clicks: Count('Events `clicked`.'),
}

const METRIC_FIELDS = {
  ...COUNT_FIELDS,
  complaints: Count('Complaints received.'),
  unsubscribes: Count('Events `unsubscribed`.'),
}

const COMPARISON = 'previous'

const RATE_FIELDS = {
  open_rate: Type.Number({ description: 'Opened emails divided by delivered, 0..1.' }),
  click_rate: Type.Number({ description: 'Clicked emails divided by delivered, 0..1.' }),
}

export const Overview = Type.Object({
  ...COUNT_FIELDS,
  complaints: METRIC_FIELDS.complaints,
  delivery_rate: Type.Number({ description: 'Delivered divided by sent, 0..1.' }),
  ...RATE_FIELDS,
  total_sent: Count('The same as sent.'),
  total_delivered: Count('The same as delivered.'),
  total_bounced: Count('The same as bounced.'),
  total_opens: Count('The same as opens.'),
  total_clicks: Count('The same as clicks.'),
  total_unsubscribes: Count('Events `unsubscribed`.'),
  delivery_rate_pct: Type.Number({ description: 'delivery_rate in per cent, 0..100.' }),
  open_rate_pct: Type.Number({ description: 'open_rate in per cent.' }),
  click_rate_pct: Type.Number({ description: 'click_rate in per cent.' }),
  bounce_rate_pct: Type.Number({ description: 'Bounced divided by sent, in per cent.' }),
  machine_opens: extra(
    Count('Images loaded by scanners, prefetchers and image proxies, Gmail included; no other count includes them.'),
  ),
  machine_clicks: extra(Count('Links followed by such machines; no other count includes them.')),
  bounce_rate: extra(Type.Number({ description: 'Bounced divided by sent, 0..1.' })),
  complaint_rate: extra(Type.Number({ description: 'Complaints divided by delivered, 0..1.' })),
  outcomes: extra(
    Type.Object(
      {
        accepted: Count('The sum of the others.'),
        delivered: Count('Accepted by the receiving server.'),
        bounced: Count('Ended as bounced.'),
        failed: Count('Not composed by this service.'),
        uncertain: Count('Perhaps received.'),
        suppressed: Count('Not sent: all recipients are suppressed.'),
        cancelled: Count('Cancelled before they were sent.'),
        waiting: Count('Scheduled, queued or deferred: they have not ended.'),
        captured: Count('In the sandbox or simulated, whatever became of them; no other count includes them.'),
      },
      {
        description:
          'What became of the emails accepted in the period that are still stored, by their present status: emails, not recipients, so that the sums agree.',
      },
    ),
  ),
})
export type Overview = Static<typeof Overview>

/** Metrics of a time series that does not name any, and columns of the CSV. */
export const DEFAULT_METRICS = ['sent', 'delivered', 'bounced', 'opens', 'clicks'] as const
/** Metrics of a time series. */
export const METRICS = [...DEFAULT_METRICS, 'complaints', 'unsubscribes'] as const
export type Metric = (typeof METRICS)[number]

/** The counter of each metric that is counted by stream. */
export const STREAM_COUNTERS = {
  sent: 'sent',
  delivered: 'delivered',
  bounced: 'bounced',
  complaints: 'complained',
} as const satisfies Partial<Record<Metric, StreamCounter>>
export const STREAM_METRICS = Object.keys(STREAM_COUNTERS) as readonly (keyof typeof STREAM_COUNTERS)[]
type StreamMetric = (typeof STREAM_METRICS)[number]

const isStreamMetric = (metric: string): metric is StreamMetric => Object.hasOwn(STREAM_COUNTERS, metric)

/** Days of a period by hour. */
export const MAX_HOURLY_DAYS = 7

export const INTERVALS = ['day', 'hour'] as const
type Interval = (typeof INTERVALS)[number]

export const TimePoint = Type.Object({
  date: Text('Day in the time zone of the period, YYYY-MM-DD.'),
  time: extra(Type.Optional(Timestamp({ description: 'Beginning of the hour; only with `interval=hour`.' }))),
  ...Object.fromEntries(
    METRICS.map((metric) => {
      const field = Type.Optional(METRIC_FIELDS[metric])
      return [metric, metric in COUNT_FIELDS ? field : extra(field)]
    }),
  ),
})
export type TimePoint = { date: string; time?: string } & Partial<Record<Metric, number>>

export const DomainRecord = Type.Object({
  domain: Text('Domain of recipients, in lower case; international names as A-labels.'),
  sent: COUNT_FIELDS.sent,
  delivered: COUNT_FIELDS.delivered,
  bounced: COUNT_FIELDS.bounced,
  delivery_rate: extra(Type.Number({ description: 'Delivered divided by sent, 0..1.' })),
  bounce_rate: extra(Type.Number({ description: 'Bounced divided by sent, 0..1.' })),
  ...RATE_FIELDS,
})
export type DomainRecord = Static<typeof DomainRecord>

/** `{data, period}`. */
export const PeriodBody = <T extends Parameters<typeof Type.Array>[0]>(schema: T) =>
  Type.Object({ data: schema, period: PeriodRecord })

export const DEFAULT_DOMAINS = 10
export const MAX_DOMAINS = 1000

export const OverviewQuery = Type.Object({
  ...PeriodQuery.properties,
  compare: Type.Optional(Text(`${COMPARISON}: also the sums of the same number of days before.`)),
})
export const OverviewBody = Type.Object({
  data: Overview,
  period: PeriodRecord,
  previous: extra(
    Type.Optional(
      Type.Object(
        { data: Overview, period: PeriodRecord },
        { description: 'The days before; only with `compare=previous`.' },
      ),
    ),
  ),
})

/** Whether a query compares with the period before. Throws 400. */
export function parseComparison(text: string | undefined): boolean {
  if (text !== undefined && text !== COMPARISON)
    throw createParameterError('compare', `compare must be ${COMPARISON}, or omitted.`)
  return text !== undefined
}

export const TimeseriesQuery = Type.Object({
  ...PERIOD_FIELDS,
  ...TIME_ZONE_FIELD,
  metrics: Type.Optional(Text(`Comma-separated list of ${METRICS.join(', ')}. Default: ${DEFAULT_METRICS.join(',')}.`)),
  interval: Type.Optional(
    Text(
      `One of ${INTERVALS.join(', ')}. Default: day. Hours go up to the current one; at most ${MAX_HOURLY_DAYS} days, of the last ${COUNTER_RETENTION_DAYS}; default period: 7d.`,
    ),
  ),
  stream: Type.Optional(
    Text(
      `Slug of a stream: only its mail. Counted by stream are ${STREAM_METRICS.join(', ')}, of the last ${COUNTER_RETENTION_DAYS} days; bounced has hard bounces only. Default: all mail.`,
    ),
  ),
})
export const DomainsQuery = Type.Object({
  ...PERIOD_FIELDS,
  limit: Type.Optional(Text(`Maximum number of domains, 1 to ${MAX_DOMAINS}. Default: ${DEFAULT_DOMAINS}.`)),
})

/** Parses the metrics of a query, in the order of METRICS. Throws 400. */
export function parseMetrics(text: string | undefined): readonly Metric[] {
  if (text === undefined) return DEFAULT_METRICS
  const names = text.split(',').map((name) => name.trim())
  for (const name of names) {
    if (!METRICS.some((metric) => metric === name))
      throw createParameterError(
        'metrics',
        `Unknown metric ${JSON.stringify(name.slice(0, 60))}; metrics must be a comma-separated list of ${METRICS.join(', ')}.`,
      )
  }
  return METRICS.filter((metric) => names.includes(metric))
}

/** The metrics of a query for one stream. Throws 400 for one that is not counted by stream. */
export function parseStreamMetrics(text: string | undefined): readonly StreamMetric[] {
  if (text === undefined) return STREAM_METRICS.filter((name) => name !== 'complaints')
  return parseMetrics(text).map((metric) => {
    if (isStreamMetric(metric)) return metric
    throw createParameterError(
      'metrics',
      `${metric} is not counted by stream; with stream, metrics must be a comma-separated list of ${STREAM_METRICS.join(', ')}.`,
    )
  })
}

/** Parses the limit of a query. Throws 400. */
export function parseLimit(text: string | undefined): number {
  if (text === undefined) return DEFAULT_DOMAINS
  const limit = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (limit < 1 || limit > MAX_DOMAINS)
    throw createParameterError('limit', `limit must be a whole number from 1 to ${MAX_DOMAINS}.`)
  return limit
}

const toFraction = (rate: number): number => Math.round(rate * 10_000) / 10_000
const toPercent = (rate: number): number => Math.round(rate * 10_000) / 100

export function toOverviewWire(stats: PeriodStats): Overview {
  const { sent, delivered, bounced, opens, clicks, unsubscribes } = stats
  const { delivery, bounce, complaint, open, click } = computeRates(stats)
  return toWire(Overview, stats, {
    delivery_rate: toFraction(delivery),
    open_rate: toFraction(open),
    click_rate: toFraction(click),
    total_sent: sent,
    total_delivered: delivered,
    total_bounced: bounced,
    total_opens: opens,
    total_clicks: clicks,
    total_unsubscribes: unsubscribes,
    delivery_rate_pct: toPercent(delivery),
    open_rate_pct: toPercent(open),
    click_rate_pct: toPercent(click),
    bounce_rate_pct: toPercent(bounce),
    bounce_rate: toFraction(bounce),
    complaint_rate: toFraction(complaint),
    outcomes: { accepted: OUTCOMES.reduce((sum, outcome) => sum + stats.outcomes[outcome], 0), ...stats.outcomes },
  })
}

/** Parses the interval of a query. Throws 400. */
export function parseInterval(text: string | undefined): Interval {
  const interval = INTERVALS.find((name) => name === (text ?? 'day'))
  if (!interval) throw createParameterError('interval', `interval must be one of ${INTERVALS.join(', ')}.`)
  return interval
}

export function toDomainWire(stats: DomainStats): DomainRecord {
  const { delivery, bounce, open, click } = computeRates(stats)
  return toWire(DomainRecord, stats, {
    delivery_rate: toFraction(delivery),
    bounce_rate: toFraction(bounce),
    open_rate: toFraction(open),
    click_rate: toFraction(click),
  })
}

/** CSV (RFC 4180) with one line per day. */
export const toCsv = (stats: readonly DayStats[]): string =>
  [
    `date,${DEFAULT_METRICS.join(',')}`,
    ...stats.map((day) => [formatDay(day.day), ...DEFAULT_METRICS.map((metric) => day[metric])].join(',')),
    '',
  ].join('\r\n')
