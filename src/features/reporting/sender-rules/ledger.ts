/**
 * @module The ledger of a domain: each rule of each receiver with its state, who saw it, and what to do. The receiver's
 * own word goes before ours: Google's compliance status decides about the rules of Gmail that we see as met or cannot see.
 */
import type { App } from '#features/core/app/app.ts'
import { type Domain, findDomainByName } from '#features/setup/domains/domains.ts'
import { findCoveringDomain } from '#features/setup/domains/sending.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { type GoogleReport, readGoogleReport } from './receiver-data.ts'
import data from './rules.json' with { type: 'json' }
import {
  type Facts,
  fill,
  judgeComplaints,
  MAX_AGE_MS,
  READERS,
  type Receiver,
  RULE_STATES,
  type RuleState,
  type RuleWitnesses,
  readPeak,
  say,
  type Verdict,
} from './states.ts'

/** Near the volume of bulk senders, their rules are no longer left aside. */
const NEAR_BULK = 0.8

/** Asks nobody but the database. Takes some 25 ms for an account that sends much every day. */
export function readLedger(app: Pick<App, 'db' | 'config' | 'clock'>, witnesses: RuleWitnesses, registered: Domain) {
  const { db } = app
  // A domain that is not verified is sent under one above it, which signs its mail.
  const covering = findCoveringDomain(db, registered)
  const domain = (covering && findDomainByName(db, registered.accountId, covering)) || registered
  const facts: Facts = { app, witnesses, now: app.clock.now(), domain }
  const google = readGoogleReport(db, domain.id)
  const receivers = data.receivers.map((receiver) => {
    const rules = judge(facts, receiver, receiver.id === 'gmail' ? google : undefined)
    return { ...receiver, rules, counts: count(rules) }
  })
  const rules = receivers.flatMap((receiver) => receiver.rules)
  const counts = count(rules)
  const broken = rules.filter(({ state }) => state === 'broken').map(({ title }) => title)
  // For somebody who knows nothing of mail.
  const isFine = counts.broken + counts.at_risk === 0 && domain.verifiedAt !== null
  const summary = fill(isFine ? 'summary fine' : broken.length > 0 ? 'summary broken' : 'summary', {
    ...counts,
    domain: registered.domain,
    binding: countBinding(counts),
    receivers: receivers.length,
    titles: [...new Set(broken)].join(', '),
  })
  return { domain: registered.domain, receivers, counts, summary }
}

const count = (rules: readonly Verdict[]) =>
  Object.fromEntries(RULE_STATES.map((name) => [name, rules.filter(({ state }) => state === name).length])) as Counts
type Counts = Record<RuleState, number>

/** Rules that bind the sender; those that nobody can know are among them. */
export const countBinding = ({ met, unknown, at_risk, broken }: Counts): number => met + unknown + at_risk + broken

function judge(facts: Facts, receiver: Receiver, google: GoogleReport | undefined) {
  const { bulk_from: bulk, domains, name } = receiver
  const { app, domain, now } = facts
  const peak = bulk > 0 ? readPeak(app.db, domain.accountId, now, domains) : 0
  return receiver.rules.map(({ check, binds, text }) => {
    const { title, fix, google: requirement } = data.checks[check as keyof typeof data.checks]
    const own = READERS[check]?.(facts, receiver) ?? say('unknown', 'nobody', 'nobody', { fix })
    // What is met is shown as met, whether it is demanded or not.
    const isLeftAside = binds === 'bulk' && peak < bulk * NEAR_BULK && own.state !== 'met'
    const values = { bulk, peak, name, evidence: own.evidence }
    const bound = isLeftAside ? say('not_applicable', 'counters', 'not bulk', values, own.seen_at) : own
    const verdict = google ? addGoogle(now, bound, google, requirement) : bound
    const state = binds === 'nobody' && verdict.state === 'broken' ? 'at_risk' : verdict.state
    return { check, title, text, binds, ...verdict, state, fix: state === 'broken' || state === 'at_risk' ? fix : '' }
  })
}

/** Google's word about a requirement, while it is at most three days old; ours stays where we see what is wrong. */
function addGoogle(now: number, own: Verdict, { askedAt, compliance, spamRate }: GoogleReport, name: string): Verdict {
  const said = compliance[name]
  if (said === undefined) return own
  const rate = name === 'USER_REPORTED_SPAM_RATE' ? spamRate : null
  const percent = rate === null ? '' : `, highest spam rate of the last 7 days ${(rate * 100).toFixed(2)} %`
  const values = {
    said: `${said.toLowerCase().replace('_', ' ')}${percent}`,
    evidence: own.evidence,
    at: isoTime(askedAt),
  }
  if (now - askedAt > MAX_AGE_MS) return say(own.state, own.witness, 'google old', values, own.seen_at)
  const state = said === 'NEEDS_WORK' ? 'broken' : judgeComplaints(rate ?? 0)
  const isOurs = own.state === 'broken' || (own.state === 'at_risk' && state !== 'broken')
  return isOurs ? own : say(state, 'google', 'google', values, values.at)
}
