/** @module Which outcomes providers gave mail from our addresses, by day, and which rates have turned bad. Never counts. */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { formatDay } from '#features/reporting/analytics/period.ts'
import { BLOCKED_FRACTION } from '#features/sending/delivery/providers/daily-outcomes.ts'
import { sumOf } from '#features/sending/delivery/providers/limits.ts'
import { prepareStatements } from '#platform/db/open.ts'
import * as S from '#platform/http/schemas.ts'
import type { Millis } from '#platform/time/clock.ts'

export const PAIR_FIELDS = {
  provider: S.Text('Name in the list of providers; other: all sites without an entry.'),
  source: S.TextOrNull('Our outgoing address; null: the system chooses it.'),
}
export const rate = (description: string) => Type.Number({ description: `${description}, from 0 to 1.` })
export const OUTCOME_FIELDS = {
  ...PAIR_FIELDS,
  accepted: S.Count('Messages that it accepted.'),
  deferred: S.Count('Attempts that are made again.'),
  refused: S.Count('Attempts that it rejected permanently.'),
  blocked: S.Count('Of both, those whose reply blames our address or set-up.'),
  complaints: S.Count('Complaints, on the day of the report.'),
  bounce_rate: rate('Refused, of all attempts'),
  block_rate: rate('Blocked, of all attempts'),
  deferral_rate: rate('Deferred, of all attempts'),
  complaint_rate: rate('Complaints, of the accepted messages'),
}
const Outcomes = Type.Object(OUTCOME_FIELDS)
type OutcomeRow = Static<typeof Outcomes>
type DayRow = OutcomeRow & { readonly date: string }

const DATE = "date(day * 86400, 'unixepoch') AS date,"
const PAIR = "provider, nullif(source, '') AS source"
const rateOf = (part: string, whole: string): string => `iif(${whole} > 0, min(1, 1.0 * ${part} / (${whole})), 0)`
const ATTEMPTED = 'accepted + deferred + refused'
const selectOutcomes = (days: string, isByDay: boolean, order: string): string =>
  `SELECT *, ${rateOf('refused', ATTEMPTED)} AS bounce_rate, ${rateOf('blocked', ATTEMPTED)} AS block_rate,
     ${rateOf('deferred', ATTEMPTED)} AS deferral_rate, ${rateOf('complaints', 'accepted')} AS complaint_rate
   FROM (SELECT ${isByDay ? DATE : ''} ${PAIR}, ${sumOf('accepted')} AS accepted, ${sumOf('deferred')} AS deferred,
     ${sumOf('refused')} AS refused, sum(count * is_blocked) AS blocked, ${sumOf('complaints')} AS complaints
     FROM provider_outcomes WHERE day ${days} GROUP BY provider_outcomes.source, provider${isByDay ? ', day' : ''}) ORDER BY ${order}`

const MAX_ROWS = 10_000
const MAX_REPLIES = 1000
const sql = prepareStatements((db) => ({
  pairs: db.prepare<OutcomeRow, [number]>(`${selectOutcomes('>= ?', false, `${ATTEMPTED} DESC`)} LIMIT ${MAX_ROWS}`),
  days: db.prepare<DayRow, [number]>(`${selectOutcomes('>= ?', true, 'date DESC')} LIMIT ${MAX_ROWS}`),
  before: db.prepare<OutcomeRow, [number, number]>(selectOutcomes('BETWEEN ? AND ?', false, 'provider')),
  replies: db.prepare<
    Readonly<Record<'date' | 'provider' | 'source' | 'kind' | 'reply', string>> & { count: number },
    [number]
  >(
    `SELECT ${DATE} ${PAIR}, iif(is_blocked, 'blocked', outcome) AS kind, reply, count FROM provider_outcomes
     WHERE day >= ? AND outcome IN ('deferred', 'refused') ORDER BY day DESC, reply = '', count DESC LIMIT ${MAX_REPLIES}`,
  ),
}))

