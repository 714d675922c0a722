/**
 * @module Recognises and reads feedback reports: those of RFC 5965, including redacted ones (RFC 6590), and Microsoft's,
 * which only return the message. Reports of failed authentication (RFC 6591) are not complaints. Does not look up the
 * recipient. Every field comes from a remote client, so the length of each is limited.
 */
import { decodeFields, parseMessageId, readHead } from '../mime/header-fields.ts'
import { type ParsedAttachment, type ParsedMessage, RETURNED_TYPES } from '../mime/parsed.ts'

export type FeedbackType = 'abuse' | 'fraud' | 'virus' | 'not-spam' | 'other'

/**
 * Limited in lengths and counts. A value that the provider left out or redacted (RFC 6590) is null or missing from the
 * list.
 */
export interface FeedbackReport {
  readonly feedbackType: FeedbackType
  readonly userAgent: string | null
  /** Name of the reporting server, without its type. */
  readonly reportingMta: string | null
  /**
   * Recipients that the provider names: Original-Rcpt-To of the report, then Delivered-To and similar fields of the
   * returned headers. To is not used, because it is the same in every recipient's copy.
   */
  readonly originalRcptTo: readonly string[]
  /** With angle brackets, as in the returned message or headers. */
  readonly originalMessageId: string | null
  /** List-Unsubscribe of the reported message. */
  readonly originalListUnsubscribe: string | null
  /**
   * Local parts in the form of our own addresses (address/verp.ts), from any field of the report or of the reported
   * message's header: providers remove Return-Path but leave the same address in Received-SPF. The MACs in these local
   * parts are not verified yet.
   */
  readonly ownLocalParts: readonly string[]
}

/** Maximum octets read of a header block; nothing after that matters. */
const MAX_HEADER_BYTES = 64 * 1024
const MAX_VALUE_LENGTH = 2000
/** Maximum length of the name of a program or server, or of an address. */
const MAX_NAME_LENGTH = 254
const MAX_FIELDS = 20
const MAX_ADDRESSES = 50

/** Returns the feedback report that a message contains; undefined when it contains none. Accepts any message. */
export function parseFeedbackReport(message: ParsedMessage): FeedbackReport | undefined {
  const report = findReportFields(message)
  const returned = findReturnedFields(message)
  if (report) return buildStandardReport(report, returned)
  if (!returned) return undefined
  const microsoft = [...returned.values(MICROSOFT_RECIPIENT), ...readHeader(message, MICROSOFT_RECIPIENT)]
  return microsoft.length > 0 ? buildReport('abuse', { returned, namedRecipients: microsoft }) : undefined
}

/** The field in which Microsoft's feedback loop names the complaining recipient; such a report has no other mark. */
const MICROSOFT_RECIPIENT = 'x-hmxmroriginalrecipient'

/** The types of RFC 5965 §3.1, types registered later, and synonyms that providers use. */
const TYPES: ReadonlyMap<string, FeedbackType> = new Map([
  ['abuse', 'abuse'],
  ['spam', 'abuse'],
  ['fraud', 'fraud'],
  ['phishing', 'fraud'],
  ['virus', 'virus'],
  ['malware', 'virus'],
  ['not-spam', 'not-spam'],
])

/** The type of a report about a failed signature or policy (RFC 6591 §3), which is not a complaint by a person. */
const FAILED_AUTHENTICATION = 'auth-failure'

function buildStandardReport(report: Fields, returned: Fields | undefined): FeedbackReport | undefined {
  const type = readFirstWord(report.values('feedback-type')[0] ?? '')
  if (type === FAILED_AUTHENTICATION) return undefined
  return buildReport(TYPES.get(type) ?? 'other', { report, returned })
}

