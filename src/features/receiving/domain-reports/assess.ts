/**
 * @module Decides whether a report is counted, and adds up its rows by what they mean for us. Remote clients write the
 * reports, so only those of an authenticated sender count, within limits, and none that says that more mail left our
 * addresses than our own counters know. Read-only.
 */
import type { App } from '#features/core/app/app.ts'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { type Domain, findDomainByName } from '#features/setup/domains/domains.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { listOutboundIps } from '#platform/settings/outbound-source.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import { normaliseIp } from '#protocols/aggregate-reports/records.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { classifyRow, type SenderFacts } from './classify.ts'
import type { reportRows } from './tables.ts'

/** A row as it is stored, without what all rows of a report share. */
export type CountedRow = Omit<
  typeof reportRows.$inferSelect,
  'id' | 'reportId' | 'accountId' | 'domain' | 'day' | 'organisation'
>

export interface Assessment {
  /** The middle of its period, in days since the epoch. */
  readonly day: number
  readonly rows: readonly CountedRow[]
  /** Why it is not counted, a sentence; null: it is. */
  readonly uncounted: string | null
  /** Tags of the published policy. */
  readonly policy: Readonly<Record<string, string>>
}

/** How a report came: from an authenticated or unknown sender, or from an operator. */
export type ReportOrigin = Pick<AuthenticationResult, 'spf' | 'dkim' | 'dmarc'> | 'operator'

const RETENTION_DAYS = 400
/** Receivers report on a day, some on a few. */
const MAX_PERIOD_MS = days(8)
/** Clocks differ, and some periods are in local time. */
const MAX_AHEAD_MS = days(2)

/** @param owner the account with the domain, and its domain at or above that of the report */
export function assessReport(
  app: Pick<App, 'config' | 'cluster' | 'db'>,
  report: AggregateReport,
  owner: { readonly accountId: number | null; readonly coveredBy: string },
  origin: ReportOrigin | undefined,
  at: Millis,
): Assessment {
  const { beginMs, endMs, records } = report
  const day = dayOf(((beginMs ?? at) + (endMs ?? at)) / 2)
  const policy = records?.policy ?? {}
  const refuse = (uncounted: string): Assessment => ({ day, rows: [], uncounted, policy })
  const domain = owner.accountId === null ? undefined : findDomainByName(app.db, owner.accountId, owner.coveredBy)
  if (!domain) return refuse('No account here has verified the domain.')
  if (origin !== 'operator' && !(origin && isAuthentic(origin)))
    return refuse('The message that brought it fails DMARC or is not authenticated, so anybody may have written it.')
  if (!records || records.problem !== undefined) return refuse(records?.problem ?? 'Its records were not read.')
  if (beginMs === null || endMs === null || endMs < beginMs || endMs - beginMs > MAX_PERIOD_MS)
    return refuse('Its period is missing, or is not one of at most eight days.')
  if (beginMs > at + MAX_AHEAD_MS || endMs < at - days(RETENTION_DAYS))
    return refuse(`Its period is in the future or more than ${RETENTION_DAYS} days ago.`)
  const rows = report.kind === 'tls' ? toTlsRows(report) : toDmarcRows(report, readSenderFacts(app, domain))
  if (rows.length === 0) return refuse('It has no record with a valid address and count about the domain.')
  const claimed = rows.reduce((sum, row) => sum + (row.isFromUs ? row.count : 0), 0)
  const sent = claimed > 0 ? countSends(app, domain, beginMs, endMs) : 0
  if (claimed > sent * RETRY_FACTOR + RETRY_MARGIN)
    return refuse(
      `It is doubtful: it says that ${claimed} messages of the domain left our addresses, but we sent ${sent} at most.`,
    )
  return { day, rows, uncounted: null, policy }
}

/** RFC 9990 §5.1: reports must be authenticated. A sender without a DMARC policy needs SPF or DKIM. */
const isAuthentic = ({ spf, dkim, dmarc }: Exclude<ReportOrigin, 'operator'>): boolean =>
  dmarc === 'pass' || (dmarc === 'none' && (spf === 'pass' || dkim === 'pass'))

/** A message can be received more than once when a reply to DATA is lost, or its recipients are at several hosts. */
const RETRY_FACTOR = 2
const RETRY_MARGIN = 10
/** Mail waits for up to some days before it is sent. */
const MAX_WAIT_DAYS = 5
/** A busier account is compared with its total of the days. */
const MAX_EMAILS_COUNTED = 20_000

