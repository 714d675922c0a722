/**
 * @module Reads the header of a submitted message. Nobody reads the rejection of mail that a program sends, so whatever
 * the API would reject is mended or left out; `dropped` then names it. Only From, and the fields of
 * `control-headers.ts`, must be valid. Pure; throws AppError 422 with the header field.
 */
import addressparser from 'nodemailer/lib/addressparser'
import { HEADER_NAME, isReservedHeader, MAX_SUBJECT_LENGTH } from '#features/sending/accept/draft.ts'
import type { SendRequest } from '#features/sending/accept/model.ts'
import { invalid } from '#platform/errors.ts'
import {
  formatMailbox,
  MAX_LIST_COUNT,
  MAX_LIST_LENGTH,
  MAX_NAME_LENGTH,
  type Mailbox,
  parseMailbox,
} from '#protocols/address/parse.ts'
import { isFoldable, isMailboxField } from '#protocols/mime/fields.ts'
import { hasOneClickUrl, ONE_CLICK, readUnsubscribeUrls } from '#protocols/mime/list-unsubscribe.ts'
import type { ParsedMessage } from '#protocols/mime/parsed.ts'
import { type Fields, isControlField } from './control-headers.ts'

/** Mailboxes of one field that are read, and its length. */
const MAX_MAILBOXES = 1000
const MAX_FIELD_LENGTH = 100_000

/** Fields that may occur once (RFC 5322 §3.6); the first counts. */
const SINGLE_FIELDS = ['From', 'Subject', 'Date', 'Message-ID', 'Content-Type']
/**
 * Fields that the service writes instead, and traces of the way to it. A signature of the client's does not fit the new
 * message.
 */
const REPLACED_FIELD =
  /^(?:from|to|cc|bcc|subject|date|message-id|reply-to|mime-version|content-(?:type|transfer-encoding|disposition)|received|received-spf|return-path|delivered-to|x-original-to|resent-.*|dkim-signature|domainkey-signature|arc-.*|authentication-results)$/i
const CONTROL = /[\0-\x1f\x7f-\x9f\u2028\u2029]/g

export const valuesOf = (fields: Fields, lowerName: string): string[] =>
  fields.filter(([name]) => name.toLowerCase() === lowerName).map(([, value]) => value)

/** Names the fields of which only the first counts. */
export function dropRepeated(fields: Fields, dropped: Set<string>): void {
  for (const name of SINGLE_FIELDS) if (new Set(valuesOf(fields, name.toLowerCase())).size > 1) dropped.add(name)
}

/** The mailbox of From, and Reply-To. Of several authors the first sends the message, and replies go to all. */
export function readSender(
  message: ParsedMessage,
  mailFrom: string,
  dropped: Set<string>,
): Pick<SendRequest, 'from' | 'reply_to'> {
  const { headers, replyTo } = message
  const from = message.from ?? ''
  const [author = findAuthor(headers, mailFrom), ...others] = readMailboxes('From', from, dropped)
  if (from === '' && !author) throw invalid('from', 'The header From is missing; it must be one address.')
  if (others.length > 0) dropped.add('From')
  const texts = [replyTo ?? '', ...valuesOf(headers, 'reply-to').slice(1)].filter((text) => text !== '')
  if (new Set(texts).size > 1) dropped.add('Reply-To')
  const replies = texts.map((text) => mendMailboxes('Reply-To', text, dropped)).find((list) => list !== '')
  const reply_to = replies ?? (others.length > 0 ? mendMailboxes('From', from, dropped) : undefined)
  // Acceptance says what is wrong with an address that is not valid.
  return { from: author ? formatMailbox(author) : from, ...(reply_to !== undefined && { reply_to }) }
}

