/**
 * @module Reads the header of a received message (RFC 5322 §2.2, §3.6, RFC 2047, RFC 6532): finds its end, its fields
 * and their values.
 */
import addressparser, { type AddressOrGroup } from 'nodemailer/lib/addressparser'
import { decodeHeaderText } from './charset.ts'
import { decodeWords } from './encoded-words.ts'

/** Name and value as written, unfolded; encoded words are still encoded. */
export type HeaderField = readonly [name: string, value: string]

export interface Head {
  /** One character per octet; `decodeFields` converts them to text. */
  readonly rawFields: readonly HeaderField[]
  /** Offset of what follows the fields. */
  readonly end: number
  /** Whether the header ends with the required blank line. */
  readonly isClosed: boolean
  /** Start and end of each line of the fields that describe the content: Content-Type and the like. */
  readonly contentLines: readonly (readonly [start: number, end: number])[]
}

/** A longer header is rejected. */
export const MAX_HEAD_BYTES = 1024 * 1024
const MAX_HEAD_LINES = 100_000
/** Maximum length of the joined address fields; a list of 5,000 addresses is half as long as this. */
const MAX_ADDRESS_LENGTH = 256 * 1024
const MAX_ADDRESSES = 1000
const MAX_REFERENCES = 1000
const MAX_MESSAGE_ID_LENGTH = 998

const FIELD = /^([!-9;-~]+)[ \t]*:/
const OF_CONTENT = /^content-/i
/**
 * Fields that do not occur in a body: a line that is not a field, but is followed by one of these, is a broken header
 * line and not the start of the body.
 */
const WELL_KNOWN =
  /^(?:received|from|to|cc|subject|date|message-id|mime-version|content-[a-z-]+|return-path|dkim-signature|reply-to|references|in-reply-to|list-[a-z-]+)[ \t]*:/i

/**
 * Reads the header at the start of a message or part. Where the blank line after the header is missing, the header ends
 * before the first line that is not a field, unless well-known fields follow that line.
 * @returns undefined when the header is longer than 1 MiB or has more than `maxLines`
 */
export function readHead(raw: Uint8Array, maxLines = MAX_HEAD_LINES): Head | undefined {
  const bytes = Buffer.from(raw.buffer, raw.byteOffset, raw.length)
  const fields: string[][] = []
  const contentLines: [start: number, end: number][] = []
  let position = 0
  let lineCount = 0
  /** The first line that is not a field, and the number of fields before it. */
  let broken: { readonly at: number; readonly fieldCount: number } | undefined
  const buildUnclosed = (at: number): Head => {
    const end = broken?.at ?? at
    return {
      rawFields: unfold(broken ? fields.slice(0, broken.fieldCount) : fields),
      end,
      isClosed: false,
      contentLines: contentLines.filter(([start]) => start < end),
    }
  }

  while (position < bytes.length) {
    const lineFeed = bytes.indexOf(0x0a, position)
    const next = lineFeed === -1 ? bytes.length : lineFeed + 1
    if (broken === undefined && (++lineCount > maxLines || next > MAX_HEAD_BYTES)) return undefined
    // Beyond this limit, no field can show that a broken line belongs to the header, so the body begins at the broken
    // line.
    if (next > MAX_HEAD_BYTES) break
    const line = decodeLine(bytes, position, next)
    if (line === '') {
      if (broken) break
      return { rawFields: unfold(fields), end: position, isClosed: true, contentLines }
    }
    const isFolded = line.startsWith(' ') || line.startsWith('\t')
    const isField = FIELD.test(line)
    if (isField && broken && WELL_KNOWN.test(line)) broken = undefined
    const field = fields.at(-1)
    if (isFolded && field && fields.length > (broken?.fieldCount ?? 0)) {
      field.push(line)
      if (OF_CONTENT.test(field[0] ?? '')) contentLines.push([position, next])
    } else if (isField) {
      fields.push([line])
      if (OF_CONTENT.test(line)) contentLines.push([position, next])
    }
    // A line that begins with `From ` shows that the message comes from a mailbox file (RFC 4155).
    else if (!(position === 0 && /^>?From /.test(line))) broken ??= { at: position, fieldCount: fields.length }
    position = next
  }
  return buildUnclosed(bytes.length)
}

/** Returns a line without its line end, one character per octet. */
function decodeLine(bytes: Buffer, start: number, next: number): string {
  let end = next
  if (end > start && bytes[end - 1] === 0x0a) end--
  if (end > start && bytes[end - 1] === 0x0d) end--
  return bytes.toString('latin1', start, end)
}

const unfold = (fields: readonly string[][]): HeaderField[] =>
  fields.map((lines) => {
    const text = lines.length === 1 ? (lines[0] ?? '') : lines.join('')
    const colon = text.indexOf(':')
    return [text.slice(0, colon).trim(), text.slice(colon + 1)]
  })

/**
 * Decodes fields to Unicode.
 * @param bodyCharset charset for text that should have been encoded and is not UTF-8; null stands for windows-1252
 */
export const decodeFields = (rawFields: readonly HeaderField[], bodyCharset: string | null): HeaderField[] =>
  rawFields.map(([name, value]) => [name, decodeHeaderText(value, bodyCharset)])

