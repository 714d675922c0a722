/**
 * @module Stores received reports about a domain's mail (DMARC aggregate, TLS-RPT) for the operator to list. Each
 * report is stored once, for the account with the domain, and kept for 400 days. Remote clients write the reports, so
 * a report must be about a domain of ours, and their number per domain and day is limited. What a report counts is stored with it,
 * for 95 days, if `assess.ts` finds that it can be believed.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { insertSql, newestFirst, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import { newUuid, parseUuid } from '#platform/ids.ts'
import { days, type Millis } from '#platform/units.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import { assessReport, findOwner, findReporter, limitRows, type ReportOrigin } from './assess.ts'
import type { receivedReports, reportRows } from './tables.ts'

export interface StoredReport
  extends Readonly<Omit<typeof receivedReports.$inferSelect, 'accountId' | 'coveredBy' | 'isImported'>> {
  /** Name of the account with the domain; null: no account had verified it when the report arrived. */
  readonly account: string | null
}

const RETENTION_DAYS = 400
const BATCH_SIZE = 500

const SELECT = `SELECT r.id, r.uuid, r.kind, accounts.name AS account, r.domain, r.organisation, r.report_id AS reportId, r.begin_at AS beginAt,
  r.end_at AS endAt, r.content_ref AS contentRef, r.size_bytes AS sizeBytes, r.created_at AS createdAt, r.counted, r.uncounted, r.reporter
  FROM received_reports r LEFT JOIN accounts ON accounts.id = r.account_id`

const sql = prepareStatements((db) => ({
  covered: db.prepare<{ n: number }, [string, number]>(
    'SELECT COUNT(*) AS n FROM received_reports WHERE covered_by = ? AND created_at > ? AND NOT is_imported',
  ),
  insert: db.prepare<unknown, [Omit<typeof receivedReports.$inferSelect, 'id'>]>(
    insertSql(
      'received_reports',
      'uuid kind accountId domain coveredBy organisation reportId beginAt endAt contentRef sizeBytes createdAt counted uncounted reporter isImported',
    ),
  ),
  known: db.prepare<Pick<StoredReport, 'id' | 'uuid' | 'contentRef' | 'counted'>, [string, string, string, string]>(
    `SELECT id, uuid, content_ref AS contentRef, counted FROM received_reports WHERE kind = ? AND organisation = ? AND report_id = ? AND domain = ?`,
  ),
  forget: db.prepare('DELETE FROM received_reports WHERE id = ?'),
  insertRow: db.prepare<unknown, [Omit<typeof reportRows.$inferSelect, 'id'>]>(
    insertSql(
      'report_rows',
      'reportId accountId domain day reporter isProven class cause source sender disposition isFromUs dkim spf count',
    ),
  ),
  rowsOfDay: db.prepare<{ n: number }, [number, string, number, boolean]>(
    'SELECT count(*) AS n FROM report_rows WHERE account_id = ? AND domain = ? AND day = ? AND is_proven = ?',
  ),
  // Each from an end of the table; together in one SELECT they would read all of it.
  allRows: db.prepare<{ n: number }, []>(
    'SELECT coalesce((SELECT max(id) FROM report_rows) - (SELECT min(id) FROM report_rows) + 1, 0) AS n',
  ),
  // Ids ascend with those of the reports.
  deleteRows: db.prepare<unknown, [number, number]>(
    `DELETE FROM report_rows WHERE id IN (SELECT w.id FROM (SELECT id, report_id FROM report_rows ORDER BY id LIMIT ?) w
     LEFT JOIN received_reports r ON r.id = w.report_id WHERE coalesce(r.created_at, 0) < ?)`,
  ),
  list: newestFirst<StoredReport, [string | null]>(
    db,
    SELECT,
    'received_reports r WHERE domain = coalesce(?, domain)',
    'r.id',
  ),
  byUuid: db.prepare<StoredReport, [Uint8Array]>(`${SELECT} WHERE r.uuid = ?`),
  // Ids ascend with created_at.
  deleteOld: db.prepare<{ contentRef: number }, [number, number]>(
    `DELETE FROM received_reports WHERE id IN (SELECT id FROM (SELECT id, created_at FROM received_reports ORDER BY id LIMIT ?)
     WHERE created_at < ?) RETURNING content_ref AS contentRef`,
  ),
}))

/**
 * Limit for a domain of ours and all its subdomains within a day; large senders get a few hundred. Large receivers have
 * as much again, so that nobody else can have theirs refused.
 */
const MAX_REPORTS_PER_DOMAIN_PER_DAY = 1000

export const NO_OWNER = 'The report is about a domain that no account here has.'

/** Why a report is rejected now, a sentence; undefined: it is accepted. Called before its content is stored. */
export function findReportRefusal(
  { config, db }: Pick<App, 'config' | 'db'>,
  { domain, organisation, origin }: Pick<NewReport, 'domain' | 'organisation' | 'origin'>,
  at: Millis,
): string | undefined {
  const owner = findOwner(db, config.hostname, domain)
  if (!owner) return NO_OWNER
  const stored = sql(db).covered.get(owner.coveredBy, at - days(1))?.n ?? 0
  const max = MAX_REPORTS_PER_DOMAIN_PER_DAY * (findReporter({ organisation }, origin)?.isProven ? 2 : 1)
  return stored < max
    ? undefined
    : `The report is about ${owner.coveredBy}, which already has ${max} reports within a day.`
}