/** The author where From is missing or broken: the address in it; if it has none, that of the reverse-path. */
function findAuthor(fields: Fields, mailFrom: string): Mailbox | undefined {
  const [from = ''] = valuesOf(fields, 'from')
  const words = from.slice(0, MAX_FIELD_LENGTH).split(/[\s<>()[\],;:"'\\]+/)
  const [word = mailFrom] = words.filter((each) => each.includes('@'))
  return [from, word.replace(/\.$/, '')].map(parseMailbox).find((parsed) => parsed.kind === 'ok')
}

export function readSubject({ subject }: ParsedMessage, dropped: Set<string>): string {
  if (subject.length > MAX_SUBJECT_LENGTH) dropped.add('the end of Subject')
  return shorten(subject, MAX_SUBJECT_LENGTH)
}

/** Never splits a character of two UTF-16 units. */
const shorten = (text: string, maxLength: number): string => text.slice(0, maxLength).replace(/[\ud800-\udbff]$/, '')

/** Leaves out what is no address, such as local names, and names the field then. */
export function readMailboxes(field: string, text: string | null, dropped: Set<string>): Mailbox[] {
  const found = addressparser(text?.slice(0, MAX_FIELD_LENGTH) ?? '', { flatten: true }).slice(0, MAX_MAILBOXES)
  const mailboxes = found.flatMap(({ name, address = '' }) => {
    const phrase = shorten(name.replaceAll(CONTROL, ' '), MAX_NAME_LENGTH).replaceAll(/["\\]/g, '\\$&')
    const named = parseMailbox(phrase ? `"${phrase}" <${address}>` : address)
    const parsed = named.kind === 'ok' ? named : parseMailbox(address)
    return parsed.kind === 'ok' ? [parsed] : []
  })
  if (mailboxes.length < found.length) dropped.add(field)
  return mailboxes
}

/** The valid mailboxes of a field, as many as a list may have; `''`: none. */
function mendMailboxes(field: string, text: string, dropped: Set<string>): string {
  const mailboxes = readMailboxes(field, text, dropped)
  const list: string[] = []
  let length = 0
  for (const mailbox of mailboxes.slice(0, MAX_LIST_COUNT).map(formatMailbox)) {
    length += mailbox.length + ', '.length
    if (length <= MAX_LIST_LENGTH) list.push(mailbox)
  }
  if (list.length === 0 || list.length < mailboxes.length) dropped.add(field)
  return list.join(', ')
}

/** The client's other fields; of a repeated field the first. @param maxOctets of all fields together */
export function readFields(
  fields: Fields,
  { isTransactional, maxOctets }: { readonly isTransactional: boolean; readonly maxOctets: number },
  dropped: Set<string>,
): Record<string, string> {
  const kept = new Map<string, readonly [name: string, value: string]>()
  let octetsLeft = maxOctets
  for (const [name, text] of fields) {
    if (REPLACED_FIELD.test(name) || isControlField(name) || text === '') continue
    const key = name.toLowerCase()
    const isAllowed = HEADER_NAME.test(name) && !isReservedHeader(name, isTransactional)
    const value = isAllowed ? mendValue(name, text, dropped) : ''
    const octets = name.length + 2 + Buffer.byteLength(value)
    const first = kept.get(key)
    if (value === '' || (first ? first[1] !== value : octets > octetsLeft)) dropped.add(name)
    else if (!first) {
      kept.set(key, [name, value])
      octetsLeft -= octets
    }
  }
  const [postName] = kept.get('list-unsubscribe-post') ?? []
  if (postName !== undefined && !hasOneClickUrl(kept.get('list-unsubscribe')?.[1])) {
    kept.delete('list-unsubscribe-post')
    dropped.add(postName)
  }
  return Object.fromEntries(kept.values())
}

/** The value in a form that can be sent; `''`: it has none. */
function mendValue(name: string, text: string, dropped: Set<string>): string {
  if (isMailboxField(name)) return mendMailboxes(name, text, dropped)
  const lowerName = name.toLowerCase()
  if (lowerName === 'list-unsubscribe-post')
    return text.replaceAll(/\s/g, '').toLowerCase() === ONE_CLICK.toLowerCase() ? ONE_CLICK : ''
  const value = lowerName === 'list-unsubscribe' ? readUnsubscribeUrls(text).urls : text
  return isFoldable(name, value) ? value : ''
}
