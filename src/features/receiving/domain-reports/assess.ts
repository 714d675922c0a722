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
import type { AggregateReport, ReportRecords } from '#protocols/aggregate-reports/report.ts'
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
  const rows = toRows(records, readSenderFacts(app, domain))
  if (rows.length === 0) return refuse('It has no record with a valid address and count about the domain.')
  const claimed = rows.reduce((sum, row) => sum + (row.isFromUs ? row.count : 0), 0)
  const sent = claimed > 0 ? countSends(app, domain.accountId, beginMs, endMs) : 0
  if (claimed > sent * RETRY_FACTOR + RETRY_MARGIN)
    return refuse(
      `It is doubtful: it says that ${claimed} messages left our addresses, but the account sent ${sent} at most.`,
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

const sql = prepareStatements((db) => ({
  sent: db.prepare<{ sent: number }, [number, number, number]>(
    `SELECT total(sent) AS sent FROM daily_figures WHERE account_id = ? AND day BETWEEN ? AND ? AND domain = ''`,
  ),
}))

/** How many messages the account may have sent in a period: at least as many as it did. */
const countSends = ({ db }: Pick<App, 'db'>, accountId: number, begin: Millis, end: Millis): number =>
  sql(db).sent.get(accountId, dayOf(begin) - MAX_WAIT_DAYS, dayOf(end) + 1)?.sent ?? 0

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

/** What the sessions of a TLS report lack. */
const NO_ROW = { sender: '', selector: '', disposition: 'none', isFromUs: false, dkim: false, spf: false }

const toRows = ({ rows, sessions }: ReportRecords, facts: SenderFacts): CountedRow[] =>
  addUp([
    ...rows.map((row) => {
      const { sourceIp: source, disposition, isDkimAligned: dkim, isSpfAligned: spf, count } = row
      return { ...classifyRow(row, facts), source, disposition, dkim, spf, count }
    }),
    ...sessions.map(({ count, failure: cause, receiver: source }) => {
      return { ...NO_ROW, class: cause === '' ? 'tls_ok' : 'tls_failed', cause, source, count }
    }),
  ])

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
