/**
 * @module States in words who sent a received message, and whether that is proven. Makes characters visible that strangers
 * use to disguise names: after U+202E, `gpj.exe` is read as a picture. Pure.
 */
import type { State, Tone } from '../../parts/tone.ts'

/** Controls, direction overrides and embeddings, isolates, invisible separators; not the joiners of scripts and emoji. */
const DISGUISES = /[\0-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u2069\ufeff]/g

/** The text with each such character as its code, such as `[U+202E]`. For addresses and file names, not for prose. */
export const toVisible = (text: string): string =>
  text.replace(DISGUISES, (character) => `[U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}]`)

/** The name in a From header, without the address; undefined when it has none. */
export function findDisplayName(header: string | null): string | undefined {
  const name = header
    ?.replace(/<[^<>]*>[^<>]*$/, '')
    .replace(/^\s*"|"\s*$/g, '')
    .trim()
  return name && name !== header?.trim() && !/^\s*$/.test(name) ? toVisible(name) : undefined
}

function isAddress(word: string): boolean {
  const [local, domain, ...more] = word.split('@')
  return Boolean(local) && domain !== undefined && domain.indexOf('.') > 0 && !domain.endsWith('.') && more.length === 0
}

/** An address in the name of a From header that is not the address of the header: it deceives who reads only the name. */
export function findClaimedAddress(header: string | null, from: string | null): string | undefined {
  const claimed = findDisplayName(header)
    ?.split(/[\s<>"]+/)
    .find(isAddress)
  return claimed?.toLowerCase() === from?.toLowerCase() ? undefined : claimed
}

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

export interface Proof {
  readonly tone: Tone
  readonly sentence: string
}

/** One check of a message, for the table of all checks. */
export interface Check extends State {
  readonly name: string
  /** Whose name was checked, and what else is known; may be empty. */
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
  if (!from) return { tone: 'warning', sentence: 'The message does not name an address that it is from.' }
  const claim = `Claims to be from ${toVisible(from)}`
  if (!results) return { tone: 'neutral', sentence: `${claim}; that was not checked.` }
  const domain = from.slice(from.lastIndexOf('@') + 1).toLowerCase()
  const methods = listProofs(results, domain)
  if (methods.length > 0) return { tone: 'good', sentence: `Sent by ${toVisible(domain)}, proven by ${join(methods)}.` }
  const reasons = join([
    `SPF ${toWord(results.spf)}${results.spf === 'pass' ? ` for ${toSpfName(results)}` : ''}`,
    `DKIM ${toWord(results.dkim)}${results.dkim === 'pass' ? ` for ${listSigners(results, 'pass')}` : ''}`,
    `DMARC ${toWord(results.dmarc)}`,
  ])
  if ([results.spf, results.dkim, results.dmarc].includes('temperror'))
    return { tone: 'neutral', sentence: `${claim}; that could not be checked: ${reasons}.` }
  return {
    tone: results.dmarc === 'fail' ? 'bad' : 'warning',
    sentence: `${claim}, but that is not proven: ${reasons}.`,
  }
}

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

const TONES: Readonly<Record<string, Tone>> = { pass: 'good', fail: 'bad', softfail: 'warning', policy: 'warning' }
/** After the name of a check. */
const WORDS: Readonly<Record<string, string>> = {
  pass: 'passed',
  fail: 'failed',
  softfail: 'failed softly',
  neutral: 'says nothing',
  none: 'is missing',
  policy: 'was not accepted',
  temperror: 'was not checked: DNS did not answer',
  permerror: 'is faulty',
}

const toWord = (verdict: string): string => WORDS[verdict] ?? verdict

const toSpfName = ({ details: { spf } }: Results): string =>
  spf?.identity === 'helo' ? 'the name of the server' : toVisible(spf?.domain ?? 'the envelope sender')

const listSigners = ({ details }: Results, wanted?: string): string =>
  join(
    (details.dkim ?? [])
      .filter(({ result }) => wanted === undefined || result === wanted)
      .map(({ domain, result }) => toVisible(domain) + (wanted === undefined ? ` (${toWord(result)})` : '')),
  )

/** All checks of a message; empty when it was not checked. */
export function listChecks({ authentication }: Pick<CheckedMessage, 'authentication'>): Check[] {
  const results = parseResults(authentication)
  if (!results) return []
  const { dmarc, arc, iprev } = results.details
  const check = (name: string, verdict: string, explanation: string): Check => ({
    name,
    tone: TONES[verdict] ?? 'neutral',
    word: toWord(verdict).replace(/^./, (letter) => letter.toUpperCase()),
    explanation: explanation && `${explanation}.`,
  })
  const signers = listSigners(results)
  const policy = dmarc?.policy && dmarc.policy !== 'none' ? `The domain asks to ${dmarc.policy} what fails` : ''
  return [
    check('SPF', results.spf, `Checked for ${toSpfName(results)}`),
    check('DKIM', results.dkim, signers && `Signed by ${signers}`),
    check('DMARC', results.dmarc, policy),
    check('ARC', results.arc, arc?.instances ? `Forwarded by ${arc.instances} servers that recorded their checks` : ''),
    check('Reverse DNS', results.iprev, iprev?.name ? `The name of the server is ${toVisible(iprev.name)}` : ''),
  ]
}
