/**
 * @module Parses mailboxes as people and API clients write them: `a@b` and `Name <a@b>`, including names that RFC 5322
 * wants quoted. The result can be used in an SMTP command (RFC 5321 §4.1.2, RFC 6531 §3.3) and in a header. Decodes
 * encoded words in names (RFC 2047), because some clients encode them. Does not accept comments or groups, and
 * makes no DNS queries.
 */
import { decodeName } from '../mime/encoded-words.ts'
import { parseDomain, toALabels } from './domain.ts'

export interface Mailbox {
  /** Display name, unquoted; undefined: none. */
  readonly name: string | undefined
  /** `localPart@domain`, at most 254 octets. */
  readonly address: string
  /** As given, with its case and quotes; at most 64 octets. */
  readonly localPart: string
  /** A-labels in lower case. */
  readonly domain: string
  /** Whether the local part is not ASCII, so that only a server with SMTPUTF8 accepts it. */
  readonly needsSmtpUtf8: boolean
}

interface Invalid {
  readonly kind: 'invalid'
  /** One sentence for the person who wrote the address. */
  readonly reason: string
}

export type MailboxResult = ({ readonly kind: 'ok' } & Mailbox) | Invalid
export type MailboxListResult = { readonly kind: 'ok'; readonly mailboxes: readonly Mailbox[] } | Invalid

const MAX_MAILBOX_LENGTH = 1_000
export const MAX_LIST_LENGTH = 20_000
export const MAX_LIST_COUNT = 100
/**
 * A name of this length still fits a header line of 998 octets together with its address, even when quoted and escaped.
 */
export const MAX_NAME_LENGTH = 256
/** RFC 5321 §4.5.3.1.1. */
const MAX_LOCAL_PART_OCTETS = 64
/** RFC 5321 §4.5.3.1.3: a path of 256 octets, less its angle brackets. */
const MAX_ADDRESS_OCTETS = 254

// C0, DEL, C1 and the two Unicode line ends. None of them may occur in a header, and some would end a header line.
const CONTROL = /[\0-\x1f\x7f-\x9f\u2028\u2029]/
// RFC 5322 §3.2.3 atext, plus what RFC 6531 §3.3 adds. Excludes spaces and invisible characters beyond ASCII.
const ATOM = /^(?:[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]|(?![\p{Z}\p{C}])[\u0080-\u{10ffff}])+$/u
const PHRASE = /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~ ]*$/
const ASCII_ONLY = /^[\0-\x7f]*$/

/** Unfolds a long name: some clients fold it between two encoded words as if it were in a header. */
export const unfoldWords = (text: string): string => text.replace(/(?<=\?=)\r?\n[ \t](?==\?)/g, ' ')

/**
 * Parses one mailbox. The address is the content of the last `<...>`, or the whole text when there is none. A name
 * before the address may contain commas, dots and UTF-8 without quotes. Converts an IDN to A-labels; domain literals
 * and single-label domains are invalid. Never throws.
 */
export function parseMailbox(given: string): MailboxResult {
  const text = unfoldWords(given)
  if (text.length > MAX_MAILBOX_LENGTH) return invalid('The address is longer than 1,000 characters.')
  if (CONTROL.test(text)) return invalid('The address has a line break or another control character.')
  if (!text.isWellFormed()) return invalid('The address is not valid Unicode text.')
  const trimmed = text.trim()
  if (trimmed === '') return invalid('The address is empty.')
  const open = trimmed.lastIndexOf('<')
  if (open === -1) {
    if (trimmed.endsWith('>')) return invalid('The address has a ">" without a "<" before it.')
    return parseAddress(trimmed, undefined)
  }
  if (!trimmed.endsWith('>')) return invalid('The address must end with the ">" that closes the last "<".')
  const name = parseName(trimmed.slice(0, open).trim())
  if (name.kind === 'invalid') return name
  return parseAddress(trimmed.slice(open + 1, -1).trim(), name.name)
}

/**
 * Parses a comma-separated list of mailboxes, as in Reply-To. Does not split at a comma inside quotes or angle
 * brackets, nor at one in an unquoted name (`Doe, Jane <j@example.com>`): a piece without an address joins the next
 * piece. Accepts at most 100 mailboxes. Never throws.
 */
