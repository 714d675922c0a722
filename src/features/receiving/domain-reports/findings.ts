/**
 * @module What the counted reports of a domain mean: sums, sources, days, advice about the DMARC policy, and findings,
 * sentences ranked by how urgent they are. The API, `tassis doctor`, the mails to owners and the metrics all use them.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import { DKIM_CAUSES, type DmarcClass, type RowCause } from './classify.ts'

/** `bad` is mailed to the owners. */
export const FINDING_LEVELS = ['bad', 'warning', 'info', 'good'] as const

export interface ReportFinding {
  /** The same for the same cause at another time. */
  readonly key: string
  readonly level: (typeof FINDING_LEVELS)[number]
  readonly text: string
}

interface DomainPeriod {
  readonly accountId: number
  readonly domain: string
  /** Days since the epoch, both included. */
  readonly fromDay: number
  readonly toDay: number
}

interface Group {
  readonly class: DmarcClass
  readonly cause: RowCause
  /** Service, else address. */
  readonly name: string
  readonly sender: string
  readonly addresses: number
  readonly count: number
  readonly rejected: number
  readonly reporters: string
  readonly lastDay: number
}

const MAX_SOURCES = 100
const PERIOD = 'FROM report_rows WHERE account_id = ? AND domain = ? AND day BETWEEN ? AND ?'
const IS_TLS = "class IN ('tls_ok', 'tls_failed')"
type Bound = [number, string, number, number]

const sql = prepareStatements((db) => ({
  // Services have many addresses, so they are one source; so are all addresses from which our own mail leaves.
  sources: db.prepare<Group, Bound>(
    `SELECT class, cause, CASE WHEN class IN ('other', 'service') AND sender <> '' THEN sender ELSE source END AS name, max(sender) AS sender,
     count(DISTINCT source) AS addresses, sum(count) AS count, sum(CASE WHEN disposition <> 'none' THEN count ELSE 0 END) AS rejected,
     group_concat(DISTINCT organisation) AS reporters, max(day) AS lastDay
     ${PERIOD} AND NOT ${IS_TLS} GROUP BY 1, 2, 3 ORDER BY count DESC, name LIMIT ${MAX_SOURCES}`,
  ),
  classes: db.prepare<{ class: string; cause: string; count: number }, Bound>(
    `SELECT class, cause, sum(count) AS count ${PERIOD} GROUP BY 1, 2`,
  ),
  series: db.prepare<{ day: number; class: string; count: number }, Bound>(
    `SELECT day, class, sum(count) AS count ${PERIOD} GROUP BY 1, 2 ORDER BY 1`,
  ),
  providers: db.prepare<{ organisation: string; count: number; failed: number }, Bound>(
    `SELECT organisation, sum(count) AS count, sum(CASE WHEN dkim THEN 0 ELSE count END) AS failed ${PERIOD} AND is_from_us
     GROUP BY 1 ORDER BY count DESC LIMIT ${MAX_SOURCES}`,
  ),
  reporters: db.prepare<Reporter, Bound>(
    `SELECT organisation, CASE WHEN ${IS_TLS} THEN 'tls' ELSE 'dmarc' END AS kind, count(DISTINCT report_id) AS reports, sum(count) AS count
     ${PERIOD} GROUP BY 1, 2 ORDER BY count DESC LIMIT ${MAX_SOURCES}`,
  ),
  tls: db.prepare<TlsGroup, Bound>(
    `SELECT cause, max(source) AS receiver, sum(count) AS count, group_concat(DISTINCT organisation) AS reporters
     ${PERIOD} AND class = 'tls_failed' GROUP BY 1 ORDER BY count DESC LIMIT ${MAX_SOURCES}`,
  ),
  policy: db.prepare<{ policy: string }, [number, string]>(
    `SELECT policy FROM received_reports INDEXED BY received_reports_covered
     WHERE account_id = ? AND covered_by = ? AND domain = covered_by AND kind = 'dmarc' AND counted IS NOT NULL ORDER BY created_at DESC LIMIT 1`,
  ),
}))

interface Reporter {
  readonly organisation: string
  readonly kind: 'dmarc' | 'tls'
  readonly reports: number
  readonly count: number
}

interface TlsGroup {
  readonly cause: string
  readonly receiver: string
  readonly count: number
  readonly reporters: string
}

