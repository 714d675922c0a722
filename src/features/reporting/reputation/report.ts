/**
 * @module /v1/operator/reputation: which outcomes providers gave mail from each of our addresses, by day, and which rates
 * have turned bad. Never counts.
 */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { formatDay } from '#features/reporting/analytics/period.ts'
import { OUTCOME_DAYS } from '#features/sending/delivery/providers/daily-outcomes.ts'
import { sumOf } from '#features/sending/delivery/providers/limits.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { dataBody } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import type { Millis } from '#platform/units.ts'
import limits from './limits.json' with { type: 'json' }

const PAIR_FIELDS = {
  provider: S.Text('Name in the list of providers; other: all sites without an entry.'),
  source: S.TextOrNull('Our outgoing address; null: the system chooses it.'),
}
const rate = (description: string) => Type.Number({ description: `${description}, from 0 to 1.` })
const OUTCOME_FIELDS = {
  ...PAIR_FIELDS,
  accepted: S.Count('Messages that it accepted.'),
  deferred: S.Count('Attempts that are made again.'),
  refused: S.Count('Attempts that it rejected permanently.'),
  blocked: S.Count('Of both, those whose reply blames our address or set-up.'),
  complaints: S.Count('Complaints, on the day of the report.'),
  bounce_rate: rate('Refused, of all attempts'),
  block_rate: rate('Blocked, of all attempts'),
  deferral_rate: rate('Deferred, of all attempts'),
  complaint_rate: rate('Complaints, of the accepted messages; by day, both of the 7 days up to it'),
}
const Outcomes = Type.Object(OUTCOME_FIELDS)
type OutcomeRow = Static<typeof Outcomes>
type DayRow = OutcomeRow & { readonly date: string }

const DATE = "date(day * 86400, 'unixepoch') AS date,"
const PAIR = "provider, nullif(source, '') AS source"
const rateOf = (part: string, whole: string): string => `iif(${whole} > 0, min(1, 1.0 * ${part} / (${whole})), 0)`
const ATTEMPTED = 'accepted + deferred + refused'
/** Complaints come days after their mail, so that of a day they are a rate of the week up to it. */
const OVER_WEEK = 'OVER (PARTITION BY provider, source ORDER BY julianday(date) RANGE 6 PRECEDING)'
const COMPLAINTS_OF_WEEK = rateOf(`sum(complaints) ${OVER_WEEK}`, `sum(accepted) ${OVER_WEEK}`)
const selectOutcomes = (days: string, isByDay: boolean): string =>
  `SELECT *, ${rateOf('refused', ATTEMPTED)} AS bounce_rate, ${rateOf('blocked', ATTEMPTED)} AS block_rate,
     ${rateOf('deferred', ATTEMPTED)} AS deferral_rate,
     ${isByDay ? COMPLAINTS_OF_WEEK : rateOf('complaints', 'accepted')} AS complaint_rate
   FROM (SELECT ${isByDay ? DATE : ''} ${PAIR}, ${sumOf('accepted')} AS accepted, ${sumOf('deferred')} AS deferred,
     ${sumOf('refused')} AS refused, sum(count * is_blocked) AS blocked, ${sumOf('complaints')} AS complaints
     FROM provider_outcomes WHERE day ${days} GROUP BY provider_outcomes.source, provider${isByDay ? ', day' : ''})`

const MAX_ROWS = 10_000
const MAX_REPLIES = 1000
const sql = prepareStatements((db) => ({
  pairs: db.prepare<OutcomeRow, [number]>(
    `${selectOutcomes('>= ?', false)} ORDER BY ${ATTEMPTED} DESC LIMIT ${MAX_ROWS}`,
  ),
  days: db.prepare<DayRow, [number]>(
    `SELECT * FROM (${selectOutcomes('>= ?1 - 6', true)}) WHERE date >= date(?1 * 86400, 'unixepoch')
     ORDER BY date DESC LIMIT ${MAX_ROWS}`,
  ),
  before: db.prepare<OutcomeRow, [number, number]>(selectOutcomes('BETWEEN ? AND ?', false)),
  replies: db.prepare<
    Readonly<Record<'date' | 'provider' | 'source' | 'kind' | 'reply', string>> & { count: number },
    [number]
  >(
    `SELECT ${DATE} ${PAIR}, iif(is_blocked, 'blocked', outcome) AS kind, reply, count FROM provider_outcomes
     WHERE day >= ? AND outcome IN ('deferred', 'refused') ORDER BY day DESC, reply = '', count DESC LIMIT ${MAX_REPLIES}`,
  ),
  topReply: db.prepare<{ reply: string }, [number, string, string, string]>(
    `SELECT reply FROM provider_outcomes WHERE day = ? AND source = ? AND provider = ?
     AND iif(is_blocked, 'blocked', outcome) = ? ORDER BY reply = '', count DESC LIMIT 1`,
  ),
}))

/** Rows of outcomes since a day: by pair, the busiest first; by day and pair, and their replies, the newest first. */
export const readOutcomes = (db: Database, fromDay: number) => ({
  pairs: sql(db).pairs.all(fromDay),
  days: sql(db).days.all(fromDay),
  replies: sql(db).replies.all(fromDay),
})

/** `growth`: how many times the rate before it must be, as some always defer new mail. */
type Limit = Readonly<Record<'max' | 'growth', number> & Record<'did' | 'advice', string>> & {
  readonly kind: 'blocked' | 'refused' | 'deferred' | 'complaints'
  readonly rate: 'block_rate' | 'bounce_rate' | 'deferral_rate' | 'complaint_rate'
}
/**
 * From which rate on a day is bad: Gmail and Yahoo demand complaints below 0.3 %, and from bounces of 5 % on most
 * receivers distrust a sender.
 */
