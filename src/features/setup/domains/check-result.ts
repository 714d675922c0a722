/**
 * @module Result of checking one DNS record, and sentences that the checks share. Details are written for beginners:
 * what was found, what was expected, what to publish where.
 */
import { type Answer, type FailedAnswer, isFailedAnswer, type Resolver } from '#protocols/dns/resolver.ts'
import { findRegistrableDomain } from './name.ts'

/** `unknown`: DNS did not respond, so the record may or may not exist. Never treat it as `missing`. */
export type CheckOutcome = 'verified' | 'missing' | 'wrong' | 'unknown'

export interface Check {
  readonly outcome: CheckOutcome
  /** True for the outcome `verified`. */
  readonly verified: boolean
  readonly detail: string
  /** Of a DMARC record that passes: the tags that apply to the domain. */
  readonly policy?: Readonly<Record<string, string>>
}

export const verified = (detail: string): Check => ({ outcome: 'verified', verified: true, detail })
export const missing = (...sentences: string[]): Check => failing('missing', sentences)
export const wrong = (...sentences: string[]): Check => failing('wrong', sentences)
export const unknown = (...sentences: string[]): Check => failing('unknown', sentences)

const failing = (outcome: CheckOutcome, sentences: readonly string[]): Check => ({
  outcome,
  verified: false,
  detail: sentences.filter((s) => s !== '').join(' '),
})

/** The records; if the look-up failed, the check result that follows from the failure. */
export function toRecordsOrCheck<T>(answer: Answer<T>, what: string, host: string): readonly T[] | Check {
  if (isFailedAnswer(answer)) return unanswered(answer, what, host)
  if (answer.kind === 'loop') {
    return wrong(`The CNAME records at ${host} form a loop or a chain that is too long. Remove the CNAME at ${host}.`)
  }
  return answer.kind === 'ok' ? answer.records : []
}

export const isCheck = (value: object): value is Check => 'outcome' in value

const FAILURE_REASONS = {
  timeout: 'the DNS servers did not answer in time',
  servfail:
    'the DNS servers answered with a failure (SERVFAIL); a broken DNSSEC setup or a dead name server causes this',
  refused: 'the DNS servers refused the query',
} as const

const UNANSWERED = ' could not be looked up: '

/** Whether a check says in its detail that DNS did not respond. */
export const isUnanswered = (detail: string): boolean => detail.includes(UNANSWERED)

export const unanswered = (answer: FailedAnswer, what: string, host: string): Check =>
  unknown(
    `The ${what} at ${host}${UNANSWERED}${FAILURE_REASONS[answer.kind]}.`,
    'This says nothing about the record itself; check again in a few minutes.',
  )

const MAX_QUOTE_LENGTH = 160

/** A value from DNS for display: on one line, of limited length. */
export function quoteValue(value: string): string {
  const line = value.replace(/[^\x20-\x7e\u00a0-\uffff]/g, '?')
  return `"${line.length > MAX_QUOTE_LENGTH ? `${line.slice(0, MAX_QUOTE_LENGTH)}...` : line}"`
}

export const adviseTxt = (host: string, value: string): string =>
  `Publish a TXT record at ${host} with the value ${value}`

/** For a value to which the provider has appended a name. */
export const adviseFinalDot = (value: string): string =>
  `The DNS provider appended the domain to the value: enter ${value}. with a dot at the end.`

/** Removes quotes, backslashes and outer spaces, which come with copying from a zone file. */
export const removeQuoting = (value: string): string => value.replace(/["\u201c\u201d\u201e\u00ab\u00bb\\]/g, '').trim()

/** The problem of a record that was entered with quotes, as the end of a sentence; undefined when there are none. */
export const findQuotingProblem = (record: string): string | undefined =>
  removeQuoting(record) === record.trim()
    ? undefined
    : 'has quotes or backslashes inside its value; enter the value without them'

/**
 * The likely reason why a record is missing at `host`, as a sentence; '' if none is found. A look-up that fails
 * finds none.
 * @param ask looks up the records at another name
 * @param isMissed whether one of them is the missing record
 */
export async function findAbsenceHint<T>(
  resolver: Resolver,
  domain: string,
  host: string,
  ask: (name: string) => Promise<Answer<T>>,
  isMissed: (record: T) => boolean,
): Promise<string> {
  const alias = await resolver.cname(host)
  if (alias.kind === 'ok') {
    return `${host} is an alias (CNAME) of ${alias.records[0]}, and DNS allows no other record beside a CNAME: remove the CNAME first.`
  }
  for (const zone of new Set([domain, findRegistrableDomain(domain) ?? domain])) {
    // The resolver does not query a name that is too long.
    const found = await ask(`${host}.${zone}`)
    if (found.kind !== 'ok' || !found.records.some(isMissed)) continue
    const recordName = host === zone ? '@' : host.slice(0, -zone.length - 1)
    return `It was found at ${host}.${zone} instead: the DNS provider appends ${zone} automatically, so enter only ${recordName} as the name of the record.`
  }
  const own = await resolver.a(domain)
  return own.kind === 'nxdomain'
    ? `${domain} itself does not exist in DNS: check its spelling and that it is registered and has name servers.`
    : ''
}
