/**
 * @module The state of what a rule demands, by what this service itself knows: DNS as it was last checked, counters, the
 * last run of `tassis doctor`, and what Tassis does with every message. What none of them can see is `unknown`, never
 * `met`. Asks nobody. The texts are in rules.json.
 * Counters are those of the account: they do not tell its domains apart.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { ALL_DOMAINS, type DailyStats, dayOf, domainOfAddress } from '#features/core/events/daily-stats.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { isForwarding } from '#features/receiving/route-rules/rows.ts'
import { STATS_SUMS } from '#features/reporting/analytics/stats.ts'
import type { Domain } from '#features/setup/domains/domains.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { days, type Millis } from '#platform/units.ts'
import { readModulusBits } from '#protocols/dkim/keys.ts'
import { canConnectTo } from '#protocols/dns/special-addresses.ts'
import { readSndsReport } from './receiver-data.ts'
import rules from './rules.json' with { type: 'json' }

/** The worst last. */
export const RULE_STATES = ['not_applicable', 'met', 'unknown', 'at_risk', 'broken'] as const
export type RuleState = (typeof RULE_STATES)[number]

export interface Verdict {
  readonly state: RuleState
  readonly witness: 'dns' | 'counters' | 'doctor' | 'tassis' | 'dmarc_reports' | 'google' | 'snds' | 'nobody'
  /** A sentence with figures. */
  readonly evidence: string
  /** When the witness saw it, RFC 3339; null: now, or never. */
  readonly seen_at: string | null
}

/** What `app` passes in, because it is made elsewhere. */
export interface RuleWitnesses {
  /** The outgoing addresses in use, as reverse DNS was last checked. */
  readonly sources: () => readonly { ip: string; ehloName: string; problem: string | undefined; isChecked: boolean }[]
  /** The last run of `tassis doctor` in this process. */
  readonly doctor: () => { checked_at: string | null; findings: readonly Finding[] } | undefined
}
type Finding = Readonly<{ check: string; status: 'ok' | 'warning' | 'failure' | 'skipped'; message: string }>

export interface Facts {
  readonly app: Pick<App, 'db' | 'config'>
  readonly witnesses: RuleWitnesses
  readonly now: Millis
  /** The domain whose records authenticate the mail. */
  readonly domain: Domain
}
export type Receiver = (typeof rules.receivers)[number]
type Reader = (facts: Facts, receiver: Receiver) => Verdict

/** What is older says nothing about today. */
export const MAX_AGE_MS = days(3)
/** Recipients or messages without which a rate means nothing; and deliveries of which a single complaint is at most 0.1 %. */
const [MIN_RECIPIENTS, MIN_FOR_COMPLAINTS] = [100, 1000]

type TextName = keyof typeof rules.texts
type Values = Readonly<Record<string, unknown>>

export const fill = (text: TextName, values: Values): string =>
  rules.texts[text].replace(/\{(\w+)\}/g, (_, name: string) => String(values[name]))

export const say = (
  state: RuleState,
  witness: Verdict['witness'],
  text: TextName,
  values: Values = {},
  seen_at: string | null = null,
): Verdict => ({ state, witness, evidence: fill(text, values), seen_at })

/** @param risk, broken the rates from which it is at risk or broken */
const judgeRate = (rate: number, risk: number, broken: number): RuleState =>
  rate >= broken ? 'broken' : rate >= risk ? 'at_risk' : 'met'
/** The rates that Gmail names. */
export const judgeComplaints = (rate: number): RuleState => judgeRate(rate, 0.001, 0.003)
const percent = (rate: number): string => `${(rate * 100).toFixed(2)} %`

/** By the flag that the last DNS check set. */
const readDns =
  (key: 'spf' | 'dkim' | 'dmarc' | 'return_path'): Reader =>
  ({ app, domain: { domain, sendingSubdomain, dkimSelector: selector, checkedAt, verified, failing }, now }) => {
    // Receivers apply SPF to the addresses of the relay.
    if (key === 'spf' && app.config.delivery !== 'direct') return say('unknown', 'nobody', 'relay')
    const seenAt = isoTimeOrNull(checkedAt)
    if (checkedAt === null) return say('unknown', 'dns', 'dns unchecked', { domain })
    if (now - checkedAt > MAX_AGE_MS) return say('unknown', 'dns', 'dns old', { domain }, seenAt)
    const lost = verified[key] && failing[key]
    if (lost) return say('at_risk', 'dns', 'dns failing', { since: isoTime(lost.since), looks: lost.looks }, seenAt)
    const state = verified[key] ? 'met' : 'broken'
    return say(state, 'dns', `${key} ${state}`, { domain, selector, host: `${sendingSubdomain}.${domain}` }, seenAt)
  }