const readFirstWord = (value: string): string => value.split(/[\s;(]/, 1)[0]?.toLowerCase() ?? ''

interface ReportSources {
  /** Fields of the report itself. */
  readonly report?: Fields | undefined
  /** Header of the reported message. */
  readonly returned: Fields | undefined
  /** Recipients that the provider names outside of the report's fields. */
  readonly namedRecipients?: readonly string[]
}

/** Fields of a returned header that name the recipient of this copy of the message. */
const RECIPIENT_FIELDS = [MICROSOFT_RECIPIENT, 'delivered-to', 'x-original-to', 'envelope-to', 'x-envelope-to']

function buildReport(
  feedbackType: FeedbackType,
  { report, returned, namedRecipients = [] }: ReportSources,
): FeedbackReport {
  const readReport = (name: string): string[] => report?.values(name) ?? []
  const readReturned = (name: string): string[] => returned?.values(name) ?? []
  return {
    feedbackType,
    userAgent: cleanName(readReport('user-agent')[0]),
    reportingMta: cleanName(readReport('reporting-mta')[0]?.replace(/^\s*[a-z]+\s*;/i, '')),
    originalRcptTo: dedupe(
      [...readReport('original-rcpt-to'), ...namedRecipients, ...RECIPIENT_FIELDS.flatMap(readReturned)].flatMap(
        findAddresses,
      ),
    ),
    // Some providers put the Message-ID into the report when they return no headers.
    originalMessageId: parseMessageId(readReturned('message-id')[0] ?? readReport('original-message-id')[0]),
    originalListUnsubscribe: readReturned('list-unsubscribe')[0] ?? null,
    ownLocalParts: dedupe([...(report?.ownLocalParts ?? []), ...(returned?.ownLocalParts ?? [])]),
  }
}

const dedupe = (values: readonly string[]): string[] => [...new Set(values)].slice(0, MAX_ADDRESSES)

const GAPS = /[\s\0-\x1f\x7f-\x9f]+/g

function cleanName(value: string | undefined): string | null {
  const name = value?.replace(GAPS, ' ').trim().slice(0, MAX_NAME_LENGTH) ?? ''
  return name === '' ? null : name
}

/**
 * Replacements for a redacted local part, which the provider may choose (RFC 6590 §3). Hashes are not recognised: a
 * hash looks like any local part and matches no recipient.
 */
const REDACTED = /^(?:redacted|removed|hidden|anonymous|anonymized|x+|\*+)$/

/** Returns the addresses in a field value, in any notation: `<a@b>`, `rfc822; a@b`, lists, with names. */
const findAddresses = (value: string): string[] =>
  value
    .split(/[\s<>,;:"()[\]\0-\x1f\x7f-\x9f]+/)
    // Some providers put an address between apostrophes, but an apostrophe can also be part of the address.
    .map((word) => word.replace(/^'+|(?<!')'+$/g, ''))
    .filter((word) => word.length <= MAX_NAME_LENGTH && /^[^@]+@[^@]+$/.test(word))
    .filter((word) => !REDACTED.test(word.slice(0, word.indexOf('@')).toLowerCase()))
    .slice(0, MAX_FIELDS)

/** Returns the fields of the part that makes a message a feedback report. */
function findReportFields(message: ParsedMessage): Fields | undefined {
  const part = message.attachments.find(({ contentType }) => contentType === 'message/feedback-report')
  if (part) return parseFields(removeBlankLines(decodeStart(part)))
  // Some providers send the report as text.
  const isReport = readHeader(message, 'content-type').some((value) =>
    /report-type\s*=\s*"?feedback-report/i.test(value),
  )
  const text = isReport ? (message.text ?? '') : ''
  const start = text.search(/^feedback-type:/im)
  return start === -1 ? undefined : parseFields(removeBlankLines(text.slice(start, start + MAX_HEADER_BYTES)))
}

/** Returns the header of the reported message; undefined when it was not returned. */
function findReturnedFields({ attachments }: ParsedMessage): Fields | undefined {
  const part = attachments.find(({ contentType }) => RETURNED_TYPES.has(contentType))
  return part && parseFields(decodeStart(part).replace(/^[\r\n]+/, ''))
}

/** Decodes the start of an attachment, one character per octet. */
const decodeStart = ({ content }: ParsedAttachment): string =>
  Buffer.from(content.buffer, content.byteOffset, Math.min(content.length, MAX_HEADER_BYTES)).toString('latin1')

const removeBlankLines = (text: string): string =>
  text.replace(/^[\r\n]+/, '').replace(/(?:\r?\n)(?:[ \t]*\r?\n)+/g, '\n')

interface Fields {
  /** Values of a field in order; the name is in lower case. */
  values(name: string): string[]
  readonly ownLocalParts: readonly string[]
}

/** Matches local parts in the form of address/verp.ts, also inside an address that a forwarder has rewritten. */
const OWN_LOCAL_PART = /(?<![a-z0-9])[bu]-[a-z2-7]{32}(?![a-z2-7])/gi

/** Parses a header block, which ends at its first blank line. */
function parseFields(block: string): Fields {
  const fields = decodeFields(readHead(Buffer.from(block, 'latin1'))?.rawFields ?? [], null)
  const byName = Map.groupBy(fields, ([name]) => name.toLowerCase())
  return {
    values: (name) => cleanValues(byName.get(name) ?? []),
    ownLocalParts: dedupe(
      fields.flatMap(([, value]) => value.match(OWN_LOCAL_PART) ?? []).map((word) => word.toLowerCase()),
    ),
  }
}

/** Returns the values of a field of the received message itself. */
const readHeader = ({ headers }: ParsedMessage, fieldName: string): string[] =>
  cleanValues(headers.filter(([name]) => name.toLowerCase() === fieldName))

const cleanValues = (fields: readonly (readonly [name: string, value: string])[]): string[] =>
  fields.slice(0, MAX_FIELDS).map(([, value]) => value.trim().slice(0, MAX_VALUE_LENGTH))