export interface ReportSummary {
  readonly totals: Readonly<Record<string, number>>
  readonly sources: readonly (Group & { readonly text: string })[]
  readonly series: readonly { readonly day: number; readonly counts: Readonly<Record<string, number>> }[]
  readonly reporters: readonly Reporter[]
  readonly policy: Readonly<Record<string, string>>
  readonly advice: Advice
  readonly tls: {
    readonly ok: number
    readonly failed: number
    readonly failures: readonly (TlsGroup & { text: string })[]
  }
  readonly findings: readonly ReportFinding[]
}

export interface Advice {
  /** The next stricter policy; null: there is none. */
  readonly next: 'quarantine' | 'reject' | null
  readonly isSafe: boolean
  readonly text: string
  /** What must be done or known first, sentences. */
  readonly missing: readonly string[]
}

export function summariseReports(db: Database, { accountId, domain, fromDay, toDay }: DomainPeriod): ReportSummary {
  const bound: Bound = [accountId, domain, fromDay, toDay]
  const all = sql(db)
  const totals: Record<string, number> = {}
  for (const row of all.classes.all(...bound)) totals[row.class] = (totals[row.class] ?? 0) + row.count
  const { tls_ok: ok = 0, tls_failed: failed = 0, ...classes } = totals
  const messages = Object.values(classes).reduce((sum, count) => sum + count, 0)
  const groups = all.sources.all(...bound)
  const series = [...Map.groupBy(all.series.all(...bound), ({ day }) => day)].map(([day, rows]) => ({
    day,
    counts: Object.fromEntries(rows.map((row) => [row.class, row.count])),
  }))
  const reporters = all.reporters.all(...bound)
  const policy = parsePolicy(all.policy.get(accountId, domain)?.policy)
  const failures = all.tls.all(...bound).map((row) => ({ ...row, text: describeTls(row, ok + failed) }))
  const dmarcDays = series.filter(({ counts }) => Object.keys(counts).some((name) => !name.startsWith('tls')))
  const reports = reporters.reduce((sum, row) => sum + (row.kind === 'dmarc' ? row.reports : 0), 0)
  const facts = { domain, groups, totals, messages, days: dmarcDays.length, reports, policy: policy['p'] ?? 'none' }
  const advice = advise(facts)
  const findings = [
    ...failures.map(({ cause, count, text }) =>
      toFinding(`tls:${cause}`, isMany(count, ok + failed) ? 'bad' : 'warning', text),
    ),
    ...all.providers.all(...bound).flatMap((row) => describeProvider(domain, row)),
    ...describeSources(facts),
    ...(messages > 0 ? [describeTotal(facts), toFinding('advice', 'info', advice.text)] : []),
  ]
  const rank = ({ level }: ReportFinding) => FINDING_LEVELS.indexOf(level)
  findings.sort((a, b) => rank(a) - rank(b))
  const sources = groups.map((group) => ({ ...group, text: MEANINGS[group.cause] ?? CLASS_MEANINGS[group.class] }))
  return { totals, sources, series, reporters, policy, advice, tls: { ok, failed, failures }, findings }
}

const parsePolicy = (json = '{}') => JSON.parse(json) as Readonly<Record<string, string>>

const toFinding = (key: string, level: ReportFinding['level'], text: string): ReportFinding => ({ key, level, text })

/** From this fraction and number on, something foreign or broken is more than noise. */
const ALERT_FRACTION = 0.05
const ALERT_COUNT = 100
const isMany = (count: number, of: number): boolean => count >= ALERT_COUNT && count >= of * ALERT_FRACTION

const format = (count: number, noun: string): string =>
  `${count.toLocaleString('en-GB')} ${noun}${count === 1 ? '' : 's'}`

const listNames = (names: string): string => names.split(',').slice(0, 3).join(', ')

/** What each result type of RFC 8460 §4.3 says about our side, and what to do. */
const TLS_CAUSES: Readonly<Record<string, string>> = {
  'starttls-not-supported':
    'the server did not offer STARTTLS. Set a certificate for port 25 (tassis doctor, certificates), and let no firewall change SMTP.',
  'certificate-expired': 'its certificate has expired. Renew it (tassis doctor, certificates).',
  'certificate-host-mismatch':
    'its certificate does not name this host. Use a certificate with the name to which the MX record points.',
  'certificate-not-trusted':
    'its certificate is of no trusted authority. Use one of a public authority, with all intermediate certificates.',
  'validation-failure': 'its TLS could not be validated. Test it with openssl s_client -starttls smtp.',
  'tlsa-invalid':
    'the TLSA record does not match its certificate. Publish a TLSA record of the present key, or remove it.',
  'dnssec-invalid': 'DNSSEC of the domain is broken. Repair the signatures, or remove the DS record.',
  'dane-required': 'the sender requires DANE, and there is no valid TLSA record. Publish one.',
  'sts-policy-fetch-error':
    'the MTA-STS policy could not be fetched. Serve it at https://mta-sts.DOMAIN/.well-known/mta-sts.txt.',
  'sts-policy-invalid': 'the MTA-STS policy is invalid. Correct the file, and change the id of the _mta-sts record.',
  'sts-webpki-invalid': 'the certificate of the MTA-STS policy host is invalid. Renew it.',
}

