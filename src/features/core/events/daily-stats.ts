/**
 * @module Daily statistics for analytics, by UTC day and recipient domain. They are counted in the transaction of the
 * change and written once per group commit. The only writer of `daily_figures`. Callers must not count captured mail.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements, type Tx, toSnakeCase } from '#platform/db/open.ts'
import { days, type Millis } from '#platform/units.ts'

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
export const DAILY_COLUMNS = Object.fromEntries(DAILY_FIELDS.map((field) => [field, toSnakeCase(field)])) as Readonly<
  Record<DailyField, string>
>

/** Domain of the row that sums all domains of a day. */
export const ALL_DOMAINS = ''

/** Domain of erased addresses; the statistics of erased recipients stay under it. */
export const ERASED_DOMAIN = 'erased.invalid'

const DAY_MS = days(1)

/** Days since the epoch, UTC. */
export const dayOf = (at: Millis): number => Math.floor(at / DAY_MS)

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

/**
 * Part of the Committer's `flush`: writes the gathered additions, once per row. Deletes rows that became zero.
 */
export function flushDailyStats(db: Database, deltas: ReadonlyMap<string, number>): void {
  /** Values in the order of DAILY_FIELDS, by account, domain and day. */
  const rows = new Map<string, number[]>()
  for (const [key, delta] of deltas) {
    if (delta === 0 || !isDailyKey(key)) continue
    const [accountId, day, field, domain = ''] = key.slice(KEY_PREFIX.length).split('|')
    const row = `${accountId}|${day}|${domain}`
    const values = rows.get(row) ?? DAILY_FIELDS.map(() => 0)
    values[Number(field)] = (values[Number(field)] ?? 0) + delta
    rows.set(row, values)
  }
  const { add, addUnsent, dropEmpty } = sql(db)
  for (const [row, values] of rows) {
    const [accountId, day, domain = ''] = row.split('|')
    const key = [Number(accountId), Number(day), domain] as const
    const statement = values[0] === 0 ? addUnsent : add
    statement.run(...key, ...values)
    if (values.some((value) => value < 0)) dropEmpty.run(...key)
  }
}
