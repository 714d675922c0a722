/**
 * @module Stores received reports about a domain's mail (DMARC aggregate, TLS-RPT) for the operator to list. Each
 * report is stored once, for the account with the domain, and kept for 400 days. Remote clients write the reports, so
 * a report must be about a domain of ours, and their number per domain and day is limited. What a report counts is stored with it,
 * if `assess.ts` finds that it can be believed.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import type { Tx } from '#platform/db/commit.ts'
import { insertSql, prepareStatements } from '#platform/db/open.ts'
import { belowId, type RowWindow } from '#platform/db/row-window.ts'
import { notFound } from '#platform/errors.ts'
import { newUuid, parseUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import { assessReport, limitRows, type ReportOrigin, type ReportOwner } from './assess.ts'
import type { receivedReports, reportRows } from './tables.ts'

export interface StoredReport
  extends Readonly<Omit<typeof receivedReports.$inferSelect, 'accountId' | 'coveredBy' | 'isImported'>> {
  /** Name of the account with the domain; null: no account had verified it when the report arrived. */
  readonly account: string | null
}

const RETENTION_DAYS = 400
const BATCH_SIZE = 500

const SELECT = `SELECT r.id, r.uuid, r.kind, accounts.name AS account, r.domain, r.organisation, r.report_id AS reportId, r.begin_at AS beginAt,
  r.end_at AS endAt, r.content_ref AS contentRef, r.size_bytes AS sizeBytes, r.created_at AS createdAt, r.counted, r.uncounted, r.policy
  FROM received_reports r LEFT JOIN accounts ON accounts.id = r.account_id`

const sql = prepareStatements((db) => ({
  // Several accounts may register a name; only one of them can have verified it.
  byName: db.prepare<{ accountId: number; isVerified: number }, [string]>(
    `SELECT account_id AS accountId, verified_at IS NOT NULL AS isVerified FROM domains
     WHERE domain = ? AND deleted_at IS NULL ORDER BY verified_at IS NULL, id LIMIT 1`,
  ),
  covered: db.prepare<{ n: number }, [string, number]>(
    'SELECT COUNT(*) AS n FROM received_reports WHERE covered_by = ? AND created_at > ? AND NOT is_imported',
  ),
  insert: db.prepare<unknown, [Omit<typeof receivedReports.$inferSelect, 'id'>]>(
    `${insertSql(
      'received_reports',
      'uuid kind accountId domain coveredBy organisation reportId beginAt endAt contentRef sizeBytes createdAt counted uncounted policy isImported',
    )} ON CONFLICT (kind, organisation, report_id, domain) DO NOTHING`,
  ),
  known: db.prepare<Pick<StoredReport, 'id' | 'uuid' | 'contentRef' | 'counted'>, [string, string, string, string]>(
    `SELECT id, uuid, content_ref AS contentRef, counted FROM received_reports WHERE kind = ? AND organisation = ? AND report_id = ? AND domain = ?`,
  ),
  forget: db.prepare('DELETE FROM received_reports WHERE id = ?'),
  insertRow: db.prepare<unknown, [Omit<typeof reportRows.$inferSelect, 'id'>]>(
    insertSql(
      'report_rows',
      'reportId accountId domain day organisation class cause source sender disposition isFromUs dkim spf count',
    ),
  ),
  rowsOfDay: db.prepare<{ n: number }, [number, string, number]>(
    'SELECT count(*) AS n FROM report_rows WHERE account_id = ? AND domain = ? AND day = ?',
  ),
  allRows: db.prepare<{ n: number }, []>('SELECT coalesce(max(id) - min(id) + 1, 0) AS n FROM report_rows'),
  deleteRows: db.prepare('DELETE FROM report_rows WHERE report_id IN (SELECT value FROM json_each(?))'),
  page: db.prepare<StoredReport, [string | null, number, number, number]>(
    `${SELECT} WHERE r.domain = coalesce(?, r.domain) AND r.id < ? ORDER BY r.id DESC LIMIT ? OFFSET ?`,
  ),
  count: db.prepare<{ n: number }, [string | null]>(
    'SELECT COUNT(*) AS n FROM received_reports WHERE domain = coalesce(?, domain)',
  ),
  byUuid: db.prepare<StoredReport, [Uint8Array]>(`${SELECT} WHERE r.uuid = ?`),
  // Ids ascend with created_at.
  oldest: db.prepare<{ id: number; createdAt: number }, [number]>(
    'SELECT id, created_at AS createdAt FROM received_reports ORDER BY id LIMIT ?',
  ),
  deleteOld: db.prepare<{ id: number; contentRef: number }, [number, number]>(
    'DELETE FROM received_reports WHERE id <= ? AND created_at < ? RETURNING id, content_ref AS contentRef',
  ),
}))

