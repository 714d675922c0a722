/**
 * @module Parses the arguments of MAIL and RCPT (RFC 5321 §4.1.2, RFC 6531 §3.3). The maximum command line limits the
 * length of its input. Does not decide who may send or receive.
 *
 * Strict about quoted local parts, invalid UTF-8 and unknown parameters; lenient about common errors of real senders:
 * dots at the edges of local parts, underscores in sender domains.
 */
import { toALabels } from '#protocols/address/domain.ts'

export interface PathArguments {
  /** `''`: the null reverse-path. The domain in A-labels. */
  readonly address: string
  /** Upper-case keyword -> value; true: no value. */
  readonly parameters: ReadonlyMap<string, string | true>
  /** Whether the address needs SMTPUTF8. */
  readonly needsSmtpUtf8: boolean
}

export type PathResult =
  | ({ readonly kind: 'ok' } & PathArguments)
  | { readonly kind: 'syntax' }
  | { readonly kind: 'unknown parameter'; readonly name: string }

/**
 * RFC 5321 §4.5.3.1.3: a path of 256 octets, without its angle brackets. Local parts have no limit of their own: those
 * of envelope senders that contain another address are often longer than 64 octets.
 */
const MAX_ADDRESS_OCTETS = 254
/** AUTH (RFC 4954 §5) means nothing to a server that trusts no client, but some clients send it unasked. */
const MAIL_PARAMETERS: ReadonlySet<string> = new Set(['SIZE', 'BODY', 'SMTPUTF8', 'AUTH'])
const RCPT_PARAMETERS: ReadonlySet<string> = new Set()

const ASCII_ONLY = /^[\0-\x7f]*$/
// C0, DEL, C1, line ends and other invisible Unicode characters, and the replacement character for invalid UTF-8.
const NEVER_IN_ADDRESS = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\ufffd]/u
const NEVER_UNQUOTED = /[\p{Z}()<>[\]\\,;:"@]/u
const DOMAIN = /^[A-Za-z0-9_\-\u0080-\u{10ffff}]+(?:\.[A-Za-z0-9_\-\u0080-\u{10ffff}]+)*$/u
const LITERAL = /^\[[\x21-\x5a\x5e-\x7e]+\]$/
const KEYWORD = /^[A-Za-z0-9][A-Za-z0-9-]*$/
const VALUE = /^[\x21-\x3c\x3e-\x7e\u0080-\u{10ffff}]+$/u
/** RFC 5321 §4.1.2 At-domain list of a source route: accepted and ignored (appendix C). */
const SOURCE_ROUTE = /^@[^\s,:@<>]+(?:,@[^\s,:@<>]+)*:/

/** Reads `MAIL FROM:<…> …` or `RCPT TO:<…> …`. Never throws. */
export function parsePath(command: 'MAIL' | 'RCPT', line: string): PathResult {
  const syntax: PathResult = { kind: 'syntax' }
  const start = (command === 'MAIL' ? /^MAIL FROM\s*:\s*</i : /^RCPT TO\s*:\s*</i).exec(line)
  if (!start) return syntax
  const afterBracket = line.slice(start[0].length)
  const end = findPathEnd(afterBracket)
  if (end === -1) return syntax
  const address = parseAddress(afterBracket.slice(0, end).replace(SOURCE_ROUTE, ''), command)
  if (address === undefined) return syntax

  const parameterText = afterBracket.slice(end + 1)
  if (parameterText !== '' && !/^\s/.test(parameterText)) return syntax
  const parameters = new Map<string, string | true>()
  for (const text of parameterText.split(/\s+/).filter(Boolean)) {
    const [name = '', ...rest] = text.split('=')
    const key = name.toUpperCase()
    if (!KEYWORD.test(name)) return syntax
    if (!(command === 'MAIL' ? MAIL_PARAMETERS : RCPT_PARAMETERS).has(key))
      return { kind: 'unknown parameter', name: key }
    const value = rest.length === 0 ? true : rest.join('=')
    if (parameters.has(key) || (value !== true && !VALUE.test(value))) return syntax
    parameters.set(key, value)
  }
  return { kind: 'ok', address, parameters, needsSmtpUtf8: !ASCII_ONLY.test(address) }
}

/** The index of the `>` that closes a path, respecting quotes; -1: none. */
function findPathEnd(text: string): number {
  let isQuoted = false
  for (let i = 0; i < text.length; i++) {
    const character = text[i]
    if (isQuoted && character === '\\') i++
    else if (character === '"') isQuoted = !isQuoted
    else if (!isQuoted && character === '>') return i
  }
  return -1
}

function parseAddress(text: string, command: 'MAIL' | 'RCPT'): string | undefined {
  if (text === '') return command === 'MAIL' ? '' : undefined
  // RFC 5321 §4.1.1.3: only this recipient may lack a domain.
  if (command === 'RCPT' && text.toLowerCase() === 'postmaster') return text
  if (NEVER_IN_ADDRESS.test(text)) return undefined
  const at = text.lastIndexOf('@')
  const localPart = text.slice(0, at)
  if (at < 1 || !isLocalPart(localPart)) return undefined
  const domain = parseDomain(text.slice(at + 1))
  if (domain === undefined) return undefined
  const address = `${localPart}@${domain}`
  return Buffer.byteLength(address) > MAX_ADDRESS_OCTETS ? undefined : address
}

const isLocalPart = (text: string): boolean =>
  text.startsWith('"') ? /^"(?:[^"\\]|\\.)*"$/u.test(text) : !NEVER_UNQUOTED.test(text)

function parseDomain(text: string): string | undefined {
  if (text.startsWith('[')) return LITERAL.test(text) ? text : undefined
  return DOMAIN.test(text) ? toALabels(text) : undefined
}
