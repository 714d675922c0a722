/**
 * @module Reports about a domain's mail that came in (DMARC aggregate, TLS-RPT): stored once each for the account that has the domain, kept for
 * 400 days, shown to the operator. A report is what a stranger says, so it must be about a domain of ours, of which there are so many a day; nothing here
 * acts on one.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import { newUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'

/** A report without its content. */
export interface StoredReport {
  readonly uuid: UuidBytes
  readonly kind: 'dmarc' | 'tls'
  /** Name of the account that has the domain; null: nobody had it verified when the report came. */
  readonly account: string | null
  readonly domain: string
  readonly organisation: string
  readonly reportId: string
  readonly beginAt: Millis | null
  readonly endAt: Millis | null
  readonly contentRef: number
  readonly sizeBytes: number
  readonly createdAt: Millis
}

const RETENTION_DAYS = 400
/** Removed in one transaction: a few milliseconds. */
const BATCH_SIZE = 500

const SELECT = `SELECT r.uuid, r.kind, accounts.name AS account, r.domain, r.organisation, r.report_id AS reportId, r.begin_at AS beginAt,
  r.end_at AS endAt, r.content_ref AS contentRef, r.size_bytes AS sizeBytes, r.created_at AS createdAt
  FROM received_reports r LEFT JOIN accounts ON accounts.id = r.account_id`

type NewRow = [
  uuid: Uint8Array,
  kind: string,
  accountId: number | null,
  domain: string,
  coveredBy: string,
  organisation: string,
  reportId: string,
  beginAt: number | null,
  endAt: number | null,
  contentRef: number,
  sizeBytes: number,
  createdAt: number,
]

const sql = prepareStatements((db) => ({
  // A name may be registered by several accounts; only one of them can have verified it.
  byName: db.prepare<{ accountId: number; isVerified: number }, [string]>(
    `SELECT account_id AS accountId, verified_at IS NOT NULL AS isVerified FROM domains
     WHERE domain = ? AND deleted_at IS NULL ORDER BY verified_at IS NULL, id LIMIT 1`,
  ),
  covered: db.prepare<{ n: number }, [string, number]>(
    'SELECT COUNT(*) AS n FROM received_reports WHERE covered_by = ? AND created_at > ?',
  ),
  insert: db.prepare<unknown, NewRow>(
    `INSERT INTO received_reports
     (uuid, kind, account_id, domain, covered_by, organisation, report_id, begin_at, end_at, content_ref, size_bytes, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, organisation, report_id, domain) DO NOTHING`,
  ),
  newest: db.prepare<StoredReport, [number]>(`${SELECT} ORDER BY r.id DESC LIMIT ?`),
  newestOfDomain: db.prepare<StoredReport, [string, number]>(
    `${SELECT} WHERE r.domain = ? ORDER BY r.created_at DESC, r.id DESC LIMIT ?`,
  ),
  byUuid: db.prepare<StoredReport, [Uint8Array]>(`${SELECT} WHERE r.uuid = ?`),
  // The id grows with created_at.
  oldest: db.prepare<{ id: number; createdAt: number }, [number]>(
    'SELECT id, created_at AS createdAt FROM received_reports ORDER BY id LIMIT ?',
  ),
  deleteOld: db.prepare<{ contentRef: number }, [number, number]>(
    'DELETE FROM received_reports WHERE id <= ? AND created_at < ? RETURNING content_ref AS contentRef',
  ),
}))

/** Reports about one domain of ours and all below it, within a day: large senders get some hundred. */
const MAX_REPORTS_PER_DOMAIN_PER_DAY = 1000

/** What became of a report. */
export type ReportResult =
  | { readonly kind: 'stored' }
  /** We have one of the same kind, organisation, id and domain already, which stays as it is. */
  | { readonly kind: 'known' }
  /** `why` is a sentence. */
  | { readonly kind: 'refused'; readonly why: string }

