/**
 * @module Decides whether a report is counted, and whose mail each of its rows counts: ours, that of a known service, or
 * of somebody else; and why mail of ours does not pass. Remote clients write the reports, so only those of an
 * authenticated sender count, within limits, and none that says that more mail left our addresses than our own counters
 * know. Anybody can send authenticated reports of his own domain, so advice rests on those of large receivers. Read-only.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { type Domain, findDomainByName } from '#features/setup/domains/domains.ts'
import { findRegistrableDomain } from '#features/setup/domains/name.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { foundIpsOf, listOutboundIps } from '#platform/settings/outbound-source.ts'
import { days, type Millis } from '#platform/units.ts'
import {
  type AggregateReport,
  type DmarcRow,
  normaliseIp,
  type ReportRecords,
} from '#protocols/aggregate-reports/report.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import reporters from './reporters.json' with { type: 'json' }
import services from './services.json' with { type: 'json' }
import type { receivedReports, reportRows } from './tables.ts'
import texts from './texts.json' with { type: 'json' }

/**
 * `aligned`: ours, passes DMARC. `broken`: ours, fails. `other`: sent elsewhere, passes. `service`: of a known service,
 * fails. `foreign`: of somebody unknown, fails.
 */
export const DMARC_CLASSES = ['aligned', 'broken', 'other', 'service', 'foreign'] as const

/** A row as it is stored, without what all rows of a report share. */
export type CountedRow = Omit<
  typeof reportRows.$inferSelect,
  'id' | 'reportId' | 'accountId' | 'domain' | 'day' | 'reporter' | 'isProven'
>

/** How a report came: from an authenticated or unknown sender, or from an operator. */
export type ReportOrigin = Pick<AuthenticationResult, 'spf' | 'dkim' | 'dmarc' | 'details'> | 'operator'

/** Figures are of at most 90 days. */
const MAX_AGE_DAYS = 95
/** Of reports that remote clients send: receivers send them within a day, and repeat them for some days. */
const MAX_SENT_AGE_DAYS = 14
/** Receivers report on a day, some on a few. */
const MAX_PERIOD_MS = days(8)
/** Further From domains in a report are not looked up: anybody can name any number of them. */
const MAX_FROM_DOMAINS = 300
/** Clocks differ, and some periods are in local time. */
const MAX_AHEAD_MS = days(2)

/** The account with the domain of a report; null: none. */
export type ReportOwner = Pick<typeof receivedReports.$inferSelect, 'accountId' | 'coveredBy'>

/** `uncounted` says in a sentence why it is not counted; null: it is. */
export function assessReport(
  app: Pick<App, 'config' | 'cluster' | 'db'>,
  report: AggregateReport & { readonly origin?: ReportOrigin },
  owner: ReportOwner,
  at: Millis,
) {
  const { beginMs, endMs, records, origin } = report
  // The middle of its period.
  const day = dayOf(((beginMs ?? at) + (endMs ?? at)) / 2)
  const reporter = findReporter(report, origin)
  const parts: { accountId: number; domain: string; rows: readonly CountedRow[] }[] = []
  const refuse = (uncounted: string) => ({ reporter, day, parts: [], uncounted })
  if (owner.accountId === null) return refuse('No account here has verified the domain.')
  if (!reporter)
    return refuse('The message that brought it fails DMARC or is not authenticated, so anybody may have written it.')
  if (!records || records.problem !== undefined) return refuse(records?.problem ?? 'Its records were not read.')
  if (beginMs === null || endMs === null || endMs < beginMs || endMs - beginMs > MAX_PERIOD_MS)
    return refuse('Its period is missing, or is not one of at most eight days.')
  const maxAge = origin === 'operator' ? MAX_AGE_DAYS : MAX_SENT_AGE_DAYS
  if (beginMs > at + MAX_AHEAD_MS || endMs < at - days(maxAge))
    return refuse(`Its period is in the future or more than ${maxAge} days ago.`)
  // A subdomain may belong to another account than the domain above it.
  const owners = new Map([[report.domain, owner]])
  const findOwnerOf = ({ from }: DmarcRow): string => {
    const known = owners.get(from) ?? (owners.size < MAX_FROM_DOMAINS ? undefined : owner)
    const found = known ?? findOwner(app.db, app.config.hostname, from) ?? owner
    owners.set(from, found).set(found.coveredBy, found)
    return found.coveredBy
  }
  const byOwner = Map.groupBy(records.rows, findOwnerOf)
  if (records.sessions.length > 0) byOwner.set(owner.coveredBy, [])
  for (const [name, ofOwner] of byOwner) {
    const { accountId } = owners.get(name) ?? owner
    const domain = accountId === null ? undefined : findDomainByName(app.db, accountId, name)
    const rows = domain ? toRows({ ...records, rows: ofOwner }, readSenderFacts(app, domain)) : []
    if (accountId === null || rows.length === 0) continue
    parts.push({ accountId, domain: name, rows })
    const earlier = sql(app.db).claimed.get(accountId, name, day, reporter.name, reporter.isProven)?.count ?? 0
    const claimed = rows.reduce((sum, row) => sum + (row.isFromUs ? row.count : 0), earlier)
    const sent = countSends(app.db, accountId, dayOf(beginMs) - MAX_WAIT_DAYS, endMs)
    // Another program had the address before the account sent here, if an operator vouches for the report.
    const isEarlier = origin === 'operator' && countSends(app.db, accountId, 0, endMs) === 0
    if (claimed > sent * RETRY_FACTOR + RETRY_MARGIN && !isEarlier)
      return refuse(
        `It is doubtful: with it, its sender says that ${claimed} messages left our addresses that day, but the account sent ${sent} at most. Does another program send from them?`,
      )
  }
  if (parts.length === 0) return refuse('It has no record with a valid address and count about the domain.')
  return { reporter, day, parts, uncounted: null }
}

