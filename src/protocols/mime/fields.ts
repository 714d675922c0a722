/**
 * @module What a composed message has in its header, checked and ready to be encoded, and the rules for values that
 * both ways of composing share (`plain.ts`, `mail-composer.ts`). Never folds a field.
 */
import { encodeWord } from 'nodemailer/lib/mime-funcs'
import MimeNode from 'nodemailer/lib/mime-node'
import { parseMailboxList, toWireAddress } from '../address/parse.ts'
import type { EncodedPart } from './encode.ts'

export interface NamedAddress {
  /** Empty: none. */
  readonly name: string
  readonly address: string
}

/** The fields of a message, before they are encoded. */
export interface MessageFields {
  readonly from: readonly NamedAddress[]
  readonly to: readonly NamedAddress[]
  readonly cc: readonly NamedAddress[]
  readonly replyTo: readonly NamedAddress[] | undefined
  readonly subject: string
  readonly date: Date
  readonly messageId: string
  /** Further fields in order, without the Reply-To that `replyTo` holds. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** How the caller spells the names of further fields, by lower-case name. */
  readonly spellings: ReadonlyMap<string, string>
  /** Part of each boundary. */
  readonly baseBoundary: string
}

/** The bodies in the order in which they are sent. */
export type Bodies = readonly (readonly [contentType: string, part: EncodedPart])[]

/**
 * No body can contain a boundary: neither quoted-printable nor base64 produces `=_`, and a 7-bit part contains no
 * `=_T`.
 */
export const BOUNDARY_PREFIX = '=_T'

/**
 * Names of fields with mailboxes that the caller may set (RFC 5322 §3.6.2, §3.6.6, RFC 8098 §2.1, and others that mail
 * programs use).
 */
const MAILBOX_FIELD =
  /^(?:reply-to|disposition-notification-to|return-receipt-to|errors-to|mail-(?:followup|reply)-to|resent-(?:from|sender|to|cc|bcc|reply-to))$/i
/** Fields with URLs, which may look like an encoded word: `?a=?b?q?c`. */
const URL_FIELD = /^list-(?:unsubscribe|help|subscribe|post|owner|archive)(?:-post)?$/i
/** Fields that MailComposer does not encode, because their values are structured. */
export const MESSAGE_ID_FIELD = /^(?:in-reply-to|references|otp-token)$/i
const ASCII_ONLY = /^[\0-\x7f]*$/
/** A word that cannot be folded to fit a line of 998 octets (RFC 5322 §2.1.1). */
const LONG_WORD = /[^ \t]{900}/

/** Whether the value of a field with this name is one mailbox or a comma-separated list of mailboxes. */
export const isMailboxField = (name: string): boolean => MAILBOX_FIELD.test(name)

/**
 * Whether a field can be sent in lines of 998 octets. The values of some fields can only be folded at white space; any
 * other value is encoded if it does not fold.
 */
export const isFoldable = (name: string, value: string): boolean =>
  !LONG_WORD.test(value) || !(MESSAGE_ID_FIELD.test(name) || URL_FIELD.test(name))

/** Parses mailboxes into objects, so that MailComposer does not parse the addresses again. */
export function parseMailboxes(texts: readonly string[]): NamedAddress[] {
  return texts.flatMap((text) => {
    const result = parseMailboxList(text)
    if (result.kind === 'invalid') throw new Error(`a mailbox must be validated first: ${result.reason}`)
    return result.mailboxes.map(({ name, address }) => ({ name: name ?? '', address: toWireAddress(address) }))
  })
}

/**
 * Shortens runs of white space so that the value folds without a blank line, because some readers take a blank line for
 * the end of the header.
 */
export const makeFoldable = (value: string): string => value.replace(/[ \t]{20,}/g, ' ').trim()

/**
 * Whether a text must be encoded although MailComposer would send it as it is: text that looks encoded, because a
 * reader would decode it, and text that does not fold.
 */
export const looksEncodedOrUnfoldable = (text: string): boolean =>
  text.includes('=?') || (LONG_WORD.test(text) && ASCII_ONLY.test(text))

export const encodeAsWords = (text: string): string => encodeWord(text, 'Q', 52)

/** A value that is folded but not encoded. */
export interface PreparedValue {
  readonly value: string
  readonly prepared: true
  readonly foldLines: true
}

const toPreparedValue = (value: string): PreparedValue => ({ value, prepared: true, foldLines: true })

/**
 * Prepares the value of a further field. A text is yet to be encoded, except in fields of `MESSAGE_ID_FIELD`.
 */
export function prepareFieldValue(name: string, value: string): string | PreparedValue {
  // These fields are not encoded later; text beyond ASCII has no meaning there, but must not be sent raw.
  if (MESSAGE_ID_FIELD.test(name)) return ASCII_ONLY.test(value) ? makeFoldable(value) : encodeAsWords(value)
  if (URL_FIELD.test(name) && ASCII_ONLY.test(value) && !LONG_WORD.test(value))
    return toPreparedValue(makeFoldable(value))
  const list = MAILBOX_FIELD.test(name) ? parseMailboxList(value) : undefined
  if (list?.kind === 'ok') return toPreparedValue(MimeNode.encodeHeaderValue('Reply-To', parseMailboxes([value])))
  return makeFoldable(value)
}
