/**
 * @module What the counted reports of a domain mean: sums, sources, days, advice about the DMARC policy, and findings,
 * sentences ranked by how urgent they are. Fields are named as in the API; the mails to owners use the findings as well.
 */
import type { Database } from 'bun:sqlite'
import type { Domain } from '#features/setup/domains/domains.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { DMARC_CLASSES } from './assess.ts'
import texts from './texts.json' with { type: 'json' }

/** `bad` is mailed to the owners. */
export const FINDING_LEVELS = ['bad', 'warning', 'info', 'good'] as const
export const REPORT_CLASSES = [...DMARC_CLASSES, 'tls_ok', 'tls_failed'] as const

/** Account, domain, first and last day since the epoch. */
type Bound = readonly [accountId: number, domain: string, fromDay: number, toDay: number]

type Counts = Record<(typeof REPORT_CLASSES)[number], number>
type Counted<T> = T & { readonly count: number }
type Source = Counted<{ class: (typeof DMARC_CLASSES)[number]; cause: string; name: string; sender: string }> & {
  readonly addresses: number
  readonly rejected: number
  readonly last_day: string
}

const IS_TLS = "class IN ('tls_ok', 'tls_failed')"
const select = (columns: string, condition: string, order = 'count DESC, 1 LIMIT 100'): string =>
  `SELECT ${columns}, sum(count) AS count FROM report_rows WHERE account_id = ? AND domain = ? AND day BETWEEN ? AND ? ${condition}
   ORDER BY ${order}`
const toDate = (day: string): string => `date(${day} * 86400, 'unixepoch')`

const sql = prepareStatements((db) => ({
  // Services have many addresses, so each is one source.
  sources: db.prepare<Source, [...Bound]>(
    select(
      `class, cause, CASE WHEN class IN ('other', 'service') AND sender <> '' THEN sender ELSE source END AS name, max(sender) AS sender,
       count(DISTINCT source) AS addresses, sum(iif(disposition <> 'none', count, 0)) AS rejected, ${toDate('max(day)')} AS last_day`,
      `AND NOT ${IS_TLS} GROUP BY 1, 2, 3`,
    ),
  ),
  series: db.prepare<Counted<{ day: string; class: keyof Counts }>, [...Bound]>(
    select(`${toDate('day')} AS day, class`, 'GROUP BY report_rows.day, 2', '1'),
  ),
  // All, for the advice. There are few: causes and services are named by us.
  groups: db.prepare<Group, [...Bound]>(
    select(
      `class, iif(cause = 'forwarder', 'modified', cause) AS cause, iif(class = 'service', sender, '') AS name,
       sum(iif(is_proven, count, 0)) AS proven`,
      `AND NOT ${IS_TLS} GROUP BY 1, 2, 3`,
      'count DESC, 1',
    ),
  ),
  evidence: db.prepare<Evidence, [...Bound]>(
    `SELECT count(DISTINCT day) AS days, count(DISTINCT report_id) AS reports, total(count) AS count FROM report_rows
     WHERE account_id = ? AND domain = ? AND day BETWEEN ? AND ? AND is_proven AND class IN ('aligned', 'broken')`,
  ),
  providers: db.prepare<Counted<{ name: string; failed: number }>, [...Bound]>(
    select('reporter AS name, sum(iif(dkim, 0, count)) AS failed', 'AND is_from_us GROUP BY 1'),
  ),
  reporters: db.prepare<Counted<{ organisation: string; kind: string; reports: number }>, [...Bound]>(
    select(
      `reporter AS organisation, iif(${IS_TLS}, 'tls', 'dmarc') AS kind, count(DISTINCT report_id) AS reports`,
      'GROUP BY 1, 2',
    ),
  ),
  tls: db.prepare<Counted<{ cause: string; receiver: string; reporters: string }>, [...Bound]>(
    select(
      'cause, max(source) AS receiver, group_concat(DISTINCT reporter) AS reporters',
      "AND class = 'tls_failed' GROUP BY 1",
    ),
  ),
}))

const noCounts = () => Object.fromEntries(REPORT_CLASSES.map((name) => [name, 0])) as Counts

function readFacts(db: Database, { accountId, domain, dmarcPolicy }: Domain, ...days: [number, number]) {
  const bound: Bound = [accountId, domain, ...days]
  const totals = noCounts()
  const byDay = new Map<string, Counts & { day: string }>()
  for (const { day, class: kind, count } of sql(db).series.all(...bound)) {
    const counts = byDay.get(day) ?? { day, ...noCounts() }
    byDay.set(day, counts)
    counts[kind] += count
    totals[kind] += count
  }
  const groups = sql(db).groups.all(...bound)
  const evidence = sql(db).evidence.get(...bound) as Evidence
  const messages = DMARC_CLASSES.reduce((sum, name) => sum + totals[name], 0)
  const policy = JSON.parse(dmarcPolicy ?? '{}') as Policy
  // The policy that receivers apply.
  const level = Math.max(POLICIES.indexOf(policy['p'] as 'none') - Number(isWeakened(policy)), 0)
  return { bound, domain, totals, series: [...byDay.values()], groups, evidence, messages, policy, level }
}