/** Rows of outcomes since a day: by pair, the busiest first; by day and pair, and their replies, the newest first. */
export const readOutcomes = (db: Database, fromDay: number) => ({
  pairs: sql(db).pairs.all(fromDay),
  days: sql(db).days.all(fromDay),
  replies: sql(db).replies.all(fromDay),
})

const SLOWER = 'Send less to it for some days, and first to those who read your mail.'
const ADVICE = {
  blocked: `Look at the reply, block lists, reverse DNS (\`tassis doctor\`) and who sends (\`tassis accounts findings\`). ${SLOWER}`,
  refused: 'Find the account with an old or bought list: `tassis accounts findings`.',
  deferred: `Look at the reply. ${SLOWER}`,
  complaints: 'See whose mail it was: `tassis complaints`. Did those people ask for it?',
}
/**
 * From which rate on a day is bad: Gmail and Yahoo demand complaints below 0.3 %, and from bounces of 5 % on most
 * receivers distrust a sender. `growth`: how many times the rate before it must be, as some always defer new mail.
 */
const LIMITS = [
  { kind: 'blocked', rateName: 'block_rate', max: BLOCKED_FRACTION, growth: 0, did: 'blocked' },
  { kind: 'refused', rateName: 'bounce_rate', max: 0.05, growth: 0, did: 'rejected' },
  { kind: 'deferred', rateName: 'deferral_rate', max: 0.2, growth: 2, did: 'deferred' },
  { kind: 'complaints', rateName: 'complaint_rate', max: 0.003, growth: 0, did: 'had complaints about' },
] as const

/** A day with fewer attempts, or fewer of the bad ones, says nothing. */
const MIN_ATTEMPTS = 50
const MIN_COUNT = 3
/** The days before it with which a day is compared. */
const COMPARED_DAYS = 28

/** The rates that are bad today or, while today has few attempts, yesterday; the worst first. */
export function findRateAlerts(db: Database, now: Millis) {
  const today = dayOf(now)
  const { days, replies } = readOutcomes(db, today - 1)
  const toKey = ({ provider, source }: Pick<OutcomeRow, 'provider' | 'source'>) => `${provider} ${source ?? ''}`
  const enough = days.filter(({ accepted, deferred, refused }) => accepted + deferred + refused >= MIN_ATTEMPTS)
  const alerts = [...Map.groupBy(enough, toKey).values()].flatMap(([row]) => {
    if (!row) return []
    const { provider, source, date } = row
    const isToday = date === formatDay(today)
    const end = isToday ? today - 1 : today - 2
    const before = sql(db)
      .before.all(end - COMPARED_DAYS + 1, end)
      .find((other) => toKey(other) === toKey(row))
    return LIMITS.flatMap(({ kind, rateName, max, growth, did }) => {
      const [rate, rateBefore] = [row[rateName], before?.[rateName]]
      if (row[kind] < MIN_COUNT || rate < Math.max(max, growth * (rateBefore ?? 0))) return []
      const isOurs = (other: (typeof replies)[0]) => toKey(other) === toKey(row) && other.date === date
      const reply = replies.find((other) => isOurs(other) && other.kind === kind)?.reply
      // All of them were blocked, which is an alert of its own.
      if (reply === undefined && kind !== 'complaints') return []
      const name = provider === 'other' ? 'Providers without an entry' : provider
      const mail = `${isToday ? "today's" : "yesterday's"} mail${source === null ? '' : ` from ${source}`}`
      const earlier = rateBefore === undefined ? '' : `; before ${formatRate(rateBefore)}`
      const message = `${name} ${did} ${formatRate(rate)} of ${mail}${earlier}${reply ? `; reply: ${reply}` : '.'}`
      const alert = {
        provider,
        source,
        date,
        kind,
        rate,
        rate_before: rateBefore ?? null,
        message,
        advice: ADVICE[kind],
      }
      return [{ alert, severity: rate / max }]
    })
  })
  return alerts.sort((a, b) => b.severity - a.severity).map(({ alert }) => alert)
}

/** In percent, with a decimal below 10 %. */
const formatRate = (rate: number): string => `${Number((100 * rate).toFixed(rate < 0.1 ? 1 : 0))} %`
