/**
 * @module What the counted reports of a domain mean: sums, sources, days, advice about the DMARC policy, and findings,
 * sentences ranked by how urgent they are. The API, `tassis doctor`, the mails to owners and the metrics all use them.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import { DKIM_CAUSES, type DmarcClass } from './classify.ts'
import texts from './texts.json' with { type: 'json' }

/** `bad` is mailed to the owners. */
export const FINDING_LEVELS = ['bad', 'warning', 'info', 'good'] as const

export interface ReportFinding {
  /** The same for the same cause at another time. */
  readonly key: string
  readonly level: (typeof FINDING_LEVELS)[number]
  readonly text: string
}

/** Account, domain, first and last day since the epoch. */
type Bound = readonly [accountId: number, domain: string, fromDay: number, toDay: number]

type Counted<T> = T & { readonly count: number }
type Group = Counted<{ class: DmarcClass; cause: string; name: string; sender: string; addresses: number }> & {
  readonly rejected: number
  readonly lastDay: number
}
type TlsGroup = Counted<{ cause: string; receiver: string; reporters: string }>

const MAX_GROUPS = 100
const IS_TLS = "class IN ('tls_ok', 'tls_failed')"
const select = (columns: string, condition: string, order: string): string =>
  `SELECT ${columns}, sum(count) AS count FROM report_rows WHERE account_id = ? AND domain = ? AND day BETWEEN ? AND ? ${condition}
   ORDER BY ${order}`
const LARGEST = `count DESC, 1 LIMIT ${MAX_GROUPS}`

const sql = prepareStatements((db) => ({
  // Services have many addresses, so each is one source.
  sources: db.prepare<Group, [...Bound]>(
    select(
      `class, cause, CASE WHEN class IN ('other', 'service') AND sender <> '' THEN sender ELSE source END AS name, max(sender) AS sender,
       count(DISTINCT source) AS addresses, sum(CASE WHEN disposition <> 'none' THEN count ELSE 0 END) AS rejected, max(day) AS lastDay`,
      `AND NOT ${IS_TLS} GROUP BY 1, 2, 3`,
      LARGEST,
    ),
  ),
  series: db.prepare<Counted<{ day: number; class: string }>, [...Bound]>(select('day, class', 'GROUP BY 1, 2', '1')),
  providers: db.prepare<Counted<{ name: string; failed: number }>, [...Bound]>(
    select('organisation AS name, sum(iif(dkim, 0, count)) AS failed', 'AND is_from_us GROUP BY 1', LARGEST),
  ),
  reporters: db.prepare<Counted<{ organisation: string; kind: string; reports: number }>, [...Bound]>(
    select(
      `organisation, iif(${IS_TLS}, 'tls', 'dmarc') AS kind, count(DISTINCT report_id) AS reports`,
      'GROUP BY 1, 2',
      LARGEST,
    ),
  ),
  tls: db.prepare<TlsGroup, [...Bound]>(
    select(
      'cause, max(source) AS receiver, group_concat(DISTINCT organisation) AS reporters',
      "AND class = 'tls_failed' GROUP BY 1",
      LARGEST,
    ),
  ),
  policy: db.prepare<{ policy: string }, [number, string]>(
    `SELECT policy FROM received_reports INDEXED BY received_reports_covered
     WHERE account_id = ? AND covered_by = ? AND domain = covered_by AND kind = 'dmarc' AND counted IS NOT NULL ORDER BY created_at DESC LIMIT 1`,
  ),
}))