const [readSpf, readDkim] = [readDns('spf'), readDns('dkim')]

const readKey =
  (minBits: number): Reader =>
  ({ domain: { dkimPublicKey, dkimSelector: selector } }) => {
    const bits = readModulusBits(dkimPublicKey)
    return say(bits < minBits ? 'broken' : 'met', 'tassis', 'key', { selector, bits })
  }

/** By what `tassis doctor` found. `warning`: what a warning of this check means for the rule. */
function readDoctor({ witnesses }: Facts, check: string, warning: RuleState): Verdict {
  const { findings = [], checked_at: seenAt = null } = witnesses.doctor() ?? {}
  const states = { failure: 'broken', warning, ok: 'met', skipped: 'unknown' } as const
  for (const [status, state] of Object.entries(states)) {
    const found = findings.filter((finding) => finding.check === check && finding.status === status).slice(0, 5)
    const problem = found.map(({ message }) => message).join(' ')
    if (problem !== '') return say(state, 'doctor', 'problem', { problem }, seenAt)
  }
  return say('unknown', 'doctor', 'doctor unrun')
}

type Source = ReturnType<RuleWitnesses['sources']>[number]

/** The worst verdict about the public outgoing addresses, if receivers see those; without advice, which `fix` gives. */
const readSources =
  (judge: (source: Source) => readonly [RuleState, TextName]): Reader =>
  ({ app: { config }, witnesses }) => {
    if (config.delivery !== 'direct') return say('unknown', 'doctor', 'relay')
    const sources = witnesses.sources().filter(({ ip }) => canConnectTo(ip, config.allowPrivateNetworks))
    const verdicts = sources.map((source) => {
      const isKnown = source.isChecked || source.problem !== undefined
      const [state, text] = isKnown ? judge(source) : (['unknown', 'ptr unanswered'] as const)
      return say(state, 'doctor', text, { ...source, problem: source.problem?.replace(/\. .*/, '.') })
    })
    const [worst] = RULE_STATES.toReversed().flatMap((state) => verdicts.filter((one) => one.state === state))
    if (!worst) return say('unknown', 'doctor', 'no source')
    return { ...worst, seen_at: witnesses.doctor()?.checked_at ?? null }
  }

/** Names that providers give to all of their addresses repeat most of the IPv4 address, or say what network it is. */
function isGenericName(name: string, ip: string): boolean {
  const parts = ip.split('.').map(Number)
  const numbers = name.split(/\D+/).filter((digits) => digits !== '' && parts.includes(Number(digits)))
  return numbers.length >= 3 || name.split(/[.\d-]+/).some((word) => rules.generic_names.includes(word))
}

/** `not_applicable` without mail that can be unsubscribed from, as far as its sender has said so. */
const readUnsubscribe =
  (text: 'one_click' | 'unsubscribe_honoured'): Reader =>
  ({ app: { db, config }, domain: { id, accountId }, now }) => {
    const values = { ...readMarketing(db, accountId, id), ...readStats(db, accountId, now) }
    if (values.emails === 0) return say('unknown', 'counters', 'no mail')
    if (values.marketing === 0) return say('not_applicable', 'counters', 'transactional', values)
    return text === 'one_click' && !config.publicUrl.startsWith('https:')
      ? say('broken', 'counters', 'not https', values)
      : say('met', 'counters', text, values)
  }

/** Receivers tell complaints only through a feedback loop; without one, none that we know of does not mean none. */
const readComplaints: Reader = ({ app: { db }, domain: { accountId }, now }, receiver) => {
  const { name, domains, feedback_loop: loop } = receiver
  const { delivered, complaints } = readStats(db, accountId, now, domains)
  const values = { name, delivered, complaints, rate: percent(complaints / delivered), min: MIN_RECIPIENTS }
  if (delivered < MIN_RECIPIENTS) return say('unknown', 'counters', 'complaints few', values)
  const state = judgeComplaints(complaints / delivered)
  const lastAt = loop === '' ? null : findLastReport(db, accountId, now, loop)
  return state === 'met' && (lastAt === null || delivered < MIN_FOR_COMPLAINTS)
    ? say('unknown', 'counters', 'complaints untold', values)
    : say(state, 'counters', 'complaints', values, isoTimeOrNull(lastAt))
}