const sql = prepareStatements((db) => ({
  emails: db.prepare<{ emails: number; recipients: number }, [number, number, Millis, Millis]>(
    `SELECT count(*) AS emails, total(CASE WHEN domain_id = ? THEN recipient_count ELSE 0 END) AS recipients FROM
     (SELECT domain_id, recipient_count FROM emails WHERE account_id = ? AND created_at BETWEEN ? AND ? LIMIT ${MAX_EMAILS_COUNTED})`,
  ),
  total: db.prepare<{ sent: number }, [number, number, number]>(
    `SELECT total(sent) AS sent FROM daily_figures WHERE account_id = ? AND day BETWEEN ? AND ? AND domain = ''`,
  ),
  hasOlder: db.prepare<{ id: number }, [number, Millis]>(
    'SELECT id FROM emails WHERE account_id = ? AND created_at < ? LIMIT 1',
  ),
}))

/** How many messages of a domain we may have sent in a period: at least as many as we did. */
function countSends({ db }: Pick<App, 'db'>, { id, accountId, createdAt }: Domain, begin: Millis, end: Millis): number {
  const [from, to] = [begin - days(MAX_WAIT_DAYS), end + days(1)]
  const total = sql(db).total.get(accountId, dayOf(from), dayOf(to))?.sent ?? 0
  // After retention has deleted emails, only the totals are left.
  const isComplete = createdAt >= from || sql(db).hasOlder.get(accountId, from) !== null
  const found = isComplete ? sql(db).emails.get(id, accountId, from, to) : undefined
  return found && found.emails < MAX_EMAILS_COUNTED ? Math.min(total, found.recipients) : total
}

/** What tells our mail of the domain from that of others. */
function readSenderFacts({ config, cluster }: Pick<App, 'config' | 'cluster'>, domain: Domain): SenderFacts {
  const ips = [...listOutboundIps(config.outboundIps), ...(cluster?.nodes() ?? []).flatMap((node) => node.outbound_ips)]
  const present = [domain.dkimSelector, domain.nextDkim?.selector].filter((selector) => selector !== undefined)
  const former = domain.formerDkim.map(({ selector }) => selector)
  const withEd25519 = (selectors: readonly string[], state: 'active' | 'former') =>
    selectors.flatMap((selector) => [selector, `${selector}e`].map((name) => [name, state] as const))
  return {
    domain: domain.domain,
    returnPath: `${domain.sendingSubdomain}.${domain.domain}`,
    ips: new Set(ips.map((ip) => normaliseIp(ip) ?? ip)),
    selectors: new Map([...withEd25519(former, 'former'), ...withEd25519(present, 'active')]),
    isRelayed: config.delivery === 'relay',
  }
}

const NO_ROW = { source: '', sender: '', selector: '', disposition: 'none', isFromUs: false, dkim: false, spf: false }

const toDmarcRows = ({ records }: AggregateReport, facts: SenderFacts): CountedRow[] =>
  addUp(
    (records?.rows ?? []).map((row) => ({
      ...classifyRow(row, facts),
      source: row.sourceIp,
      disposition: row.disposition,
      dkim: row.isDkimAligned,
      spf: row.isSpfAligned,
      count: row.count,
    })),
  )

/** The class of TLS sessions, beside those of DMARC. */
const toTlsRows = ({ records }: AggregateReport): CountedRow[] =>
  (records?.sessions ?? []).map(({ count, failure, receiver }) => ({
    ...NO_ROW,
    class: failure === '' ? 'tls_ok' : 'tls_failed',
    cause: failure,
    source: receiver,
    count,
  }))

function addUp(rows: readonly CountedRow[]): CountedRow[] {
  const groups = new Map<string, CountedRow>()
  for (const row of rows) {
    const key = JSON.stringify({ ...row, count: 0 })
    groups.set(key, { ...row, count: row.count + (groups.get(key)?.count ?? 0) })
  }
  return [...groups.values()].sort((a, b) => b.count - a.count)
}

/** The rows within a limit; the smallest beyond it are added up without their addresses. */
export const limitRows = (rows: readonly CountedRow[], max: number): readonly CountedRow[] =>
  rows.length <= max
    ? rows
    : [
        ...rows.slice(0, max),
        ...addUp(rows.slice(max).map((row) => ({ ...row, source: '', sender: '', selector: '' }))),
      ]