/** Decodes a value for display: decodes encoded words and removes control characters. */
export const decodeValue = (value: string): string => removeControls(decodeWords(value))

/** Replaces control characters with spaces, so that an encoded line break does not become a real one. Removes NUL. */
const removeControls = (text: string): string =>
  text
    .replaceAll('\0', '')
    .replaceAll(/[\x01-\x08\x0a-\x1f\x7f]/g, ' ')
    .trim()
    .toWellFormed()

export interface Addresses {
  /** The decoded values as one list for display: `Name <address>, …`. */
  readonly text: string
  /** Addresses only; at most 1,000. */
  readonly addresses: readonly string[]
}

/** Parses the addresses of one or more fields of the same name; null when there is no field. */
export function parseAddresses(values: readonly string[]): Addresses | null {
  if (values.length === 0) return null
  const joined = values.join(', ')
  const entries = addressparser(joined.slice(0, MAX_ADDRESS_LENGTH))
  const addresses = entries
    .flatMap((entry) => (entry.group ? entry.group : [entry]))
    .flatMap(({ address }) => parseAddress(address))
  // A value that contains no address is shown unchanged: `undisclosed-recipients:;`.
  const text =
    addresses.length === 0 || joined.length > MAX_ADDRESS_LENGTH
      ? decodeValue(joined)
      : entries
          .map(formatEntry)
          .filter((entry) => entry !== '')
          .join(', ')
  return { text, addresses: addresses.slice(0, MAX_ADDRESSES) }
}

function parseAddress(address: string | undefined): string[] {
  const text = removeControls(address ?? '')
  return text.includes('@') ? [text] : []
}

function formatEntry(entry: AddressOrGroup): string {
  const name = decodeValue(entry.name)
  if (entry.group) return `${quoteName(name)}: ${entry.group.map(formatEntry).join(', ')};`
  const address = removeControls(entry.address ?? '')
  if (name === '') return address
  return address === '' ? quoteName(name) : `${quoteName(name)} <${address}>`
}

/** Quotes a name (RFC 5322 §3.2.5), so that a comma or an address in the name is not taken for the next address. */
const quoteName = (name: string): string =>
  /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~ \u0080-\uffff]*$/.test(name) ? name : `"${name.replaceAll(/["\\]/g, '\\$&')}"`

/** Returns the first message id of a value, with angle brackets; null: none. */
export const parseMessageId = (value: string | undefined): string | null =>
  value === undefined ? null : (parseMessageIds(value)[0] ?? null)

/**
 * Returns the message ids of a value, with angle brackets. If there are more than 1,000, returns the first, which began
 * the thread, and the last 999.
 */
export function parseMessageIds(value: string): string[] {
  const text = decodeValue(value)
  const found = text.includes('<')
    ? (text.match(/<[^<>]*>/g) ?? []).map((id) => id.replaceAll(/\s+/g, ''))
    : text.split(/[\s,]+/).map((id) => `<${id.replaceAll('>', '')}>`)
  const ids = found.filter((id) => id.length > 2 && id.length <= MAX_MESSAGE_ID_LENGTH)
  return ids.length > MAX_REFERENCES ? [ids[0] ?? '', ...ids.slice(1 - MAX_REFERENCES)] : ids
}

/** A date as RFC 5322 §3.3 and §4.3 define it, as far as the runtime does not check it. */
const DATE = /^(?:[A-Za-z]{3,9}\.?,?\s*)?\d{1,2}[\s-]+[A-Za-z]{3,9}\.?,?[\s-]+\d{2,4}\s+\d{1,2}:\d{2}/
const ZONE = /(?:[+-]\d{4}|\s(?:GMT|UTC?|[ECMP][SD]T))$/i
const RFC_3339 = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:?\d{2})?$/

/**
 * Returns milliseconds since the epoch; null when the value is not a date between 1970 and 9999. An unknown zone counts
 * as UTC (RFC 5322 §4.3).
 */
export function parseDate(value: string | undefined): number | null {
  const text = decodeValue(value ?? '').slice(0, 200)
  const time = RFC_3339.test(text) ? Date.parse(text.replace(' ', 'T')) : parseInternetDate(text)
  return time !== undefined && time >= 0 && time < Date.UTC(10_000, 0) ? time : null
}

const NAME_AFTER_OFFSET = /(?<=[+-]\d{4})\s{0,3}[A-Za-z]{1,5}$/
const NAME_WITHOUT_BLANK = /(?<=\d)(?=[A-Za-z]{1,5}$)/

/** Without a zone, the runtime would take its own; it rejects `+0200 CEST` and `10:00:00GMT`. */
function parseInternetDate(text: string): number | undefined {
  const [written = ''] = text.split('(')
  const date = written.trim().replace(NAME_AFTER_OFFSET, '').replace(NAME_WITHOUT_BLANK, ' ')
  if (!DATE.test(date)) return undefined
  return Date.parse(ZONE.test(date) ? date : `${date.replace(/\s[A-Za-z]{1,5}$/, '')} +0000`)
}
