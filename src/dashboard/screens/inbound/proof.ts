/** @module States in words who sent a received message, and whether that is proven. Pure. */
import { toVisible } from './visible.ts'

/** What `authentication` of a received message has, as far as it is read here. */
interface Results {
  readonly spf: string
  readonly dkim: string
  readonly dmarc: string
  readonly arc: string
  readonly iprev: string
  readonly details: {
    readonly spf?: { readonly domain?: string; readonly client_ip?: string; readonly identity?: string }
    readonly dkim?: readonly { readonly result: string; readonly domain: string; readonly aligned: boolean }[]
    readonly dmarc?: { readonly domain?: string; readonly policy?: string | null }
    readonly arc?: { readonly instances?: number }
    readonly iprev?: { readonly name?: string | null }
  }
}

type ProofTone = 'good' | 'bad' | 'warning' | 'neutral'

export interface Proof {
  readonly tone: ProofTone
  readonly word: 'Proven' | 'Not proven' | 'Unknown'
  readonly sentence: string
}

/** One check of a message, for the table of all checks. */
export interface Check {
  readonly name: string
  readonly tone: ProofTone
  readonly word: string
  readonly explanation: string
}

export interface CheckedMessage {
  /** `/v1` leaves its type open. */
  readonly authentication: unknown
  /** Address of From; null: none. */
  readonly from: string | null
}

function parseResults(authentication: unknown): Results | undefined {
  if (typeof authentication !== 'object' || authentication === null || !('spf' in authentication)) return undefined
  return { details: {}, ...authentication } as Results
}

/** Whether the sender in From is proven. Only the domain can be: nobody but its owner knows who writes there. */
export function toProof({ authentication, from }: CheckedMessage): Proof {
  const results = parseResults(authentication)
  if (!from)
    return { tone: 'warning', word: 'Not proven', sentence: 'The message does not name an address that it is from.' }
  const sender = toVisible(from)
  if (!results)
    return { tone: 'neutral', word: 'Unknown', sentence: `Claims to be from ${sender}; that was not checked.` }
  const domain = toDomain(from)
  const methods = listProofs(results, domain)
  if (methods.length > 0)
    return { tone: 'good', word: 'Proven', sentence: `Sent by ${toVisible(domain)}, proven by ${join(methods)}.` }
  const reasons = [toSpfReason(results, domain), toDkimReason(results), toDmarcReason(results)]
  if ([results.spf, results.dkim, results.dmarc].includes('temperror'))
    return {
      tone: 'neutral',
      word: 'Unknown',
      sentence: `Claims to be from ${sender}; that could not be checked: ${join(reasons)}.`,
    }
  return {
    tone: results.dmarc === 'fail' ? 'bad' : 'warning',
    word: 'Not proven',
    sentence: `Claims to be from ${sender}, but that is not proven: ${join(reasons)}.`,
  }
}

const toDomain = (address: string): string => address.slice(address.lastIndexOf('@') + 1).toLowerCase()

/** The methods that prove the domain in From; empty: none does. */
function listProofs({ spf, dmarc, details }: Results, domain: string): string[] {
  const isSigned = details.dkim?.some(({ result, aligned }) => result === 'pass' && aligned) ?? false
  const isSpfSame = spf === 'pass' && details.spf?.identity !== 'helo' && details.spf?.domain?.toLowerCase() === domain
  // A domain whose DMARC fails is not proven by anything else.
  if (dmarc === 'fail') return []
  if (dmarc !== 'pass') return [...(isSpfSame ? ['SPF'] : []), ...(isSigned ? ['DKIM'] : [])]
  // DMARC passes by one of both; SPF may be of a related domain.
  return [...(isSpfSame || !isSigned ? ['SPF'] : []), ...(isSigned ? ['DKIM'] : []), 'DMARC']
}