const readBounces: Reader = ({ app: { db }, domain: { accountId }, now }, { name, domains }) => {
  const { delivered, bounced } = readStats(db, accountId, now, domains)
  const [all, rate] = [delivered + bounced, bounced / (delivered + bounced)]
  if (all < MIN_RECIPIENTS)
    return say('unknown', 'counters', 'bounces few', { bounced, all, name, min: MIN_RECIPIENTS })
  return say(judgeRate(rate, 0.05, 0.1), 'counters', 'bounces', { bounced, all, name, rate: percent(rate) })
}

const readTls: Reader = ({ app: { db, config }, domain }, { name, domains }) => {
  if (config.delivery !== 'direct') return say('unknown', 'nobody', 'relay')
  const { all, encrypted } = countEncrypted(db, domain.accountId, domains)
  if (all === 0) return say('unknown', 'counters', 'tls none', { name })
  return say(judgeRate(1 - encrypted / all, Number.MIN_VALUE, 0.5), 'counters', 'tls', { name, all, encrypted })
}

const readAlignment: Reader = (facts, receiver) => {
  const { app, domain, now } = facts
  const { messages, aligned, seenAt } = countAligned(app.db, domain.accountId, now, domain.domain)
  // Of a few messages the records in DNS say more.
  if (messages >= MIN_RECIPIENTS) {
    const state = judgeRate(1 - aligned / messages, 0.02, 0.1)
    return say(state, 'dmarc_reports', 'alignment reported', { messages, aligned }, isoTime(seenAt))
  }
  const { spf, dkim, return_path: returnPath } = domain.verified
  return (spf && returnPath && !dkim ? readSpf : readDkim)(facts, receiver)
}

/** Red is bad; yellow and hits of spam traps are between. */
const readSnds: Reader = ({ app, now, witnesses }) => {
  const snds = readSndsReport(app.db)
  if (!snds) return say('unknown', 'snds', 'snds unasked')
  const seenAt = isoTime(snds.fetchedAt)
  if (now - snds.fetchedAt > MAX_AGE_MS) return say('unknown', 'snds', 'snds old', {}, seenAt)
  const ours = snds.rows.filter(({ ip }) => witnesses.sources().some((source) => source.ip === ip))
  if (ours.length === 0) return say('unknown', 'snds', 'snds empty', {}, seenAt)
  const isDoubtful = ours.some(({ result, traps }) => result !== 'GREEN' || traps > 0)
  const state = ours.some(({ result }) => result === 'RED') ? 'broken' : isDoubtful ? 'at_risk' : 'met'
  const texts = ours.slice(0, 5).map((row) => fill('snds', row))
  return say(state, 'snds', 'problem', { problem: texts.join(' ') }, seenAt)
}

/** What is not here only a person can tell. */
export const READERS: Readonly<Record<string, Reader>> = {
  spf: readSpf,
  dkim: readDkim,
  spf_or_dkim: (facts, receiver) => (facts.domain.verified.dkim ? readDkim : readSpf)(facts, receiver),
  dkim_1024: readKey(1024),
  dkim_2048: readKey(2048),
  dmarc: readDns('dmarc'),
  sender_mx: readDns('return_path'),
  alignment: readAlignment,
  // That EHLO has another name is a matter of `helo`.
  reverse_dns: readSources(({ problem }) =>
    problem && !problem.includes(' in EHLO') ? ['broken', 'ptr broken'] : ['met', 'ptr'],
  ),
  host_name: readSources(({ problem, ehloName, ip }) =>
    problem ? ['unknown', 'problem'] : isGenericName(ehloName, ip) ? ['at_risk', 'name generic'] : ['met', 'name'],
  ),
  // Without reverse DNS there is no name to compare: that is a matter of `reverse_dns`.
  helo: readSources(({ problem }) =>
    problem ? [problem.includes(' in EHLO') ? 'broken' : 'unknown', 'problem'] : ['met', 'helo'],
  ),
  tls: readTls,
  one_click: readUnsubscribe('one_click'),
  unsubscribe_honoured: readUnsubscribe('unsubscribe_honoured'),
  spam_rate: readComplaints,
  bounces: readBounces,
  format: (facts) => {
    // A wrong clock makes wrong dates.
    const clock = readDoctor(facts, 'clock', 'at_risk')
    return ['broken', 'at_risk'].includes(clock.state) ? clock : say('met', 'tassis', 'form')
  },
  own_from: () => say('met', 'tassis', 'own_from'),
  // A warning says that a list does not answer us.
  block_lists: (facts) => readDoctor(facts, 'block_lists', 'unknown'),
  arc: ({ app, domain }) =>
    isForwarding(app.db, domain.accountId)
      ? say('at_risk', 'tassis', 'forwards')
      : say('not_applicable', 'tassis', 'no forwards'),
  ip_reputation: readSnds,
}