type Facts = ReturnType<typeof readFacts>

export function summariseReports(db: Database, ...of: [Domain, fromDay: number, toDay: number]) {
  const facts = readFacts(db, ...of)
  const { bound, domain, totals, series, messages, policy } = facts
  const sources = sql(db)
    .sources.all(...bound)
    .map((source) => ({ ...source, text: fill(`causes.${source.cause}`) || fill(`classes.${source.class}`) }))
  const reporters = sql(db).reporters.all(...bound)
  const { tls_ok: ok, tls_failed: failed } = totals
  const failures = sql(db)
    .tls.all(...bound)
    .map(({ reporters: names, ...row }) => {
      const what = format(row.count, 'TLS session')
      const to = row.receiver && ` to ${row.receiver}`
      const meaning = fill(`tls.${row.cause}`)
      const by = names.split(',').slice(0, 3).join(', ')
      return { ...row, text: fill('findings.tls', { what, total: ok + failed, to, meaning, reporters: by }) }
    })
  const advice = advise(facts)
  const passed = totals.aligned + totals.other
  const total = fill('findings.total', { ...totals, count: messages, domain })
  const findings: ReportFinding[] = [
    ...failures.map(({ cause, count, text }) => toFinding(`tls:${cause}`, alarm(count, ok + failed), text)),
    ...sql(db)
      .providers.all(...bound)
      .filter((row) => row.failed >= ALERT_COUNT && row.failed >= row.count * DKIM_FRACTION)
      .map((row) => toFinding(`dkim:${row.name}`, 'bad', fill('findings.provider', { ...row, domain }))),
    ...sources.flatMap((source) => describeSource(source, facts)),
    ...(series.length === 0 ? [describeNone(of[0], policy)] : []),
    ...(messages > 0 ? [toFinding('total', passed === messages ? 'good' : 'info', total)] : []),
    ...(messages > 0 ? [toFinding('advice', 'info', advice.text)] : []),
  ]
  findings.sort((a, b) => FINDING_LEVELS.indexOf(a.level) - FINDING_LEVELS.indexOf(b.level))
  return { totals, sources, series, reporters, policy, advice, tls: { ok, failed, failures }, findings }
}

/** @param policy of the DMARC record, which may be that of a domain above; the DNS records then show it as it is */
function describeNone({ sendingSubdomain, domain, dmarcPolicy }: Domain, { rua = '' }: Policy) {
  const mailbox = `dmarc-reports@${sendingSubdomain}.`
  const isOurs = (to: string) => to.startsWith(mailbox) && `.${domain}`.endsWith(`.${to.slice(mailbox.length)}`)
  const asked = rua.split(/[,!\s]|mailto:/).find(isOurs)
  const name = asked ? 'asked' : dmarcPolicy === null ? 'unasked' : 'unnamed'
  return toFinding('none', 'info', fill(`findings.${name}`, { domain, address: asked ?? mailbox + domain }))
}

/** What proven reports say of our mail. */
type Evidence = Counted<{ readonly days: number; readonly reports: number }>
type SourceWithText = Source & { readonly text: string }

const POLICIES = ['none', 'quarantine', 'reject'] as const
type Policy = Readonly<Record<string, string>>
/** With t=y receivers apply the next weaker policy, with pct to a part of the mail. */
const isWeakened = ({ t, pct }: Policy): boolean => t === 'y' || Number(pct) < 100

/** @param key the same for the same cause at another time */
const toFinding = (key: string, level: (typeof FINDING_LEVELS)[number], text: string) => ({ key, level, text })
type ReportFinding = ReturnType<typeof toFinding>

/** From this fraction and number on, something foreign or broken is more than noise. */
const ALERT_FRACTION = 0.05
const ALERT_COUNT = 10
const isMany = (count: number, of: number): boolean => count >= ALERT_COUNT && count >= of * ALERT_FRACTION
const alarm = (count: number, of: number) => (isMany(count, of) ? 'bad' : 'warning')

const DKIM_FRACTION = 0.1

const format = (count: number, noun = 'message'): string =>
  `${count.toLocaleString('en-GB')} ${noun}${count === 1 ? '' : 's'}`

