/**
 * @module What the counted reports of a domain mean: sums, sources, days, advice about the DMARC policy, and findings,
 * sentences ranked by how urgent they are. Fields are named as in the API; the mails to owners use the findings as well.
 */
import type { Database } from 'bun:sqlite'
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
    select(`${toDate('day')} AS day, class`, 'GROUP BY 1, 2', '1'),
  ),
  providers: db.prepare<Counted<{ name: string; failed: number }>, [...Bound]>(
    select('organisation AS name, sum(iif(dkim, 0, count)) AS failed', 'AND is_from_us GROUP BY 1'),
  ),
  reporters: db.prepare<Counted<{ organisation: string; kind: string; reports: number }>, [...Bound]>(
    select(
      `organisation, iif(${IS_TLS}, 'tls', 'dmarc') AS kind, count(DISTINCT report_id) AS reports`,
      'GROUP BY 1, 2',
    ),
  ),
  tls: db.prepare<Counted<{ cause: string; receiver: string; reporters: string }>, [...Bound]>(
    select(
      'cause, max(source) AS receiver, group_concat(DISTINCT organisation) AS reporters',
      "AND class = 'tls_failed' GROUP BY 1",
    ),
  ),
  policy: db.prepare<{ policy: string }, [number, string]>(
    `SELECT policy FROM received_reports INDEXED BY received_reports_covered
     WHERE account_id = ? AND covered_by = ? AND domain = covered_by AND kind = 'dmarc' AND counted IS NOT NULL ORDER BY created_at DESC LIMIT 1`,
  ),
}))

const noCounts = () => Object.fromEntries(REPORT_CLASSES.map((name) => [name, 0])) as Counts

export function summariseReports(db: Database, ...bound: Bound) {
  const domain = bound[1]
  const totals = noCounts()
  const byDay = new Map<string, Counts & { day: string }>()
  for (const { day, class: kind, count } of sql(db).series.all(...bound)) {
    const counts = byDay.get(day) ?? { day, ...noCounts() }
    byDay.set(day, counts)
    counts[kind] += count
    totals[kind] += count
  }
  const series = [...byDay.values()]
  const sources = sql(db)
    .sources.all(...bound)
    .map((source) => ({ ...source, text: fill(`causes.${source.cause}`) || fill(`classes.${source.class}`) }))
  const reporters = sql(db).reporters.all(...bound)
  const policy = JSON.parse(sql(db).policy.get(bound[0], domain)?.policy ?? '{}') as Record<string, string>
  const countDmarc = (counts: Counts) => DMARC_CLASSES.reduce((sum, name) => sum + counts[name], 0)
  const facts: Facts = {
    domain,
    sources,
    totals,
    messages: countDmarc(totals),
    days: series.filter((counts) => countDmarc(counts) > 0).length,
    reports: reporters.reduce((sum, row) => sum + (row.kind === 'dmarc' ? row.reports : 0), 0),
    policy: policy['p'] ?? 'none',
  }
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
  const findings: ReportFinding[] = [
    ...failures.map(({ cause, count, text }) => toFinding(`tls:${cause}`, alarm(count, ok + failed), text)),
    ...sql(db)
      .providers.all(...bound)
      .filter((row) => row.failed >= MIN_DKIM_FAILURES && row.failed >= row.count * DKIM_FRACTION)
      .map((row) => toFinding(`dkim:${row.name}`, 'bad', fill('findings.provider', { ...row, domain }))),
    ...sources.flatMap((source) => describeSource(source, facts)),
    ...(facts.messages > 0 ? [describeTotal(facts), toFinding('advice', 'info', advice.text)] : []),
  ]
  findings.sort((a, b) => FINDING_LEVELS.indexOf(a.level) - FINDING_LEVELS.indexOf(b.level))
  return { totals, sources, series, reporters, policy, advice, tls: { ok, failed, failures }, findings }
}

type SourceWithText = Source & { readonly text: string }

