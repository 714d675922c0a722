/**
 * @module Daily statistics for analytics, by UTC day and recipient domain. They are counted in the transaction of the
 * change and written once per group commit. Each domain has one row per day and one row per month. The only writer of
 * `daily_figures`. Callers must not count captured mail.
 */
import type { Database } from 'bun:sqlite'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'

/** The counted fields, in column order; `tables.ts` explains each. */
export const DAILY_FIELDS = [
  'sent',
  'delivered',
  'bounced',
  'opens',
  'clicks',
  'openedEmails',
  'clickedEmails',
  'complaints',
  'unsubscribes',
] as const
export type DailyField = (typeof DAILY_FIELDS)[number]
export type DailyStats = Readonly<Record<DailyField, number>>

/** Column of each field. */
export const DAILY_COLUMNS: Readonly<Record<DailyField, string>> = {
  sent: 'sent',
  delivered: 'delivered',
  bounced: 'bounced',
  opens: 'opens',
  clicks: 'clicks',
  openedEmails: 'opened_emails',
  clickedEmails: 'clicked_emails',
  complaints: 'complaints',
  unsubscribes: 'unsubscribes',
}

/** Domain of the row that sums all domains of a day. */
export const ALL_DOMAINS = ''

/** Domain of erased addresses; the statistics of erased recipients stay under it. */
export const ERASED_DOMAIN = 'erased.invalid'

const DAY_MS = days(1)

/** Days since the epoch, UTC. */
export const dayOf = (at: Millis): number => Math.floor(at / DAY_MS)

/**
 * The value of column `day` in a month row: the negated number of months since year 0, counted as in `usage`.
 * @param day any day of the month
 */
export function toMonthKey(day: number): number {
  const date = new Date(day * DAY_MS)
  return -(date.getUTCFullYear() * 12 + date.getUTCMonth())
}

/** SQL equivalent of `toMonthKey`. */
export const MONTH_KEY_SQL = `-(strftime('%Y', day * 86400, 'unixepoch') * 12 + strftime('%m', day * 86400, 'unixepoch') - 1)`

/**
 * Values of column `day` whose rows together cover a period for one domain: month rows for whole months, day rows for
 * the remaining days.
 */
export function listRowKeys(fromDay: number, toDay: number): number[] {
  const keys: number[] = []
  for (let day = Math.max(fromDay, 0); day <= toDay; ) {
    const date = new Date(day * DAY_MS)
    const nextMonth = dayOf(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1))
    const isWhole = date.getUTCDate() === 1 && nextMonth - 1 <= toDay
    keys.push(isWhole ? toMonthKey(day) : day)
    day = isWhole ? nextMonth : day + 1
  }
  return keys
}

/** The part of an address after its last "@". In an accepted address this part is in lower-case A-labels. */
export const domainOfAddress = (address: string): string => address.slice(address.lastIndexOf('@') + 1)

/** The account, domain and time to count for. */
export interface DailyKey {
  readonly accountId: number
  /** Undefined when the recipient is unknown; then only the sum of all domains is counted. */
  readonly domain?: string | undefined
  readonly at: Millis
}

/** Adds to a field of a domain and to the sum of the day. */
export function countDaily(tx: Tx, { accountId, domain, at }: DailyKey, field: DailyField, delta: number): void {
  const day = dayOf(at)
  if (domain !== undefined) addToRow(tx, accountId, day, domain, field, delta)
  addToRow(tx, accountId, day, ALL_DOMAINS, field, delta)
}

/**
 * Adds to a field of a domain but not to the sum of the day: an email that was opened at two domains counts as one
 * opened email in the sum.
 */
export const countDomainOnly = (
  tx: Tx,
  { accountId, domain, at }: DailyKey & { readonly domain: string },
  field: DailyField,
  delta: number,
): void => addToRow(tx, accountId, dayOf(at), domain, field, delta)

/** Adds to one row only, which may be the sum row. Only for corrections; use `countDaily` for events. */
export function addToRow(
  tx: Tx,
  accountId: number,
  day: number,
  domain: string,
  field: DailyField,
  delta: number,
): void {
  if (delta !== 0) tx.add(`${KEY_PREFIX}${accountId}|${day}|${DAILY_FIELDS.indexOf(field)}|${domain}`, delta)
}

/** Prefix of the keys that this module passes to `Tx.add`; keys of counters begin with a digit. */
const KEY_PREFIX = 'd'

export const isDailyKey = (key: string): boolean => key.startsWith(KEY_PREFIX)

const COLUMNS = DAILY_FIELDS.map((field) => DAILY_COLUMNS[field])
const buildUpsert = (columns: readonly string[]): string =>
  `INSERT INTO daily_figures (account_id, day, domain, ${COLUMNS.join(', ')}) VALUES (?, ?, ?, ${COLUMNS.map(() => '?').join(', ')})
   ON CONFLICT DO UPDATE SET ${columns.map((column) => `${column} = ${column} + excluded.${column}`).join(', ')}`

const sql = prepareStatements((db) => ({
  add: db.prepare(buildUpsert(COLUMNS)),
  // Used when `sent` does not change: writing this column would rewrite its index entry.
  addUnsent: db.prepare(buildUpsert(COLUMNS.filter((column) => column !== 'sent'))),
  dropEmpty: db.prepare(
    `DELETE FROM daily_figures WHERE account_id = ? AND day = ? AND domain = ? AND ${COLUMNS.map((column) => `${column} = 0`).join(' AND ')}`,
  ),
}))

interface RowDelta {
  readonly accountId: number
  readonly day: number
  readonly domain: string
  /** In the order of DAILY_FIELDS. */
  readonly deltas: number[]
}

/**
 * Part of the Committer's `flush`: writes the gathered additions, once per row, to day and month rows. Deletes rows
 * that became zero.
 */
export function flushDailyStats(db: Database, deltas: ReadonlyMap<string, number>): void {
  const rows = new Map<string, RowDelta>()
  const ensureRow = (accountId: number, day: number, domain: string): RowDelta => {
    const name = `${accountId}|${day}|${domain}`
    let row = rows.get(name)
    if (!row) {
      row = { accountId, day, domain, deltas: DAILY_FIELDS.map(() => 0) }
      rows.set(name, row)
    }
    return row
  }
  for (const [key, delta] of deltas) {
    if (delta === 0 || !isDailyKey(key)) continue
    const [accountId, dayText, field, domain = ''] = key.slice(KEY_PREFIX.length).split('|')
    const day = Number(dayText)
    const keys = domain === ALL_DOMAINS ? [day] : [day, toMonthKey(day)]
    for (const rowDay of keys) {
      const row = ensureRow(Number(accountId), rowDay, domain)
      row.deltas[Number(field)] = (row.deltas[Number(field)] ?? 0) + delta
    }
  }
  const { add, addUnsent, dropEmpty } = sql(db)
  for (const { accountId, day, domain, deltas: values } of rows.values()) {
    const statement = values[0] === 0 ? addUnsent : add
    statement.run(accountId, day, domain, ...values)
    if (values.some((value) => value < 0)) dropEmpty.run(accountId, day, domain)
  }
}