const PERIOD_DAYS = 30
/** Volume counts for as long: one busy day makes a bulk sender, and Gmail never forgets it. */
const VOLUME_DAYS = 366
/** Newest rows that are looked at. */
const SAMPLE_SIZE = 1000

const SELECT_DAYS = `SELECT f.day, ${STATS_SUMS} FROM json_each(?1) wanted CROSS JOIN json_each(?2) names
  CROSS JOIN daily_figures f ON f.account_id = ?3 AND f.day = wanted.value AND f.domain = names.value`

const sql = prepareStatements((db) => ({
  sums: db.prepare<DailyStats, [string, string, number]>(SELECT_DAYS),
  byDay: db.prepare<DailyStats, [string, string, number]>(`${SELECT_DAYS} GROUP BY f.day`),
  emails: db.prepare<{ emails: number; marketing: number }, [number, number, number]>(
    `SELECT count(*) AS emails, coalesce(sum(transactional = 0), 0) AS marketing FROM (SELECT domain_id, transactional, sandbox
     FROM emails WHERE account_id = ? ORDER BY created_at DESC LIMIT ?) WHERE domain_id = ? AND sandbox = 0`,
  ),
  delivered: db.prepare<{ address: string; tls: string | null }, [number, number]>(
    `SELECT address, json_extract(data, '$.tls') AS tls FROM (SELECT * FROM events WHERE account_id = ? ORDER BY seq DESC LIMIT ?)
     JOIN recipients ON recipients.id = recipient_id WHERE type = ${toEventCode('delivered')} AND is_captured = 0`,
  ),
  // Anybody can report of his own domain, so only those of large receivers count, as for advice about the DMARC policy.
  aligned: db.prepare<{ messages: number; aligned: number; day: number }, [number, string, number]>(
    `SELECT coalesce(sum(count), 0) AS messages, coalesce(sum(count) FILTER (WHERE class = 'aligned'), 0) AS aligned, coalesce(max(day), 0) AS day
     FROM report_rows WHERE account_id = ? AND domain = ? AND day > ? AND is_from_us AND is_proven`,
  ),
  reported: db.prepare<{ at: number | null }, [number, number, string]>(
    'SELECT max(created_at) AS at FROM complaints WHERE account_id = ? AND created_at >= ? AND feedback_loop = ?',
  ),
}))

const listDays = (now: Millis, count = PERIOD_DAYS): string =>
  JSON.stringify(Array.from({ length: count }, (_, index) => dayOf(now) - index))

/** The sums of the last 30 days at these domains; default: at all. */
export const readStats = (db: Database, accountId: number, now: Millis, names: readonly string[] = [ALL_DOMAINS]) =>
  sql(db).sums.get(listDays(now), JSON.stringify(names), accountId) as DailyStats

/** The most recipients at these domains on one day of the last year. */
export function readPeak(db: Database, accountId: number, now: Millis, names: readonly string[]): number {
  const year = sql(db).byDay.all(listDays(now, VOLUME_DAYS), JSON.stringify(names), accountId)
  return Math.max(0, ...year.map(({ sent }) => sent))
}

/** Of the newest 1,000 emails of the account, those of a domain, and how many of them are not transactional. */
export const readMarketing = (db: Database, accountId: number, domainId: number) =>
  sql(db).emails.get(accountId, SAMPLE_SIZE, domainId) ?? { emails: 0, marketing: 0 }

/** Of the newest 1,000 events of the account, the deliveries to these domains, and how many of them used TLS. */
export function countEncrypted(db: Database, accountId: number, names: readonly string[]) {
  const seen = sql(db).delivered.all(accountId, SAMPLE_SIZE)
  const theirs = seen.filter(({ address }) => names.includes(domainOfAddress(address)))
  return { all: theirs.length, encrypted: theirs.filter(({ tls }) => tls?.startsWith('TLS')).length }
}

/** When a feedback loop last reported a complaint in the last year, which proves that it works; null: never. */
export const findLastReport = (db: Database, accountId: number, now: Millis, loop: string): Millis | null =>
  sql(db).reported.get(accountId, now - days(VOLUME_DAYS), loop)?.at ?? null

/** What DMARC reports of large receivers of the last 30 days count of mail that left our addresses, and the newest day that they are about. */
export function countAligned(db: Database, accountId: number, now: Millis, domain: string) {
  const found = sql(db).aligned.get(accountId, domain, dayOf(now) - PERIOD_DAYS)
  return { messages: 0, aligned: 0, ...found, seenAt: (found?.day ?? 0) * days(1) }
}