const LIMITS = limits as readonly Limit[]

/** A day with fewer attempts, or fewer of the bad ones, says nothing. */
const MIN_ATTEMPTS = 50
const MIN_COUNT = 3
/** The days before it with which a day is compared. */
const COMPARED_DAYS = 28

/** The rates that are bad today or, while today has few attempts, yesterday; the worst first. */
export function findRateAlerts(db: Database, now: Millis) {
  const today = dayOf(now)
  const toKey = ({ provider, source }: Pick<OutcomeRow, 'provider' | 'source'>) => `${provider} ${source ?? ''}`
  const isEnough = ({ accepted, deferred, refused }: DayRow) => accepted + deferred + refused >= MIN_ATTEMPTS
  const latest = Map.groupBy(sql(db).days.all(today - 1), toKey)
  /** Of the days before today, and before yesterday. */
  const earlierRates = [today, today - 1].map((day) => {
    const rows = sql(db).before.all(day - COMPARED_DAYS, day - 1)
    return new Map(rows.map((row) => [toKey(row), row]))
  })
  const alerts = [...latest.values()].flatMap((rows) =>
    LIMITS.flatMap(({ kind, rate: rateName, max, growth, did, advice }) => {
      // Complaints also come on days without mail.
      const row = rows.find((day) => isEnough(day) || (kind === 'complaints' && day.complaints >= MIN_COUNT))
      if (!row) return []
      const { provider, source, date } = row
      const age = date === formatDay(today) ? 0 : 1
      const before = earlierRates[age]?.get(toKey(row))
      const [rate, rateBefore] = [row[rateName], before?.[rateName]]
      if (row[kind] < MIN_COUNT || rate < Math.max(max, growth * (rateBefore ?? 0))) return []
      const found = sql(db).topReply.get(today - age, source ?? '', provider, kind)
      // All of them were blocked, which is an alert of its own.
      if (!found) return []
      const name = provider === 'other' ? 'Providers without an entry' : provider
      const when = kind === 'complaints' ? "a week's" : age === 0 ? "today's" : "yesterday's"
      const mail = `${when} mail${source === null ? '' : ` from ${source}`}`
      const earlier = rateBefore === undefined ? '' : `; before ${formatRate(rateBefore)}`
      const reply = found.reply === '' ? '.' : `; reply: ${found.reply}`
      const message = `${name} ${did} ${formatRate(rate)} of ${mail}${earlier}${reply}`
      const alert = { provider, source, date, kind, rate, rate_before: rateBefore ?? null, message, advice }
      return [{ alert, severity: rate / max }]
    }),
  )
  return alerts.sort((a, b) => b.severity - a.severity).map(({ alert }) => alert)
}

/** In percent, with a decimal below 10 %. */
const formatRate = (rate: number): string => `${Number((100 * rate).toFixed(rate < 0.1 ? 1 : 0))} %`

const DATE_FIELD = { date: S.Text('Day (UTC), YYYY-MM-DD.') }
const KIND_FIELD = { kind: S.Text('blocked if it blames our address or set-up, else deferred, refused or complaints.') }
const ReputationReport = Type.Object({
  pairs: Type.Array(Type.Object(OUTCOME_FIELDS), { description: 'All days together, the busiest first.' }),
  days: Type.Array(Type.Object({ ...DATE_FIELD, ...OUTCOME_FIELDS }), { description: 'The newest day first.' }),
  replies: Type.Array(
    Type.Object({
      ...{ ...DATE_FIELD, ...PAIR_FIELDS, ...KIND_FIELD },
      reply: S.Text('Without persons and ids; the rule or category in its place; empty: all others of the day.'),
      count: S.Count('Attempts.'),
    }),
    { description: 'A few replies of each day and kind; at most 1,000, the newest day first.' },
  ),
  alerts: Type.Array(
    Type.Object({
      ...{ ...DATE_FIELD, ...PAIR_FIELDS, ...KIND_FIELD },
      rate: rate('On that day'),
      rate_before: S.Nullable(Type.Number(), { description: 'In the 28 days before; null: nothing was sent.' }),
      message: S.Text('What is bad, with the most frequent reply.'),
      advice: S.Text('What to do.'),
    }),
    { description: 'Rates that are bad today or yesterday, the worst first.' },
  ),
  listings: Type.Array(Type.String(), {
    description: 'DNS block lists with our addresses, as `tassis doctor` saw them.',
  }),
})

const DEFAULT_DAYS = 30
const DAYS_LIMITS = { minimum: 1, maximum: OUTCOME_DAYS }

/** @param listings what the last run of `tassis doctor` found in block lists */
export const operatorReputationRoutes = (app: App, listings: () => string[]) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).get(
    '/reputation',
    async ({ actor, query }) => {
      await recordView(app, actor, { name: 'providers' })
      const days = S.parseQueryInteger('days', query.days, { ...DAYS_LIMITS, fallback: DEFAULT_DAYS })
      const now = app.clock.now()
      const outcomes = readOutcomes(app.db, dayOf(now) - days + 1)
      return dataBody({ ...outcomes, alerts: findRateAlerts(app.db, now), listings: listings() })
    },
    {
      query: Type.Object({
        days: S.QueryInteger({ ...DAYS_LIMITS, default: DEFAULT_DAYS, description: 'Up to today.' }),
      }),
      response: S.DataBody(ReputationReport),
      detail: operatorRoute(
        'Get the reputation of our addresses',
        'Bounces, blocks, deferrals and complaints by provider, outgoing address and day, the replies behind them, rates that turned bad, and block lists.',
      ),
    },
  )