const describeTls = ({ cause, receiver, count, reporters }: TlsGroup, total: number): string =>
  `${format(count, 'TLS session')} of ${total.toLocaleString('en-GB')}${receiver === '' ? '' : ` to ${receiver}`} failed, because ${TLS_CAUSES[cause] ?? 'of a cause that the reports do not state.'} Mail of senders that require TLS was delayed or lost (reported by ${listNames(reporters)}).`

const MIN_DKIM_FAILURES = 20
const DKIM_FRACTION = 0.1

function describeProvider(
  domain: string,
  row: { organisation: string; count: number; failed: number },
): ReportFinding[] {
  const { organisation, count, failed } = row
  if (failed < MIN_DKIM_FAILURES || failed < count * DKIM_FRACTION) return []
  const text = `DKIM fails at ${organisation}: of ${format(count, 'message')} that we sent as ${domain}, ${failed.toLocaleString('en-GB')} had no valid aligned signature there. Check the DKIM records with POST /v1/domains/{id}/verify.`
  return [toFinding(`dkim:${organisation}`, 'bad', text)]
}

const CLASS_MEANINGS: Readonly<Record<DmarcClass, string>> = {
  aligned: 'Ours: passes DMARC.',
  broken: 'Ours: fails DMARC.',
  other: 'Sent elsewhere, correctly authenticated as the domain.',
  service:
    'A known service that does not authenticate as the domain. If you use it, set up its DKIM; else it is abuse.',
  foreign: 'Neither ours nor of a known service: probably abuse.',
}

const MEANINGS: Readonly<Partial<Record<RowCause, string>>> = {
  forwarded: 'Forwarded; our DKIM signature survived, so it passes. Nothing to do.',
  modified: 'Ours, changed on the way by a mailing list or forwarder, so that DKIM fails.',
  forwarder: 'Ours, forwarded without a valid DKIM signature.',
  list: 'From a mailing list or forwarder that does not keep a valid signature.',
  unsigned: 'Ours, but without a DKIM signature of the domain.',
  missing_key: 'Ours, but the receiver found no DKIM key. Publish the DKIM record again.',
  old_selector: 'Ours, signed with a former DKIM key. Leave its record in DNS until no mail with it is on its way.',
  other_selector: 'From our address, but signed with a DKIM key that is not ours.',
  dkim_failed:
    'Ours, but the DKIM signature is invalid: something changes mail after we sign it, or the record is wrong.',
  spf_missing: 'Ours; SPF fails. The SPF record of the return path lacks this address.',
}

interface Facts {
  readonly domain: string
  readonly groups: readonly Group[]
  readonly totals: Readonly<Record<string, number>>
  readonly messages: number
  /** With a counted report. */
  readonly days: number
  readonly reports: number
  readonly policy: string
}

const isBrokenByUs = (group: Group): boolean =>
  group.class === 'broken' && (DKIM_CAUSES.some((cause) => cause === group.cause) || group.cause === 'spf_missing')