/** The smallest rows beyond this are added up: of those that advice rests on, and of the others. */
const MAX_ROWS_PER_DOMAIN_PER_DAY = { proven: 400, others: 200 }
/** Half of them are for reports that advice rests on, so that nobody else can have these not counted. */
const MAX_ROWS = 2_000_000
/** Longer than figures reach back. */
const ROW_RETENTION_DAYS = 95

/** Whether there are so many rows that reports are not counted. */
export const areRowsFull = (db: Database, isProven: boolean): boolean =>
  (sql(db).allRows.get()?.n ?? 0) > (isProven ? MAX_ROWS : MAX_ROWS / 2)

/** A report with its content in the content store, and how it came; without that it is not counted. */
export type NewReport = AggregateReport & { readonly contentRef: number; readonly origin?: ReportOrigin }

/**
 * Stores a report that was not refused, with its content in the content store, for the account with the nearest verified
 * domain at or above the report's. Stored without an account when the domain is only registered, or belongs to this
 * host. One with the same kind, organisation, id and domain as an earlier report is not stored, unless only the new one
 * can be counted; undefined when no account here has the domain.
 */
export function storeDomainReport(app: App, tx: Tx, report: NewReport, at: Millis) {
  const owner = findOwner(tx.db, app.config.hostname, report.domain)
  if (!owner) return undefined
  const known = sql(tx.db).known.get(report.kind, report.organisation, report.reportId, report.domain)
  if (known && known.counted !== null) return { uuid: known.uuid, isNew: false }
  const { parts, uncounted: reason, reporter, day } = assessReport(app, report, owner, at)
  const isProven = reporter?.isProven ?? false
  const maxRows = MAX_ROWS_PER_DOMAIN_PER_DAY[isProven ? 'proven' : 'others']
  const findCapacity = ({ accountId, domain }: (typeof parts)[number]) =>
    maxRows - (sql(tx.db).rowsOfDay.get(accountId, domain, day, isProven)?.n ?? 0)
  const isFull = areRowsFull(tx.db, isProven) || parts.some((part) => findCapacity(part) < -maxRows)
  const uncounted = reason ?? (isFull ? 'As many rows of reports are stored as may be.' : null)
  const counted = uncounted === null ? parts.flatMap(({ rows }) => rows).reduce((sum, row) => sum + row.count, 0) : null
  if (known && counted === null) return { uuid: known.uuid, isNew: false }
  if (known) {
    sql(tx.db).forget.run(known.id)
    dropContent(app, tx, { content: [known.contentRef] })
  }
  const uuid = newUuid()
  const { lastInsertRowid } = sql(tx.db).insert.run({
    ...report,
    ...owner,
    uuid,
    beginAt: report.beginMs,
    endAt: report.endMs,
    sizeBytes: report.content.length,
    createdAt: at,
    counted,
    uncounted,
    reporter: report.origin === 'operator' ? null : (reporter?.name ?? null),
    isImported: report.origin === 'operator',
  })
  if (!reporter || counted === null) return { uuid, isNew: true }
  for (const part of parts) {
    const { accountId, domain } = part
    const shared = { reportId: Number(lastInsertRowid), accountId, domain, day, reporter: reporter.name, isProven }
    for (const row of limitRows(part.rows, Math.max(0, findCapacity(part))))
      sql(tx.db).insertRow.run({ ...shared, ...row })
  }
  return { uuid, isNew: true }
}

/** A page of the reports, newest first, about a domain in A-labels or about all. */
export function listReports(db: Database, domain: string | undefined, window: RowWindow) {
  const { rows: reports, total } = sql(db).list(window, domain ?? null)
  return { reports, total }
}

/** Throws 404 for an unknown id. */
export function findReport(db: Database, id: string): StoredReport {
  const uuid = parseUuid(id)
  const found = uuid && sql(db).byUuid.get(uuid)
  if (!found) throw notFound('report_not_found', `Report "${id}" not found; \`tassis reports list\` lists all reports.`)
  return found
}

/** Deletes reports older than 400 days, and the rows of those older than 95, batch by batch; returns the number of reports. */
export async function purgeReports(app: App): Promise<number> {
  const now = app.confirmedNow()
  for (let removed = 0; ; ) {
    const [reports, rows] = await app.commit.writeFromReserve((tx) => {
      const deleted = sql(tx.db).deleteOld.all(BATCH_SIZE, now - days(RETENTION_DAYS))
      dropContent(app, tx, { content: deleted.map(({ contentRef }) => contentRef) })
      return [deleted.length, sql(tx.db).deleteRows.run(BATCH_SIZE, now - days(ROW_RETENTION_DAYS)).changes]
    })
    removed += reports
    // The rest of the batch and all later ones are not old enough.
    if (Math.max(reports, rows) < BATCH_SIZE) return removed
  }
}