/**
 * Who sent a report; undefined: nobody authenticated (RFC 9990 §5.1), for which a domain without a DMARC policy needs
 * SPF or DKIM. Subdomains are one sender, because anybody has any number of them.
 */
export function findReporter(
  { organisation }: Pick<AggregateReport, 'organisation'>,
  origin: ReportOrigin | undefined,
) {
  // It is printed in mails, and must not be a link there.
  if (origin === 'operator')
    return { name: organisation.replace(/[^\p{L}\p{N} .&-]+/gu, ' ').slice(0, 60), isProven: true }
  if (!origin) return undefined
  const { dmarc, spf, dkim, details } = origin
  const passed = dkim === 'pass' ? details.dkim.find(({ result }) => result === 'pass') : undefined
  const signer = spf === 'pass' ? details.spf.domain : passed?.domain
  const domain = dmarc === 'pass' ? details.dmarc.domain : dmarc === 'none' ? signer : undefined
  if (!domain) return undefined
  const isProven = dmarc === 'pass' && reporters.some((name) => isWithin(domain, name))
  return { name: findRegistrableDomain(domain) ?? domain, isProven }
}

export function findOwner(db: Database, hostname: string, domain: string): ReportOwner | undefined {
  let registered: ReportOwner | undefined
  for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1)) {
    const row = sql(db).byName.get(name)
    if (row?.isVerified) return { accountId: row.accountId, coveredBy: name }
    // Reports about the host's own mail name its hostname or the organisational domain above it.
    if (row || isWithin(hostname.toLowerCase(), name)) registered ??= { accountId: null, coveredBy: name }
  }
  return registered
}

/** A message can be received more than once when a reply to DATA is lost, or its recipients are at several hosts. */
const RETRY_FACTOR = 2
const RETRY_MARGIN = 10
/** Mail waits for up to some days before it is sent. */
const MAX_WAIT_DAYS = 5

const sql = prepareStatements((db) => ({
  // Several accounts may register a name; only one of them can have verified it.
  byName: db.prepare<{ accountId: number; isVerified: number }, [string]>(
    `SELECT account_id AS accountId, verified_at IS NOT NULL AS isVerified FROM domains
     WHERE domain = ? AND deleted_at IS NULL ORDER BY verified_at IS NULL, id LIMIT 1`,
  ),
  // Users of a large receiver's freemail have its name, too: their claims must not make its own reports doubtful.
  claimed: db.prepare<{ count: number }, [number, string, number, string, boolean]>(
    `SELECT total(count) AS count FROM report_rows
     WHERE account_id = ? AND domain = ? AND day = ? AND reporter = ? AND is_proven = ? AND is_from_us`,
  ),
  sent: db.prepare<{ sent: number }, [number, number, number]>(
    `SELECT total(sent) AS sent FROM daily_figures WHERE account_id = ? AND day BETWEEN ? AND ? AND domain = ''`,
  ),
}))

/** How many messages the account may have sent until then: at least as many as it did. */
const countSends = (db: Database, accountId: number, fromDay: number, end: Millis): number =>
  sql(db).sent.get(accountId, fromDay, dayOf(end) + 1)?.sent ?? 0

/** What tells our mail of the domain from that of others. */
function readSenderFacts({ config, cluster }: Pick<App, 'config' | 'cluster'>, domain: Domain) {
  const ofNodes = (cluster?.nodes() ?? []).flatMap((node) => node.outbound_ips)
  const ips = [...listOutboundIps(config.outboundIps), ...foundIpsOf(config).ips, ...ofNodes]
  const present = [domain.dkimSelector, domain.nextDkim?.selector].filter((selector) => selector !== undefined)
  const former = domain.formerDkim.map(({ selector }) => selector)
  const withEd25519 = (selectors: readonly string[], state: 'active' | 'former') =>
    selectors.flatMap((selector) => [selector, `${selector}e`].map((name) => [name, state] as const))
  return {
    domain: domain.domain,
    /** Its SPF record lists nothing but us. */
    returnPath: `${domain.sendingSubdomain}.${domain.domain}`,
    /** Empty when the system chooses. */
    ips: new Set(ips.map((ip) => normaliseIp(ip) ?? ip)),
    selectors: new Map([...withEd25519(former, 'former'), ...withEd25519(present, 'active')]),
    /** Whether other hosts send our mail for us: their addresses are not ours, and forwarders look like them. */
    isRelayed: config.delivery === 'relay',
  }
}