export function parseMailboxList(text: string): MailboxListResult {
  if (text.length > MAX_LIST_LENGTH) return invalid('The list of addresses is longer than 20,000 characters.')
  const mailboxes: Mailbox[] = []
  let pending = ''
  const pieces = splitAtCommas(text)
  for (const [index, piece] of pieces.entries()) {
    const joined = pending === '' ? piece : `${pending},${piece}`
    if (!piece.includes('@') && index < pieces.length - 1) {
      if (piece.trim() === '') return invalid('The list of addresses has an extra comma.')
      pending = joined
      continue
    }
    pending = ''
    const result = parseMailbox(joined)
    if (result.kind === 'invalid') return result
    const { kind: _, ...mailbox } = result
    mailboxes.push(mailbox)
    if (mailboxes.length > MAX_LIST_COUNT) return invalid('The list has more than 100 addresses.')
  }
  return { kind: 'ok', mailboxes }
}

/**
 * Formats a mailbox for a header, not yet encoded for the wire. Quotes the name where RFC 5322 §3.2.5 requires quotes,
 * and where it looks like an encoded word.
 * `parseMailbox` returns the same name and address for the result. Throws when the name has a control character, which
 * is a bug in the caller.
 */
export function formatMailbox(mailbox: { readonly name: string | undefined; readonly address: string }): string {
  const { name, address } = mailbox
  if (CONTROL.test(address) || (name !== undefined && CONTROL.test(name)))
    throw new Error('a mailbox with a control character reached formatMailbox')
  const text = name?.replace(/\s+/g, ' ').trim() ?? ''
  if (text === '') return address.includes(' ') ? `<${address}>` : address
  return PHRASE.test(text) && !text.includes('=?')
    ? `${text} <${address}>`
    : `"${text.replace(/["\\]/g, '\\$&')}" <${address}>`
}

/** Returns the domain of a mailbox that `formatMailbox` wrote: `a@b` or `Name <a@b>`. */
export const domainOfMailbox = (mailbox: string): string =>
  mailbox.slice(mailbox.lastIndexOf('@') + 1).replace(/>$/, '')

/**
 * Returns a key that is equal for two spellings of one address: lower case throughout, the domain in A-labels, the
 * local part without needless quotes and backslashes, Unicode composed. Use the key for comparing and looking up, never
 * for sending (RFC 5321 §2.4: case may matter to the owner). Accepts any text; a text without a domain is only
 * lower-cased and composed. The key of a key is the key itself.
 */
export function normaliseAddress(address: string): string {
  const text = address.trim()
  const at = text.lastIndexOf('@')
  if (at === -1) return toComparable(text)
  const domain = text.slice(at + 1)
  return `${canonicaliseLocalPart(toComparable(text.slice(0, at)))}@${toALabels(domain.normalize('NFC')) ?? toComparable(domain)}`
}

/** The local part of an address in the form of `normaliseAddress`, then without its `+detail` (RFC 5233), if it has one. */
export function listLocalPartKeys(localPart: string): [key: string, ...withoutDetail: string[]] {
  const key = normaliseAddress(`${localPart}@x`).slice(0, -2)
  const plus = key.indexOf('+')
  return plus > 0 ? [key, key.slice(0, plus)] : [key]
}

/** Two domains of one provider, which ignores dots in local parts. */
const GMAIL = 'gmail.com'
const GMAIL_DOMAINS: ReadonlySet<string> = new Set([GMAIL, 'googlemail.com'])

/**
 * Returns a key that is equal for addresses that lead to one mailbox, as far as their spelling shows. It is for counting
 * only: never send to it, store it or show it. Drops what follows a plus in the local part, because
 * nearly every provider delivers it to the same mailbox. For Gmail, also drops dots and uses one of its two domain
 * names.
 * @param addressKey as `normaliseAddress` returns it
 */
export function toMailboxKey(addressKey: string): string {
  const at = addressKey.lastIndexOf('@')
  const domain = addressKey.slice(at + 1)
  const plus = addressKey.indexOf('+')
  const localPart = addressKey.slice(0, plus > 0 && plus < at ? plus : Math.max(at, 0))
  return GMAIL_DOMAINS.has(domain) ? `${localPart.replaceAll('.', '')}@${GMAIL}` : `${localPart}@${domain}`
}

/**
 * Composes twice, because lower-casing can undo composition. Replaces final sigma by sigma, because both are the lower
 * case of the same capital letter.
 */
const toComparable = (text: string): string =>
  text.normalize('NFC').toLowerCase().replaceAll('\u03c2', '\u03c3').normalize('NFC')

function parseAddress(text: string, name: string | undefined): MailboxResult {
  const at = text.startsWith('"') ? findQuotesEnd(text) : text.lastIndexOf('@')
  if (at === -1 || text[at] !== '@')
    return invalid(`${JSON.stringify(text)} is not an address: it has no @ after a local part.`)
  const localPart = text.slice(0, at)
  const reason = findLocalPartProblem(localPart)
  if (reason !== undefined) return invalid(reason)
  const parsed = parseDomain(text.slice(at + 1))
  if (parsed.kind === 'invalid') return parsed
  const address = `${localPart}@${parsed.domain}`
  if (Buffer.byteLength(address) > MAX_ADDRESS_OCTETS) return invalid('The address is longer than 254 characters.')
  return {
    kind: 'ok',
    name,
    address,
    localPart,
    domain: parsed.domain,
    needsSmtpUtf8: !ASCII_ONLY.test(localPart),
  }
}