/** Limit for a domain of ours and all its subdomains within a day; large senders get a few hundred. */
const MAX_REPORTS_PER_DOMAIN_PER_DAY = 1000

export const NO_OWNER = 'The report is about a domain that no account here has.'

/** Why a report is rejected now, a sentence; undefined: it is accepted. Called before its content is stored. */
export function findReportRefusal(
  { config, db }: Pick<App, 'config' | 'db'>,
  { domain }: Pick<AggregateReport, 'domain'>,
  at: Millis,
): string | undefined {
  const owner = findOwner(db, config.hostname, domain)
  if (!owner) return NO_OWNER
  const { coveredBy } = owner
  const stored = sql(db).covered.get(coveredBy, at - days(1))?.n ?? 0
  return stored < MAX_REPORTS_PER_DOMAIN_PER_DAY
    ? undefined
    : `The report is about ${coveredBy}, which already has ${MAX_REPORTS_PER_DOMAIN_PER_DAY} reports within a day.`
}

/** Limits of the rows that reports are counted in; further ones are added up, or not counted. */
const MAX_ROWS_PER_DOMAIN_PER_DAY = 2000
const MAX_ROWS = 2_000_000

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
  const { rows, uncounted: reason, policy, day } = assessReport(app, report, owner, report.origin, at)
  const isFull = rows.length > 0 && (sql(tx.db).allRows.get()?.n ?? 0) > MAX_ROWS
  const uncounted = isFull ? 'The service stores as many rows of reports as it may.' : reason
  const counted = uncounted === null ? rows.reduce((sum, row) => sum + row.count, 0) : null
  const known = sql(tx.db).known.get(report.kind, report.organisation, report.reportId, report.domain)
  if (known && (known.counted !== null || counted === null)) return { uuid: known.uuid, isNew: false }
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
    policy: JSON.stringify(policy),
    isImported: report.origin === 'operator',
  })
  const { accountId, coveredBy: domain } = owner
  if (accountId !== null && counted !== null) {
    const capacity = MAX_ROWS_PER_DOMAIN_PER_DAY - (sql(tx.db).rowsOfDay.get(accountId, domain, day)?.n ?? 0)
    const shared = { reportId: Number(lastInsertRowid), accountId, domain, day, organisation: report.organisation }
    for (const row of limitRows(rows, Math.max(0, capacity))) sql(tx.db).insertRow.run({ ...shared, ...row })
  }
  return { uuid, isNew: true }
}

function findOwner(db: Database, hostname: string, domain: string): ReportOwner | undefined {
  let registered: ReportOwner | undefined
  for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    const row = sql(db).byName.get(name)
    if (row?.isVerified) return { accountId: row.accountId, coveredBy: name }
    if (row || isHostDomain(hostname, name)) registered ??= { accountId: null, coveredBy: name }
  }
  return registered
}

/** Reports about the host's own mail name its hostname or the organisational domain above it. */
const isHostDomain = (hostname: string, name: string): boolean => `.${hostname.toLowerCase()}`.endsWith(`.${name}`)

/** A page of the reports, newest first, about a domain in A-labels or about all. */
export const listReports = (db: Database, domain: string | undefined, window: RowWindow) => ({
  reports: sql(db).page.all(domain ?? null, belowId(window), window.limit, window.offset),
  total: sql(db).count.get(domain ?? null)?.n ?? 0,
})

/** Throws 404 for an unknown id. */
export function findReport(db: Database, id: string): StoredReport {
  const uuid = parseUuid(id)
  const found = uuid && sql(db).byUuid.get(uuid)
  if (!found) throw notFound('report_not_found', `Report "${id}" not found; \`tassis reports list\` lists all reports.`)
  return found
}

/** Deletes reports older than 400 days, batch by batch; returns their number. */
export async function purgeReports(app: App): Promise<number> {
  const before = app.confirmedNow() - days(RETENTION_DAYS)
  for (let removed = 0; ; ) {
    const rows = sql(app.db).oldest.all(BATCH_SIZE)
    const last = rows.at(-1)
    if (!last || rows.every(({ createdAt }) => createdAt >= before)) return removed
    const changes = await app.commit.writeFromReserve((tx) => {
      const deleted = sql(tx.db).deleteOld.all(last.id, before)
      sql(tx.db).deleteRows.run(JSON.stringify(deleted.map(({ id }) => id)))
      dropContent(app, tx, { content: deleted.map(({ contentRef }) => contentRef) })
      return deleted.length
    })
    removed += changes
    // The rest of the batch and all later reports are not old enough.
    if (changes < rows.length) return removed
  }
}