interface Facts {
  readonly domain: string
  readonly sources: readonly SourceWithText[]
  readonly totals: Counts
  readonly messages: number
  /** With a counted DMARC report. */
  readonly days: number
  readonly reports: number
  readonly policy: string
}

/** @param key the same for the same cause at another time */
const toFinding = (key: string, level: (typeof FINDING_LEVELS)[number], text: string) => ({ key, level, text })
type ReportFinding = ReturnType<typeof toFinding>

/** From this fraction and number on, something foreign or broken is more than noise. */
const ALERT_FRACTION = 0.05
const ALERT_COUNT = 100
const isMany = (count: number, of: number): boolean => count >= ALERT_COUNT && count >= of * ALERT_FRACTION
const alarm = (count: number, of: number) => (isMany(count, of) ? 'bad' : 'warning')

const MIN_DKIM_FAILURES = 20
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

const isModified = ({ cause }: Source): boolean => cause === 'modified' || cause === 'forwarder'
const isBrokenByUs = (source: Source): boolean => source.class === 'broken' && !isModified(source)

function describeSource(source: SourceWithText, { domain, messages, policy }: Facts): ReportFinding[] {
  const { class: kind, cause, count } = source
  const name = source.name || 'many addresses'
  const stops = fill(policy === 'none' ? 'stops.none' : 'stops.other', { policy })
  const find = (text: string, level: ReportFinding['level'], key = `${text}:${name}`) => [
    toFinding(key, level, fill(`findings.${text}`, { count, name, domain, stops, meaning: source.text })),
  ]
  if (kind === 'service') return find('service', alarm(count, messages))
  if (kind === 'foreign' && cause === '')
    return isMany(count, messages) ? find('foreign', policy === 'none' ? 'bad' : 'info') : []
  if (isBrokenByUs(source)) return find('broken', alarm(count, messages), `broken:${cause}`)
  if (isModified(source)) return find('modified', 'info')
  if (cause === 'forwarded') return find('forwarded', 'info')
  return cause === 'spf_missing' ? find('spf_missing', 'warning') : []
}

function describeTotal({ domain, messages, totals: { aligned, broken, other } }: Facts): ReportFinding {
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
function advise({ domain, sources, totals: { aligned, broken, other }, messages, days, reports, policy }: Facts) {
  const next = policy === 'reject' ? null : policy === 'quarantine' ? 'reject' : 'quarantine'
  const refuse = (text: string, missing: string[]) => ({ next, is_safe: false, text, missing })
  if (next === null) return refuse(fill('advice.strictest'), [])
  const unknown = fill('advice.unknown', { domain })
  if (messages === 0) return refuse(unknown, [unknown])
  const ours = aligned + broken + other
  const lost = sources.filter(isModified).reduce((sum, { count }) => sum + count, 0)
  const serious = sources.filter(({ count }) => count >= TOLERATED_COUNT && count >= ours * TOLERATED_FRACTION)
  const describe = (kind: string, rows: readonly SourceWithText[]) =>
    rows.map((row) => fill(`advice.${kind}`, { ...row, domain, meaning: row.text }))
  const few = { reports: format(reports, 'report'), count: ours, min: `${MIN_REPORTS} about ${MIN_MESSAGES}` }
  const missing = [
    ...describe(
      'service',
      serious.filter((row) => row.class === 'service'),
    ),
    ...describe('broken', serious.filter(isBrokenByUs)),
    ...(next === 'reject' && lost > ours * TOLERATED_FORWARDED ? [fill('advice.modified', { count: lost })] : []),
    ...(days < MIN_DAYS ? [fill('advice.days', { days: format(days, 'day'), min: MIN_DAYS })] : []),
    ...(reports < MIN_REPORTS || ours < MIN_MESSAGES ? [fill('advice.few', few)] : []),
  ]
  const [first] = missing
  if (first !== undefined) return refuse(fill('advice.unsafe', { next, first }), missing)
  return { next, is_safe: true, text: fill('advice.safe', { next }), missing }
}