function findLocalPartProblem(localPart: string): string | undefined {
  if (localPart === '' || localPart === '""') return 'The address has nothing before the @.'
  if (Buffer.byteLength(localPart) > MAX_LOCAL_PART_OCTETS) return 'The part before the @ is longer than 64 octets.'
  // Rejected, because the message composer removes angle brackets from addresses, so header and envelope would differ.
  if (/[<>]/.test(localPart)) return 'The part before the @ has an angle bracket.'
  if (localPart.startsWith('"')) return undefined
  if (localPart.includes('@')) return 'The address has more than one @.'
  return isDotString(localPart)
    ? undefined
    : 'The part before the @ has a space or a character that is only allowed in quotes.'
}

/**
 * Whether a text is atoms and dots, in any order: addresses such as `taro..yamada.@docomo.example` exist, although RFC
 * 5321 §4.1.2 wants quotes around them, which `toWireAddress` adds.
 */
const isDotString = (text: string): boolean =>
  !/^\.*$/.test(text) && text.split('.').every((atom) => atom === '' || ATOM.test(atom))

/** Returns an address as it is sent: with quotes around a local part whose dots need them (RFC 5321 §4.1.2). */
export const toWireAddress = (address: string): string =>
  address.replace(/^[^"@]+(?=@)/, (localPart) => (localPart.split('.').includes('') ? `"${localPart}"` : localPart))

/**
 * Returns the index after the quoted string at the start of the text, or -1 when the string is not closed. RFC 5321
 * §4.1.2 Quoted-string.
 */
const findQuotesEnd = (text: string): number => /^"[^"\\]*(?:\\[\s\S][^"\\]*)*"/.exec(text)?.[0].length ?? -1

/**
 * Removes quotes and backslashes that are not needed: `"a.b"` and `a.b` are one mailbox, and so are `"a b"` and `"a\
 * b"` (RFC 5321 §4.1.2).
 */
function canonicaliseLocalPart(localPart: string): string {
  if (!localPart.startsWith('"') || findQuotesEnd(localPart) !== localPart.length) return localPart
  const content = localPart.slice(1, -1).replace(/\\(.)/gs, '$1').normalize('NFC')
  return isDotString(content) ? content : `"${content.replace(/["\\]/g, '\\$&')}"`
}

type NameResult = { readonly kind: 'ok'; readonly name: string | undefined } | Invalid

/**
 * Unquotes a name that starts with a quote (RFC 5322 §3.2.5), in which there are no encoded words (RFC 2047 §5). Takes
 * any other name as written, including its quotes.
 */
function parseName(text: string): NameResult {
  let name = decodeName(text)
  if (text.startsWith('"')) {
    const unquoted = unquotePhrase(text)
    if (unquoted === undefined) return invalid('The name before the address has a quote that is never closed.')
    name = unquoted
  }
  name = name.replace(/\s+/g, ' ').trim()
  if (name.length > MAX_NAME_LENGTH) return invalid('The name before the address is longer than 256 characters.')
  return { kind: 'ok', name: name === '' ? undefined : name }
}

const QUOTED = /"([^"\\]*(?:\\[\s\S]?[^"\\]*)*)("?)/g

function unquotePhrase(text: string): string | undefined {
  let isClosed = true
  const unquoted = text.replace(QUOTED, (_, inside: string, end: string) => {
    isClosed &&= end !== ''
    return inside.replace(/\\([\s\S])/g, '$1')
  })
  return isClosed ? unquoted : undefined
}

/** A comma, or what hides one: quotes, or angle brackets with quotes in them. Without an end, they extend to the end. */
const COMMA_OR_HIDING = /,|"[^"\\]*(?:\\[\s\S][^"\\]*)*(?:"|\\?$)|<(?:[^">]|"[^"\\]*(?:\\[\s\S][^"\\]*)*(?:"|\\?$))*>?/g

function splitAtCommas(text: string): string[] {
  const commas = Array.from(text.matchAll(COMMA_OR_HIDING)).flatMap(({ 0: found, index }) =>
    found === ',' ? [index] : [],
  )
  return [-1, ...commas].map((before, i) => text.slice(before + 1, commas[i]))
}

const invalid = (reason: string): Invalid => ({ kind: 'invalid', reason })
