/**
 * @module From what is used to how much has to go: for each kind over its budget the time before which its rows go, so that it comes under it, the oldest
 * first. An estimate from averages: what was really freed shows at the next measure. Reads every email and received message, so it belongs beside
 * `measure.ts`.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { hours } from '#platform/units.ts'
import { allocated, type DatabaseUse, type MonthUse, measureDatabase, measureStore, usedOf } from './measure.ts'

/** Kinds with a budget. */
export const BUDGETED = ['content', 'events', 'inbound', 'logs'] as const
export type Budgeted = (typeof BUDGETED)[number]

/** Bytes; 0: no bound. */
export type Budgets = Readonly<Record<Budgeted, number>>

export const budgetsOf = (config: Config): Budgets => ({
  content: config.contentMaxBytes,
  events: config.eventsMaxBytes,
  inbound: config.inboundMaxBytes,
  logs: config.logsMaxBytes,
})

/** What each kind uses, in bytes. */
export type Use = Readonly<Record<Budgeted, number>>

/** What goes from before which time, by kind; kinds within their budget are left out. */
export type Cutoffs = Readonly<Partial<Record<Budgeted, Millis>>>

export interface Measured {
  readonly use: Use
  readonly database: DatabaseUse
  readonly content: readonly MonthUse[]
  readonly rawMail: readonly MonthUse[]
  /** Decoded bytes of what is in the content store of sent mail, and of received messages. */
  readonly decoded: { readonly sent: number; readonly received: number }
}

/** A kind over its budget is brought down to this part of it, so that it is not over it again at once. */
const WANTED_PART = 0.95

const HOUR_MS = hours(1)

const HAS_CONTENT = '(html_ref IS NOT NULL OR text_ref IS NOT NULL OR attachments LIKE \'%"ref":%\')'
const RECEIVED = `SELECT created_at AS at, size_bytes AS bytes FROM inbound_emails
  UNION ALL SELECT created_at, size_bytes FROM mailbox_messages WHERE email_id IS NULL`

/** Whether the files are as large as the smallest budget of what is in them: if not, nothing has to be read. */
export function mayBeOver(dataDir: string, budgets: Budgets): boolean {
  const least = (...kinds: readonly Budgeted[]): number =>
    Math.min(...kinds.map((kind) => (budgets[kind] === 0 ? Number.POSITIVE_INFINITY : budgets[kind])))
  const database = allocated(join(dataDir, 'tassis.db')) + allocated(join(dataDir, 'tassis.db-wal'))
  const content = usedOf(measureStore(join(dataDir, 'content')))
  const rawMail = usedOf(measureStore(join(dataDir, 'raw-mail')))
  return (
    database >= least('events', 'logs') ||
    content >= least('content') ||
    database + content + rawMail >= least('inbound')
  )
}

/** Measures all kinds. @param db in a read transaction */
export function measure(db: Database, dataDir: string): Measured {
  const database = measureDatabase(db)
  const content = measureStore(join(dataDir, 'content'))
  const rawMail = measureStore(join(dataDir, 'raw-mail'))
  const sum = (sql: string): number => db.query<{ n: number | null }, []>(sql).get()?.n ?? 0
  const decoded = {
    sent: sum(`SELECT sum(size_bytes) AS n FROM emails WHERE ${HAS_CONTENT}`),
    received: sum(`SELECT sum(bytes) AS n FROM (${RECEIVED})`),
  }
  // Parts of sent and of received mail are in one store: each counts for its share of what went in.
  const all = decoded.sent + decoded.received
  const parts = usedOf(content)
  const ofReceived = all === 0 ? 0 : (parts * decoded.received) / all
  return {
    use: {
      content: Math.round(parts - ofReceived),
      events: database.groups.events,
      inbound: Math.round(database.groups.inbound + usedOf(rawMail) + ofReceived),
      logs: database.groups.logs,
    },
    database,
    content,
    rawMail,
    decoded,
  }
}

/** How far each kind that is over its budget has to be cut. @param db in the same read transaction as the measure */
export function cutoffsOf(db: Database, { use, database, decoded }: Measured, budgets: Budgets): Cutoffs {
  const cutoffs: Partial<Record<Budgeted, Millis>> = {}
  for (const kind of BUDGETED) {
    if (budgets[kind] === 0 || use[kind] <= budgets[kind]) continue
    const excess = use[kind] - WANTED_PART * budgets[kind]
    const part = excess / use[kind]
    const cutoff = {
      content: () =>
        afterBytes(
          db,
          `SELECT created_at AS at, size_bytes AS bytes FROM emails WHERE ${HAS_CONTENT} ORDER BY id`,
          part * decoded.sent,
        ),
      events: () => afterEvents(db, excess / database.bytesOfEvent),
      inbound: () => afterBytes(db, `${RECEIVED} ORDER BY 1`, part * decoded.received),
      logs: () => afterRows(db, excess / database.bytesOfEmail),
    }[kind]()
    if (cutoff !== undefined) cutoffs[kind] = cutoff
  }
  return cutoffs
}

/** Time just after the row with which the first ones make up so many bytes. */
function afterBytes(db: Database, sql: string, bytes: number): Millis | undefined {
  let sum = 0
  let at: Millis | undefined
  for (const row of db.query<{ at: Millis; bytes: number }, []>(sql).iterate()) {
    at = row.at + 1
    sum += row.bytes
    if (sum >= bytes) break
  }
  return at
}

/** Time just after the n-th oldest email. */
function afterRows(db: Database, n: number): Millis | undefined {
  const row = db
    .query<{ at: Millis }, [number]>(
      'SELECT max(created_at) AS at FROM (SELECT created_at FROM emails ORDER BY id LIMIT ?)',
    )
    .get(Math.ceil(n))
  return row?.at == null ? undefined : row.at + 1
}

/** End of the hour with which the first ones have had so many events. */
function afterEvents(db: Database, n: number): Millis | undefined {
  const found = db
    .query<{ hour: number; events: number }, []>(
      'SELECT at / 3600000 AS hour, count(*) AS events FROM events GROUP BY 1 ORDER BY 1',
    )
    .iterate()
  let sum = 0
  let hour: number | undefined
  for (const row of found) {
    hour = row.hour
    sum += row.events
    if (sum >= n) break
  }
  return hour === undefined ? undefined : (hour + 1) * HOUR_MS
}