/** Why a report that comes now is not taken, a sentence; undefined: it is. Asked before its content is stored. */
export function findReportRefusal(
  { config, db }: Pick<App, 'config' | 'db'>,
  { domain }: Pick<AggregateReport, 'domain'>,
  at: Millis,
): string | undefined {
  const found = findOwner(db, config.hostname, domain)
  return found ? checkDailyLimit(db, found, at) : UNKNOWN_DOMAIN
}

/**
 * Stores a report whose content is in the content store, for the account with the nearest verified domain at or above its own; for nobody when the
 * domain is registered only, or is that of this host.
 */
export function storeDomainReport(
  { config }: Pick<App, 'config'>,
  tx: Tx,
  report: AggregateReport & { readonly contentRef: number },
  at: Millis,
): ReportResult {
  const owner = findOwner(tx.db, config.hostname, report.domain)
  if (!owner) return { kind: 'refused', why: UNKNOWN_DOMAIN }
  const why = checkDailyLimit(tx.db, owner, at)
  if (why !== undefined) return { kind: 'refused', why }
  const { changes } = sql(tx.db).insert.run(
    newUuid(),
    report.kind,
    owner.accountId,
    report.domain,
    owner.coveredBy,
    report.organisation,
    report.reportId,
    report.beginMs,
    report.endMs,
    report.contentRef,
    report.content.length,
    at,
  )
  return { kind: changes > 0 ? 'stored' : 'known' }
}

const UNKNOWN_DOMAIN = 'It is a report about a domain that nobody has here.'

/** Where a report belongs. */
interface ReportOwner {
  /** The account that has verified the domain. */
  readonly accountId: number | null
  /** The name at or above it that makes it ours. */
  readonly coveredBy: string
}

const checkDailyLimit = (db: Database, { coveredBy }: ReportOwner, at: Millis): string | undefined =>
  (sql(db).covered.get(coveredBy, at - days(1))?.n ?? 0) < MAX_REPORTS_PER_DOMAIN_PER_DAY
    ? undefined
    : `It is a report about ${coveredBy}, of which ${MAX_REPORTS_PER_DOMAIN_PER_DAY} came within a day.`

function findOwner(db: Database, hostname: string, domain: string): ReportOwner | undefined {
  let registered: ReportOwner | undefined
  for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    const row = sql(db).byName.get(name)
    if (row?.isVerified) return { accountId: row.accountId, coveredBy: name }
    if (row || isHostDomain(hostname, name)) registered ??= { accountId: null, coveredBy: name }
  }
  return registered
}

/** Reports about the mail that the host itself sends speak of its name, or of the organisation's above it. */
const isHostDomain = (hostname: string, name: string): boolean => `.${hostname.toLowerCase()}`.endsWith(`.${name}`)

export interface ReportFilter {
  /** In A-labels: reports of exactly this domain. */
  readonly domain?: string | undefined
  readonly limit: number
}

/** The newest reports, newest first. */
export function listReports(db: Database, { domain, limit }: ReportFilter): StoredReport[] {
  return domain === undefined ? sql(db).newest.all(limit) : sql(db).newestOfDomain.all(domain, limit)
}

/** Throws 404 when there is none with that id. */
export function findReport(db: Database, id: string): StoredReport {
  const uuid = parseUuid(id)
  const found = uuid && sql(db).byUuid.get(uuid)
  if (!found)
    throw notFound('report_not_found', `There is no report "${id}"; \`tassis reports list\` shows what there is.`)
  return found
}

/** Removes reports that came in over 400 days ago, a slice at a time; how many. */
export async function purgeReports(app: App): Promise<number> {
  const before = app.confirmedNow() - days(RETENTION_DAYS)
  for (let removed = 0; ; ) {
    const rows = sql(app.db).oldest.all(BATCH_SIZE)
    const last = rows.at(-1)
    if (!last || rows.every(({ createdAt }) => createdAt >= before)) return removed
    const changes = await app.commit.writeFromReserve((tx) => {
      const deleted = sql(tx.db).deleteOld.all(last.id, before)
      dropContent(app, tx, { content: deleted.map(({ contentRef }) => contentRef) })
      return deleted.length
    })
    removed += changes
    // What is left of the slice is not old enough: its times went back for a moment.
    if (changes < rows.length) return removed
  }
}