/** A text with values for its `{names}`, `what` is the count of messages; `''`: there is none. */
function fill(name: string, values: { readonly count?: number; readonly [name: string]: unknown } = {}): string {
  const all: Record<string, unknown> = { what: format(values.count ?? 0), id: '{id}', ...values }
  const toText = (value: unknown) => (typeof value === 'number' ? value.toLocaleString('en-GB') : String(value))
  const text = (texts as Readonly<Record<string, string>>)[name] ?? ''
  return text.replace(/\{(\w+)\}/g, (_, key: string) => toText(all[key]))
}

type Kind = Pick<Source, 'class' | 'cause'>
type Group = Counted<Kind & { readonly name: string; readonly proven: number }>

const isModified = ({ cause }: Kind): boolean => cause === 'modified' || cause === 'forwarder'
const isBrokenByUs = (group: Kind): boolean => group.class === 'broken' && !isModified(group)

function describeSource(source: SourceWithText, { domain, messages, level }: Facts): ReportFinding[] {
  const { class: kind, cause, count } = source
  const name = source.name || 'many addresses'
  const stops = fill(level === 0 ? 'stops.none' : 'stops.other', { policy: POLICIES[level] })
  const find = (text: string, level: ReportFinding['level'], key = `${text}:${name}`) => [
    toFinding(key, level, fill(`findings.${text}`, { count, name, domain, stops, meaning: source.text })),
  ]
  if (kind === 'service') return find('service', alarm(count, messages))
  if (kind === 'foreign' && cause === '')
    return isMany(count, messages) ? find('foreign', level === 0 ? 'bad' : 'info') : []
  if (isBrokenByUs(source)) return find('broken', alarm(count, messages), `broken:${cause}`)
  if (isModified(source)) return find('modified', 'info')
  if (cause === 'forwarded') return find('forwarded', 'info')
  return cause === 'spf_missing' ? find('spf_missing', 'warning') : []
}

const MIN_DAYS = 7
const MIN_REPORTS = 5
const MIN_MESSAGES = 50
/** Fewer failing messages, or a smaller fraction of the own ones, do not stand in the way. */
const TOLERATED_COUNT = 10
const TOLERATED_FRACTION = 0.01
/** What fails without our doing is lost with p=reject; so much with p=quarantine shows that the addresses are ours. */
const TOLERATED_MODIFIED = { quarantine: 0.1, reject: 0.02 }

/** Whether the policy may be raised to `next` (null: it is the strictest), and what must be done or known first. */
function advise({ domain, groups, evidence, totals: { aligned, broken }, messages, policy, level }: Facts) {
  const next = POLICIES[level + 1] as 'quarantine' | 'reject' | undefined
  const refuse = (text: string, missing: string[]) => ({ next: next ?? null, is_safe: false, text, missing })
  const isOpen = next === undefined && (policy['sp'] ?? 'reject') !== 'reject'
  if (next === undefined) return refuse(fill(isOpen ? 'advice.subdomains' : 'advice.strictest', policy), [])
  const unknown = fill('advice.unknown', { domain })
  if (messages === 0) return refuse(unknown, [unknown])
  // Those who write the other reports can add to what is of ours, but not hide what the proven ones say.
  const exceeds = ({ count, proven }: Group, fraction: number) =>
    (count >= TOLERATED_COUNT && count >= (aligned + broken) * fraction) ||
    (proven >= TOLERATED_COUNT && proven >= evidence.count * fraction)
  const describe = (kind: string, isWanted: (group: Group) => boolean, fraction = TOLERATED_FRACTION) =>
    groups
      .filter((group) => isWanted(group) && exceeds(group, fraction))
      .map((group) => fill(`advice.${kind}`, { ...group, domain, next, meaning: fill(`causes.${group.cause}`) }))
  const { days, reports, count } = evidence
  const few = { reports: format(reports, 'report'), count, min: `${MIN_REPORTS} about ${MIN_MESSAGES}` }
  const missing = [
    ...describe('service', (group) => group.class === 'service'),
    ...describe('broken', isBrokenByUs),
    ...describe('modified', isModified, TOLERATED_MODIFIED[next]),
    ...(days < MIN_DAYS ? [fill('advice.days', { days: format(days, 'day'), min: MIN_DAYS })] : []),
    ...(reports < MIN_REPORTS || count < MIN_MESSAGES ? [fill('advice.few', few)] : []),
  ]
  const [first] = missing
  if (first !== undefined) return refuse(fill('advice.unsafe', { next, first }), missing)
  const text = fill('advice.safe', { next }) + (isWeakened(policy) ? fill('advice.weakened') : '')
  return { next, is_safe: true, text, missing }
}
