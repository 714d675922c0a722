/** @module Encodes and folds the fields of a composed message (RFC 5322 §2.2.3, RFC 2047). Never checks a field. */
import { encodeWord, foldLines } from 'nodemailer/lib/mime-funcs'
import MimeNode from 'nodemailer/lib/mime-node'
import { parseMailboxList, toWireAddress } from '../address/parse.ts'

/**
 * Names of fields with mailboxes that the caller may set (RFC 5322 §3.6.2, §3.6.6, RFC 8098 §2.1, and others that mail
 * programs use).
 */
const MAILBOX_FIELD =
  /^(?:reply-to|disposition-notification-to|return-receipt-to|errors-to|mail-(?:followup|reply)-to|resent-(?:from|sender|to|cc|bcc|reply-to))$/i
/** Fields with URLs, which may look like an encoded word: `?a=?b?q?c`. */
const URL_FIELD = /^list-(?:unsubscribe|help|subscribe|post|owner|archive)(?:-post)?$/i
/** Fields with structured values, which cannot be encoded. */
const MESSAGE_ID_FIELD = /^(?:in-reply-to|references|otp-token)$/i
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

/** Fields fold at 76 characters before white space; a long first word moves to a line of its own. */
const FOLD_LENGTH = 76

export const foldField = (field: string): string => (field.length < FOLD_LENGTH ? field : foldLines(field, FOLD_LENGTH))

/** Encodes the value of a field that is not for MIME. A value that looks encoded arrives as the caller wrote it. */
export function encodeValue(name: string, value: string): string {
  const text = makeFoldable(value)
  // Text beyond ASCII has no meaning in these fields, but must not be sent raw.
  if (MESSAGE_ID_FIELD.test(name))
    return MimeNode.encodeHeaderValue(name, ASCII_ONLY.test(value) ? text : encodeAsWords(value))
  if (URL_FIELD.test(name) && ASCII_ONLY.test(value) && !LONG_WORD.test(value)) return text
  if (MAILBOX_FIELD.test(name) && parseMailboxList(value).kind === 'ok') return encodeMailboxes([value])
  return encodeUnstructured(text)
}

/**
 * Shortens runs of white space so that the value folds without a blank line, because some readers take a blank line for
 * the end of the header.
 */
const makeFoldable = (value: string): string => value.replace(/[ \t]{20,}/g, ' ').trim()

/** Characters that an unstructured value must not have, and therefore sends encoded; HT is among white space. */
const CONTROL = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/
const NEEDS_ENCODING = /[\u0080-\uffff]/

/** Encodes a text as a whole, and leaves ASCII as it is, quotes included, for programs that read JSON in a field. */
export function encodeUnstructured(text: string): string {
  if (CONTROL.test(text)) return encodeWord(text, chooseWordEncoding(text), MAX_WORD_LENGTH)
  if (looksEncodedOrUnfoldable(text)) return encodeAsWords(text)
  return NEEDS_ENCODING.test(text) ? encodeWord(text, chooseWordEncoding(text), MAX_WORD_LENGTH) : text
}

/** Whether an ASCII text must be encoded: a reader would decode what looks encoded, and a long word does not fold. */
const looksEncodedOrUnfoldable = (text: string): boolean =>
  text.includes('=?') || (LONG_WORD.test(text) && ASCII_ONLY.test(text))

/** Length of an encoded word. */
const MAX_WORD_LENGTH = 52

const encodeAsWords = (text: string): string => encodeWord(text, 'Q', MAX_WORD_LENGTH)

/** Quoted-printable for a text that has more Latin letters than characters to be escaped. */
function chooseWordEncoding(text: string): 'Q' | 'B' {
  let escaped = 0
  let letters = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code >= 0x80 || code <= 0x08 || code === 0x0b || code === 0x0c || (code >= 0x0e && code <= 0x1f)) escaped++
    else if ((code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)) letters++
  }
  return escaped < letters ? 'Q' : 'B'
}

/** Encodes lists of mailboxes, name by name. With a UTF-8 local part the domain has U-labels (SMTPUTF8). */
export function encodeMailboxes(texts: readonly string[]): string {
  const mailboxes = texts.flatMap((text) => {
    const result = parseMailboxList(text)
    if (result.kind === 'invalid') throw new Error(`a mailbox must be validated first: ${result.reason}`)
    return result.mailboxes
  })
  return mailboxes.map(({ name = '', address }) => encodeMailbox(name, toWireAddress(address))).join(', ')
}

function encodeMailbox(name: string, address: string): string {
  const bare = PLAIN_ADDRESS.test(address) ? address : MimeNode.encodeHeaderValue('To', [{ name: '', address }])
  if (name === '') return bare
  return `${encodeName(name)} ${bare.startsWith('<') ? bare : `<${bare}>`}`
}

/** A dot-atom in ASCII at a domain without A-labels whose last label cannot be a number: nothing to encode. */
const PLAIN_ADDRESS =
  /^[\w!#$%&'*+\-/=?^`{|}~]+(?:\.[\w!#$%&'*+\-/=?^`{|}~]+)*@(?!(?:.*\.)?xn--)(?:[a-z0-9][a-z0-9-]*\.)+[a-z][a-z0-9-]*$/

function encodeName(name: string): string {
  if (looksEncodedOrUnfoldable(name)) return encodeAsWords(name)
  if (/^[\w ]*$/.test(name)) return name
  if (/^[\x20-\x7e]*$/.test(name)) return `"${name.replace(/["\\]/g, '\\$&')}"`
  return encodeWord(name, chooseWordEncoding(name), MAX_WORD_LENGTH)
}