export function summariseReports(db: Database, ...bound: Bound) {
  const domain = bound[1]
  const days = sql(db).series.all(...bound)
  const totals: Record<string, number> = {}
  for (const row of days) totals[row.class] = (totals[row.class] ?? 0) + row.count
  const { tls_ok: ok = 0, tls_failed: failed = 0, ...classes } = totals
  const groups = sql(db).sources.all(...bound)
  const series = [...Map.groupBy(days, ({ day }) => day)].map(([day, rows]) => ({
    day,
    counts: Object.fromEntries(rows.map((row) => [row.class, row.count])),
  }))
  const reporters = sql(db).reporters.all(...bound)
  const policy = JSON.parse(sql(db).policy.get(bound[0], domain)?.policy ?? '{}') as Record<string, string>
  const facts: Facts = {
    domain,
    groups,
    totals,
    messages: Object.values(classes).reduce((sum, count) => sum + count, 0),
    days: new Set(days.flatMap((row) => (row.class.startsWith('tls') ? [] : [row.day]))).size,
    reports: reporters.reduce((sum, row) => sum + (row.kind === 'dmarc' ? row.reports : 0), 0),
    policy: policy['p'] ?? 'none',
  }
  const failures = sql(db)
    .tls.all(...bound)
    .map((row) => ({ ...row, text: describeTls(row, ok + failed) }))
  const advice = advise(facts)
  const findings: ReportFinding[] = [
    ...failures.map(({ cause, count, text }) => toFinding(`tls:${cause}`, alarm(count, ok + failed), text)),
    ...sql(db)
      .providers.all(...bound)
      .filter((row) => row.failed >= MIN_DKIM_FAILURES && row.failed >= row.count * DKIM_FRACTION)
      .map((row) => toFinding(`dkim:${row.name}`, 'bad', fill('findings.provider', { ...row, domain }))),
    ...groups.flatMap((group) => describeSource(group, facts)),
    ...(facts.messages > 0 ? [describeTotal(facts), toFinding('advice', 'info', advice.text)] : []),
  ]
  findings.sort((a, b) => FINDING_LEVELS.indexOf(a.level) - FINDING_LEVELS.indexOf(b.level))
  const sources = groups.map((group) => ({ ...group, text: describeMeaning(group) }))
  return { totals, sources, series, reporters, policy, advice, tls: { ok, failed, failures }, findings }
}

interface Facts {
  readonly domain: string
  readonly groups: readonly Group[]
  /** By class. */
  readonly totals: Readonly<Record<string, number>>
  readonly messages: number
  /** With a counted DMARC report. */
  readonly days: number
  readonly reports: number
  readonly policy: string
}

const toFinding = (key: string, level: ReportFinding['level'], text: string): ReportFinding => ({ key, level, text })

/** From this fraction and number on, something foreign or broken is more than noise. */
const ALERT_FRACTION = 0.05
const ALERT_COUNT = 100
const isMany = (count: number, of: number): boolean => count >= ALERT_COUNT && count >= of * ALERT_FRACTION
const alarm = (count: number, of: number) => (isMany(count, of) ? 'bad' : 'warning')

const MIN_DKIM_FAILURES = 20
const DKIM_FRACTION = 0.1

const format = (count: number, noun = 'message'): string =>
  `${count.toLocaleString('en-GB')} ${noun}${count === 1 ? '' : 's'}`

const TEXTS: Readonly<Record<string, Readonly<Record<string, string>>>> = texts

/** A text with values for its `{names}`; `what` is the count of messages. */
function fill(path: string, values: { readonly count?: number; readonly [name: string]: unknown }): string {
  const [part = '', name = ''] = path.split('.')
  const all: Record<string, unknown> = { what: format(values.count ?? 0), id: '{id}', ...values }
  const toText = (value: unknown) => (typeof value === 'number' ? value.toLocaleString('en-GB') : String(value))
  return (TEXTS[part]?.[name] ?? '').replace(/\{(\w+)\}/g, (_, key: string) => toText(all[key]))
}

function describeTls({ cause, receiver, count, reporters }: TlsGroup, total: number): string {
  const meaning = TEXTS['tls']?.[cause] ?? texts.tls.unspecified
  const to = receiver && ` to ${receiver}`
  const names = reporters.split(',').slice(0, 3).join(', ')
  return fill('findings.tls', { what: format(count, 'TLS session'), total, to, meaning, reporters: names })
}

const describeMeaning = ({ class: kind, cause }: Pick<Group, 'class' | 'cause'>): string =>
  TEXTS['causes']?.[cause] ?? texts.classes[kind]

