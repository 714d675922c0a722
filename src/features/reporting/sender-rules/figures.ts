/**
 * @module Reads what our counters and rows say about an account's mail to a receiver: sums of days, and samples of the
 * newest rows. Counters are those of the account: they do not tell its domains apart. Read-only.
 */
import type { Database } from 'bun:sqlite'
import { ALL_DOMAINS, type DailyStats, dayOf, domainOfAddress } from '#features/core/events/daily-stats.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import { STATS_SUMS } from '../analytics/stats.ts'

const PERIOD_DAYS = 30
/** Volume counts for as long: one busy day makes a bulk sender, and Gmail never forgets it. */
const VOLUME_DAYS = 366
/** Newest rows that are looked at. */
const SAMPLE_SIZE = 1000

const SELECT_DAYS = `SELECT f.day, ${STATS_SUMS} FROM json_each(?1) wanted CROSS JOIN json_each(?2) names
  CROSS JOIN daily_figures f ON f.account_id = ?3 AND f.day = wanted.value AND f.domain = names.value`

const sql = prepareStatements((db) => ({
  sums: db.prepare<DailyStats, [string, string, number]>(SELECT_DAYS),
  byDay: db.prepare<DailyStats, [string, string, number]>(`${SELECT_DAYS} GROUP BY f.day`),
  emails: db.prepare<{ emails: number; marketing: number }, [number, number, number]>(
    `SELECT count(*) AS emails, coalesce(sum(transactional = 0), 0) AS marketing FROM (SELECT domain_id, transactional, sandbox
     FROM emails WHERE account_id = ? ORDER BY created_at DESC LIMIT ?) WHERE domain_id = ? AND sandbox = 0`,
  ),
  delivered: db.prepare<{ address: string; tls: string | null }, [number, number]>(
    `SELECT address, json_extract(data, '$.tls') AS tls FROM (SELECT * FROM events WHERE account_id = ? ORDER BY seq DESC LIMIT ?)
     JOIN recipients ON recipients.id = recipient_id WHERE type = ${toEventCode('delivered')} AND is_captured = 0`,
  ),
  aligned: db.prepare<{ messages: number; aligned: number; day: number }, [number, string, number]>(
    `SELECT coalesce(sum(count), 0) AS messages, coalesce(sum(count) FILTER (WHERE class = 'aligned'), 0) AS aligned, coalesce(max(day), 0) AS day
     FROM report_rows WHERE account_id = ? AND domain = ? AND day > ? AND is_from_us`,
  ),
  reported: db.prepare<{ at: number | null }, [number, number, string]>(
    'SELECT max(created_at) AS at FROM complaints WHERE account_id = ? AND created_at >= ? AND feedback_loop = ?',
  ),
}))

const listDays = (now: Millis, count = PERIOD_DAYS): string =>
  JSON.stringify(Array.from({ length: count }, (_, index) => dayOf(now) - index))

/** The sums of the last 30 days at these domains; default: at all. */
export const readStats = (db: Database, accountId: number, now: Millis, names: readonly string[] = [ALL_DOMAINS]) =>
  sql(db).sums.get(listDays(now), JSON.stringify(names), accountId) as DailyStats

/** The most recipients at these domains on one day of the last year. */
export function readPeak(db: Database, accountId: number, now: Millis, names: readonly string[]): number {
  const year = sql(db).byDay.all(listDays(now, VOLUME_DAYS), JSON.stringify(names), accountId)
  return Math.max(0, ...year.map(({ sent }) => sent))
}

/** Of the newest 1,000 emails of the account, those of a domain, and how many of them are not transactional. */
export const readMarketing = (db: Database, accountId: number, domainId: number) =>
  sql(db).emails.get(accountId, SAMPLE_SIZE, domainId) ?? { emails: 0, marketing: 0 }

/** Of the newest 1,000 events of the account, the deliveries to these domains, and how many of them used TLS. */
export function countEncrypted(db: Database, accountId: number, names: readonly string[]) {
  const seen = sql(db).delivered.all(accountId, SAMPLE_SIZE)
  const theirs = seen.filter(({ address }) => names.includes(domainOfAddress(address)))
  return { all: theirs.length, encrypted: theirs.filter(({ tls }) => tls?.startsWith('TLS')).length }
}

/** When a feedback loop last reported a complaint in the last year, which proves that it works; null: never. */
export const findLastReport = (db: Database, accountId: number, now: Millis, loop: string): Millis | null =>
  sql(db).reported.get(accountId, now - days(VOLUME_DAYS), loop)?.at ?? null

/** What DMARC reports of the last 30 days count of mail that left our addresses, and the newest day that they are about. */
export function countAligned(db: Database, accountId: number, now: Millis, domain: string) {
  const found = sql(db).aligned.get(accountId, domain, dayOf(now) - PERIOD_DAYS)
  return { messages: 0, aligned: 0, ...found, seenAt: (found?.day ?? 0) * days(1) }
}