const join = (parts: readonly string[]): string =>
  parts.length < 2 ? (parts[0] ?? '') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`

function toSpfReason({ spf, details }: Results, domain: string): string {
  const other = details.spf?.domain
  if (spf === 'pass' && details.spf?.identity === 'helo') return 'SPF passed only for the name of the server'
  if (spf === 'pass')
    return other && other.toLowerCase() !== domain ? `SPF passed only for ${toVisible(other)}` : 'SPF passed'
  return SPF_REASONS[spf] ?? `SPF: ${spf}`
}

const SPF_REASONS: Readonly<Record<string, string>> = {
  fail: 'SPF failed',
  softfail: 'SPF failed softly',
  neutral: 'SPF says nothing about the server',
  none: 'there is no SPF record',
  temperror: 'DNS did not answer for SPF',
  permerror: 'the SPF record is faulty',
  policy: 'SPF was not accepted',
}

function toDkimReason({ dkim, details }: Results): string {
  if (dkim === 'pass') {
    const signer = details.dkim?.find(({ result }) => result === 'pass')?.domain
    return signer === undefined ? 'DKIM passed' : `DKIM passed only for ${toVisible(signer)}`
  }
  return DKIM_REASONS[dkim] ?? `DKIM: ${dkim}`
}

const DKIM_REASONS: Readonly<Record<string, string>> = {
  fail: 'the DKIM signature is wrong',
  neutral: 'the DKIM signature cannot be read',
  none: 'there is no DKIM signature',
  temperror: 'DNS did not answer for DKIM',
  permerror: 'the DKIM signature or its key is faulty',
  policy: 'the DKIM key is too weak',
}

function toDmarcReason({ dmarc, details }: Results): string {
  const policy = details.dmarc?.policy
  if (dmarc === 'fail')
    return policy && policy !== 'none' ? `DMARC failed (the domain asks to ${policy} such mail)` : 'DMARC failed'
  return DMARC_REASONS[dmarc] ?? `DMARC: ${dmarc}`
}

const DMARC_REASONS: Readonly<Record<string, string>> = {
  pass: 'DMARC passed',
  none: 'there is no DMARC record',
  temperror: 'DNS did not answer for DMARC',
  permerror: 'the DMARC record or From is faulty',
}

const TONES: Readonly<Record<string, ProofTone>> = { pass: 'good', fail: 'bad', softfail: 'warning', policy: 'warning' }
const WORDS: Readonly<Record<string, string>> = {
  pass: 'Passed',
  fail: 'Failed',
  softfail: 'Failed softly',
  neutral: 'Neutral',
  none: 'None',
  policy: 'Not accepted',
  temperror: 'Not checked',
  permerror: 'Faulty',
}

/** All checks of a message, with what each means; empty when it was not checked. */
export function listChecks({ authentication, from }: CheckedMessage): Check[] {
  const results = parseResults(authentication)
  if (!results) return []
  const { details } = results
  const check = (name: string, verdict: string, explanation: string): Check => ({
    name,
    tone: TONES[verdict] ?? 'neutral',
    word: WORDS[verdict] ?? verdict,
    explanation,
  })
  const sentence = (reason: string): string => `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`
  const signers = (details.dkim ?? []).map(
    ({ domain, result }) => `${toVisible(domain)} (${(WORDS[result] ?? result).toLowerCase()})`,
  )
  return [
    check(
      'SPF',
      results.spf,
      results.spf === 'pass'
        ? `The server may send for ${toVisible(details.spf?.domain ?? 'the envelope sender')}.`
        : sentence(toSpfReason(results, toDomain(from ?? ''))),
    ),
    check('DKIM', results.dkim, signers.length > 0 ? `Signed by ${join(signers)}.` : sentence(toDkimReason(results))),
    check(
      'DMARC',
      results.dmarc,
      results.dmarc === 'pass' ? 'SPF or DKIM proves the domain in From.' : sentence(toDmarcReason(results)),
    ),
    check(
      'ARC',
      results.arc,
      (details.arc?.instances ?? 0) > 0
        ? `Forwarded by ${details.arc?.instances} servers that recorded their checks.`
        : 'No forwarder recorded its checks.',
    ),
    check(
      'Reverse DNS',
      results.iprev,
      details.iprev?.name
        ? `The name of the server is ${toVisible(details.iprev.name)}.`
        : 'The server has no proven name.',
    ),
  ]
}