function describeSources({ domain, groups, messages, policy }: Facts): ReportFinding[] {
  const stops =
    policy === 'none'
      ? 'p=quarantine or p=reject would stop such mail.'
      : `Receivers apply p=${policy} to it; there is nothing to do.`
  return groups.flatMap((group): ReportFinding[] => {
    const { class: kind, cause, name, count, addresses } = group
    const what = format(count, 'message')
    if (kind === 'service')
      return [
        toFinding(
          `service:${name}`,
          isMany(count, messages) ? 'bad' : 'warning',
          `${name} sent ${what} as ${domain} that fail DMARC: it is a legitimate service, perhaps a forgotten one. If you use it, set up its DKIM for ${domain} before you raise the policy; if not, this is abuse.`,
        ),
      ]
    if (kind === 'foreign' && cause === '' && isMany(count, messages))
      return [
        toFinding(
          `foreign:${name}`,
          policy === 'none' ? 'bad' : 'info',
          `${what} that claim to be from ${domain} came from ${name || 'many addresses'}, which is neither ours nor a known service, and all fail DMARC: somebody abuses the domain. ${stops}`,
        ),
      ]
    if (isBrokenByUs(group))
      return [
        toFinding(
          `broken:${cause}`,
          isMany(count, messages) ? 'bad' : 'warning',
          `${what} from ${name}. ${MEANINGS[cause]}`,
        ),
      ]
    if (cause === 'forwarded')
      return [
        toFinding(
          `forwarded:${name}`,
          'info',
          `${name} forwards mail of ${domain}: in ${what} our DKIM signature survived, so they pass DMARC. This is harmless.`,
        ),
      ]
    if (cause === 'modified' || cause === 'forwarder')
      return [
        toFinding(
          `modified:${name}`,
          'info',
          `${name} forwards mail of ${domain}, and our DKIM signature does not survive in ${what}: a mailing list or forwarder changes them. This is harmless while the policy is p=none; with p=reject such mail is lost.`,
        ),
      ]
    return cause === 'spf_missing' && addresses > 0
      ? [
          toFinding(
            `spf:${name}`,
            'warning',
            `SPF fails for ${what} from our address ${name}; DKIM passes. ${MEANINGS.spf_missing}`,
          ),
        ]
      : []
  })
}

function describeTotal({ domain, messages, totals }: Facts): ReportFinding {
  const { aligned = 0, broken = 0, other = 0 } = totals
  const ours = `${format(aligned, 'message')} of ours pass DMARC${broken > 0 ? ` and ${broken.toLocaleString('en-GB')} fail` : ''}`
  const level = aligned + other === messages ? 'good' : 'info'
  return toFinding('total', level, `Of ${format(messages, 'message')} as ${domain}, ${ours}.`)
}

const MIN_DAYS = 7
const MIN_REPORTS = 5
const MIN_MESSAGES = 50
/** Fewer failing messages, or a smaller fraction of the own ones, do not stand in the way. */
const TOLERATED_COUNT = 10
const TOLERATED_FRACTION = 0.01
/** With p=reject, forwarded mail that fails is lost. */
const TOLERATED_FORWARDED = 0.02

function advise({ domain, groups, totals, messages, days, reports, policy }: Facts): Advice {
  const next = policy === 'reject' ? null : policy === 'quarantine' ? 'reject' : 'quarantine'
  if (next === null)
    return {
      next,
      isSafe: false,
      missing: [],
      text: 'The policy is p=reject, the strictest: there is nothing to raise.',
    }
  if (messages === 0) {
    const text = `Nothing is known yet: no report about ${domain} was counted in this time. The DMARC record must have the rua address of the domain's records, and receivers send reports a day later.`
    return { next, isSafe: false, missing: [text], text }
  }
  const { aligned = 0, broken = 0, other = 0 } = totals
  const ours = aligned + broken + other
  const isTolerated = (count: number) => count < TOLERATED_COUNT || count < ours * TOLERATED_FRACTION
  const services = groups.filter((group) => group.class === 'service' && !isTolerated(group.count))
  const failing = Map.groupBy(groups.filter(isBrokenByUs), ({ cause }) => cause)
  const modified = groups.filter(({ cause }) => cause === 'modified' || cause === 'forwarder')
  const lost = modified.reduce((sum, { count }) => sum + count, 0)
  const missing = [
    ...services.map(
      ({ name, count }) =>
        `Set up DKIM for ${domain} at ${name} first, or make sure that it is not yours: ${format(count, 'message')} of it fail.`,
    ),
    ...[...failing].flatMap(([cause, rows]) => {
      const count = rows.reduce((sum, row) => sum + row.count, 0)
      return isTolerated(count) ? [] : [`Mend our own mail first: ${format(count, 'message')}. ${MEANINGS[cause]}`]
    }),
    ...(next === 'reject' && lost > ours * TOLERATED_FORWARDED
      ? [`${format(lost, 'message')} that were changed on the way would be lost with p=reject.`]
      : []),
    ...(days < MIN_DAYS ? [`Reports cover ${format(days, 'day')}; wait until they cover ${MIN_DAYS}.`] : []),
    ...(reports < MIN_REPORTS || ours < MIN_MESSAGES
      ? [
          `${format(reports, 'report')} about ${format(ours, 'own message')} are too few to judge by; wait for ${MIN_REPORTS} about ${MIN_MESSAGES}.`,
        ]
      : []),
  ]
  const isSafe = missing.length === 0
  const text = isSafe ? `It is safe to go to p=${next}.` : `Do not go to p=${next} yet. ${missing[0]}`
  return { next, isSafe, missing, text }
}