const isBrokenByUs = ({ class: kind, cause }: Group): boolean =>
  kind === 'broken' && DKIM_CAUSES.some((each) => each === cause)
const isModified = ({ cause }: Group): boolean => cause === 'modified' || cause === 'forwarder'

function describeSource(group: Group, { domain, messages, policy }: Facts): ReportFinding[] {
  const { class: kind, cause, count } = group
  const name = group.name || 'many addresses'
  const stops = fill(policy === 'none' ? 'stops.none' : 'stops.other', { policy })
  const find = (text: string, level: ReportFinding['level'], key = `${text}:${name}`) => [
    toFinding(key, level, fill(`findings.${text}`, { count, name, domain, stops, meaning: describeMeaning(group) })),
  ]
  if (kind === 'service') return find('service', alarm(count, messages))
  if (kind === 'foreign' && cause === '')
    return isMany(count, messages) ? find('foreign', policy === 'none' ? 'bad' : 'info') : []
  if (isBrokenByUs(group)) return find('broken', alarm(count, messages), `broken:${cause}`)
  if (isModified(group)) return find('modified', 'info')
  if (cause === 'forwarded') return find('forwarded', 'info')
  return cause === 'spf_missing' ? find('spf_missing', 'warning') : []
}

function describeTotal({ domain, messages, totals }: Facts): ReportFinding {
  const { aligned = 0, broken = 0, other = 0 } = totals
  const text = fill('findings.total', { count: messages, domain, aligned, broken })
  return toFinding('total', aligned + other === messages ? 'good' : 'info', text)
}

const MIN_DAYS = 7
const MIN_REPORTS = 5
const MIN_MESSAGES = 50
/** Fewer failing messages, or a smaller fraction of the own ones, do not stand in the way. */
const TOLERATED_COUNT = 10
const TOLERATED_FRACTION = 0.01
/** With p=reject, forwarded mail that fails is lost. */
const TOLERATED_FORWARDED = 0.02

/** Whether the policy may be raised to `next` (null: it is the strictest), and what must be done or known first. */
function advise({ domain, groups, totals, messages, days, reports, policy }: Facts) {
  const next = policy === 'reject' ? null : policy === 'quarantine' ? 'reject' : 'quarantine'
  const refuse = (text: string, missing: string[]) => ({ next, isSafe: false, text, missing })
  if (next === null) return refuse(texts.advice.strictest, [])
  const unknown = fill('advice.unknown', { domain })
  if (messages === 0) return refuse(unknown, [unknown])
  const { aligned = 0, broken = 0, other = 0 } = totals
  const ours = aligned + broken + other
  const isSerious = ({ count }: Group) => count >= TOLERATED_COUNT && count >= ours * TOLERATED_FRACTION
  const lost = groups.filter(isModified).reduce((sum, { count }) => sum + count, 0)
  const describe = (kind: string) => (group: Group) =>
    fill(`advice.${kind}`, { ...group, domain, meaning: describeMeaning(group) })
  const missing = [
    ...groups.filter((group) => group.class === 'service' && isSerious(group)).map(describe('service')),
    ...groups.filter((group) => isBrokenByUs(group) && isSerious(group)).map(describe('broken')),
    ...(next === 'reject' && lost > ours * TOLERATED_FORWARDED ? [fill('advice.modified', { count: lost })] : []),
    ...(days < MIN_DAYS ? [fill('advice.days', { days: format(days, 'day'), min: MIN_DAYS })] : []),
    ...(reports < MIN_REPORTS || ours < MIN_MESSAGES
      ? [
          fill('advice.few', {
            reports: format(reports, 'report'),
            count: ours,
            min: `${MIN_REPORTS} about ${MIN_MESSAGES}`,
          }),
        ]
      : []),
  ]
  const [first] = missing
  if (first !== undefined) return refuse(fill('advice.unsafe', { next, first }), missing)
  return { next, isSafe: true, text: fill('advice.safe', { next }), missing }
}