type SenderFacts = ReturnType<typeof readSenderFacts>
type ClassifiedRow = Pick<CountedRow, 'class' | 'cause' | 'sender' | 'isFromUs'>

function classifyRow(row: DmarcRow, facts: SenderFacts): ClassifiedRow {
  const { domain, returnPath, selectors } = facts
  const isAligned = row.isDkimAligned || row.isSpfAligned
  const own = row.dkim.filter((each) => isWithin(each.domain, domain))
  // Some reporters leave the selector out.
  const ours = own.filter(({ selector }) => selectors.has(selector) || (selector === '' && selectors.size > 0))
  const [signature = own[0]] = [...ours].sort((a, b) => Number(b.result === 'pass') - Number(a.result === 'pass'))
  const hasPassed = ours.some(({ selector, result }) => selectors.has(selector) && result === 'pass')
  const hasPassedSpf = row.spf.some((each) => each.domain === returnPath && each.result === 'pass')
  const isFromUs = facts.ips.has(row.sourceIp) || hasPassedSpf
  const asOurs = (cause: string): ClassifiedRow => {
    return { class: isAligned ? 'aligned' : 'broken', cause, sender: domain, isFromUs }
  }
  // With aspf=s, SPF passes, but the return path does not align.
  if (isFromUs && row.isDkimAligned) return asOurs(row.isSpfAligned || hasPassedSpf ? '' : 'spf_missing')
  if (hasPassed && !isAligned) return asOurs('alignment')
  if (isFromUs) return asOurs(findDkimCause(signature, selectors))
  if (hasPassed) return asOurs(facts.isRelayed ? '' : 'forwarded')
  if (!isAligned && ours.some((each) => selectors.has(each.selector)))
    return asOurs(ours.some(({ isKeyMissing }) => isKeyMissing) ? 'missing_key' : 'modified')
  const hasOurPath = [row.envelopeFrom, ...row.spf.map((each) => each.domain)].includes(returnPath)
  const isForwarded = row.reasons.some((reason) => /forward|mailing_list/.test(reason))
  if (!isAligned && hasOurPath && isForwarded) return asOurs('forwarder')
  const passed = [...row.dkim, ...row.spf].filter(({ result }) => result === 'pass').map((each) => each.domain)
  const service = passed.map(findService).find((name) => name !== undefined)
  const rest = { sender: service ?? passed[0] ?? '', isFromUs: false }
  if (isAligned) return { class: 'other', cause: '', ...rest }
  if (service !== undefined) return { class: 'service', cause: '', ...rest }
  return { class: 'foreign', cause: isForwarded ? 'list' : '', ...rest }
}

function findDkimCause(signature: DmarcRow['dkim'][number] | undefined, selectors: SenderFacts['selectors']): string {
  if (!signature) return 'unsigned'
  if (!selectors.has(signature.selector) && signature.selector !== '') return 'other_selector'
  if (selectors.get(signature.selector) === 'former') return 'old_selector'
  return signature.isKeyMissing || signature.result === 'permerror' ? 'missing_key' : 'dkim_failed'
}

const isWithin = (name: string, domain: string): boolean => `.${name}`.endsWith(`.${domain}`)

/** By registrable domain, of two labels each. */
const SERVICES = new Map(services.flatMap(({ name, domains }) => domains.map((domain) => [domain, name])))
const findService = (name: string): string | undefined => SERVICES.get(name.split('.').slice(-2).join('.'))

/** What the sessions of a TLS report lack. */
const NO_ROW = { sender: '', disposition: 'none', isFromUs: false, dkim: false, spf: false }

const toRows = ({ rows, sessions }: ReportRecords, facts: SenderFacts): CountedRow[] =>
  addUp([
    ...rows.map((row) => {
      const { sourceIp: source, disposition, isDkimAligned: dkim, isSpfAligned: spf, count } = row
      return { ...classifyRow(row, facts), source, disposition, dkim, spf, count }
    }),
    ...sessions.map(({ count, failure, receiver: source }) => {
      // A reporter may invent any number of causes.
      const cause = failure === '' || `tls.${failure}` in texts ? failure : 'unspecified'
      return { ...NO_ROW, class: failure === '' ? 'tls_ok' : 'tls_failed', cause, source, count }
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

/** The rows within a limit; the smallest beyond it are added up without their addresses, of senders only services stay. */
export const limitRows = (rows: readonly CountedRow[], max: number): readonly CountedRow[] => [
  ...rows.slice(0, max),
  ...addUp(rows.slice(max).map((row) => ({ ...row, source: '', sender: row.class === 'service' ? row.sender : '' }))),
]
