/**
 * @module Parses a message that came in (RFC 5322, RFC 2045 to 2047, RFC 2231, RFC 6532), whatever a stranger made of it, within bounds of time and
 * memory. Stands on the splitter, the word decoder and the address parser that mailparser is made of. Makes no text of HTML and no HTML of text.
 */
import { pipeline } from 'node:stream/promises'
import { type MimeNode, Splitter } from '@zone-eu/mailsplit'
import libmime from 'libmime'
import { decodeHtml, decodeText } from './charset.ts'
import { safeFilename } from './filename.ts'
import {
  addressesOf,
  dateOf,
  decodeValue,
  type Head,
  type HeaderField,
  messageIdIn,
  messageIdsIn,
  readHead,
} from './header-fields.ts'
import type { ParsedAttachment, ParsedMessage } from './parsed.ts'
import { decodeTransfer } from './transfer-encoding.ts'

/** A message that cannot be parsed; `message` is one sentence that says why. */
export class Unparseable extends Error {
  override readonly name = 'Unparseable'
}

const MOST_PARTS = 10_000
const MOST_LEVELS = 100
const MOST_ATTACHMENTS = 1000
const MOST_PART_HEAD_BYTES = 1024 * 1024
/** Of all parts together: each costs a hundred times its octets. */
const MOST_HEAD_LINES = 200_000
const LONGEST_CONTENT_ID = 998
/** What is given to the splitter at once: it lets others have their turn in between. */
const CHUNK_BYTES = 64 * 1024

/** A node of the message's tree, as it is found. */
interface Part {
  readonly node: MimeNode
  readonly parent: Part | undefined
  readonly level: number
  readonly chunks: Uint8Array[]
  hasChildren: boolean
}

/**
 * Header fields, bodies and attachments of a message. A field that may stand once and stands twice is read where it stands first. A message/rfc822
 * is an attachment, whatever is in it; so is every part that is no text to be read.
 * @param facts `mailFrom`: reverse-path of the session, `''` for the null one
 * @throws Unparseable with a reason: more than 1 MiB or 100,000 lines of header, 200,000 fields, 10,000 parts, 100 levels or 1,000 attachments
 */
export async function parseMessage(raw: Uint8Array, facts: { readonly mailFrom: string }): Promise<ParsedMessage> {
  const head = readHead(raw)
  if (!head) throw new Unparseable('The header of the message is longer than 1 MiB or has more than 100,000 lines.')
  if (hasManyCarriageReturns(raw))
    throw new Unparseable('The message has more than 1,000 carriage returns in a row, which no mail has.')
  const parts = await partsOf(raw, head)
  return { ...headerOf(head.fields, facts.mailFrom), ...contentOf(parts) }
}

function headerOf(
  fields: readonly HeaderField[],
  mailFrom: string,
): Omit<ParsedMessage, 'text' | 'html' | 'attachments'> {
  const byName = Map.groupBy(fields, ([name]) => name.toLowerCase())
  const all = (name: string): string[] => byName.get(name)?.map(([, value]) => value) ?? []
  const first = (name: string): string | undefined => byName.get(name)?.[0]?.[1]
  const from = addressesOf(all('from').slice(0, 1))
  const to = addressesOf(all('to'))
  return {
    headers: fields.map(([name, value]) => [name, decodeValue(value)] as const),
    from: from?.text ?? null,
    to: to?.text ?? null,
    cc: addressesOf(all('cc'))?.text ?? null,
    replyTo: addressesOf(all('reply-to').slice(0, 1))?.text ?? null,
    fromAddresses: from?.addresses ?? [],
    toAddresses: to?.addresses ?? [],
    subject: decodeValue(first('subject') ?? ''),
    messageId: messageIdIn(first('message-id')),
    inReplyTo: messageIdIn(first('in-reply-to')),
    references: messageIdsIn(all('references').join(' ')),
    dateMs: dateOf(first('date')),
    isAutomatic: mailFrom === '' || saysAutomatic(all),
  }
}

function saysAutomatic(all: (name: string) => readonly string[]): boolean {
  const words = (name: string): string[] =>
    all(name).map((value) => (/^[a-z-]*/i.exec(value.trim())?.[0] ?? '').toLowerCase())
  return (
    words('auto-submitted').some((word) => word !== 'no') ||
    words('precedence').some((word) => word === 'bulk' || word === 'list' || word === 'junk') ||
    all('list-id').length > 0 ||
    all('x-auto-response-suppress').length > 0
  )
}

type SplitterOutput = MimeNode | { readonly type: 'data' | 'body'; readonly node: MimeNode; readonly value: Buffer }

/** All parts in the order of the message; the first one is the message itself. */
async function partsOf(raw: Uint8Array, head: Head): Promise<Part[]> {
  const splitter = new Splitter({ ignoreEmbedded: true, maxChildNodes: MOST_PARTS, maxHeadSize: MOST_PART_HEAD_BYTES })
  const parts: Part[] = []
  const byNode = new Map<MimeNode, Part>()
  let headLineCount = 0
  const add = (node: MimeNode): void => {
    const parent = node.parentNode ? byNode.get(node.parentNode) : undefined
    const part: Part = { node, parent, level: (parent?.level ?? 0) + 1, chunks: [], hasChildren: false }
    if (part.level > MOST_LEVELS)
      throw new Unparseable(`The parts of the message lie deeper than ${MOST_LEVELS} levels.`)
    headLineCount += node.headers === false ? 0 : node.headers.getList().length
    if (headLineCount > MOST_HEAD_LINES)
      throw new Unparseable('The headers of the parts of the message have more than 200,000 fields.')
    if (parent) parent.hasChildren = true
    byNode.set(node, part)
    parts.push(part)
  }
  try {
    await pipeline(piecesOf(raw, head), splitter, async (found: AsyncIterable<SplitterOutput>) => {
      for await (const item of found) {
        if (item.type === 'node') add(item)
        else {
          const part = byNode.get(item.node)
          // Of a multipart whose parts are not found, what stands there is all there is.
          if (part && (item.type === 'body' || (part.node.multipart !== false && !part.hasChildren)))
            if (!belongsToBoundary(part, item.value, raw)) part.chunks.push(item.value)
        }
      }
    })
  } catch (error) {
    throw refused(error)
  }
  return parts
}

/** The splitter tells the line break before a boundary as the body of a part that has none. */
function belongsToBoundary({ parent, chunks }: Part, value: Buffer, raw: Uint8Array): boolean {
  if (!parent || chunks.length > 0 || value.length > 2 || value.buffer !== raw.buffer || value.at(-1) !== 0x0a)
    return false
  const next = value.byteOffset + value.length - raw.byteOffset
  return raw[next] === 0x2d && raw[next + 1] === 0x2d && (value.length === 1 || value[0] === 0x0d)
}

function refused(error: unknown): unknown {
  if (!(error instanceof Error && 'code' in error && error.code === 'EMAXLEN')) return error
  return error.message.includes('header')
    ? new Unparseable('The header of a part of the message is longer than 1 MiB.')
    : new Unparseable(`The message has more than ${MOST_PARTS} parts.`)
}

/** The message piece by piece, with the blank line after the header that may be missing. */
function* piecesOf(raw: Uint8Array, { end, isClosed }: Head): Generator<Buffer> {
  const between = function* (start: number, stop: number): Generator<Buffer> {
    for (let position = start; position < stop; position += CHUNK_BYTES)
      yield Buffer.from(raw.buffer, raw.byteOffset + position, Math.min(CHUNK_BYTES, stop - position))
  }
  yield* between(0, end)
  if (!isClosed) yield Buffer.from(end === 0 || raw[end - 1] === 0x0a ? '\r\n' : '\r\n\r\n')
  yield* between(end, raw.length)
}

const MOST_CARRIAGE_RETURNS = 1000

/** The splitter looks at a header with many of them once for each. */
function hasManyCarriageReturns(raw: Uint8Array): boolean {
  const bytes = Buffer.from(raw.buffer, raw.byteOffset, raw.length)
  // A run of 1,000 has one at a multiple of 1,000.
  for (let index = MOST_CARRIAGE_RETURNS - 1; index < bytes.length; index += MOST_CARRIAGE_RETURNS) {
    if (bytes[index] !== 0x0d) continue
    let start = index
    let end = index
    while (bytes[start - 1] === 0x0d) start--
    while (bytes[end + 1] === 0x0d) end++
    if (end - start + 1 > MOST_CARRIAGE_RETURNS) return true
  }
  return false
}

function contentOf(parts: readonly Part[]): Pick<ParsedMessage, 'text' | 'html' | 'attachments'> {
  const texts: string[] = []
  const htmls: string[] = []
  const attachments: ParsedAttachment[] = []
  for (const part of parts) {
    if (part.node.multipart !== false && (part.hasChildren || part.chunks.length === 0)) continue
    const type = typeOf(part)
    const filename = part.node.filename === false ? null : safeFilename(decodeValue(part.node.filename))
    const isFirst = texts.length === 0 && htmls.length === 0
    if (isReadable(part, type) && (filename === null || isFirst)) {
      const text = textOf(part, type)
      if (text !== '') (type === 'text/html' ? htmls : texts).push(text)
      continue
    }
    if (attachments.length === MOST_ATTACHMENTS)
      throw new Unparseable(`The message has more than ${MOST_ATTACHMENTS} attachments.`)
    const contentId = contentIdOf(part)
    attachments.push({
      filename,
      contentType: type,
      contentId,
      disposition: isInline(part, contentId) ? 'inline' : 'attachment',
      content: ownBytes(bytesOf(part)),
    })
  }
  return {
    text: texts.length === 0 ? null : texts.join('\n'),
    html: htmls.length === 0 ? null : htmls.join('<br/>\n'),
    attachments,
  }
}

const TYPE = /^[a-z0-9!#$&^_.+-]{1,127}\/[a-z0-9!#$&^_.+-]{1,127}$/

function typeOf({ node, parent, hasChildren }: Part): string {
  if (node.multipart !== false && !hasChildren) return 'text/plain'
  const isSaid = node.headers !== false && node.headers.hasHeader('content-type')
  // RFC 2046 §5.1.5.
  if (!isSaid && parent?.node.multipart === 'digest') return 'message/rfc822'
  const type = node.contentType || 'text/plain'
  if (TYPE.test(type)) return type
  // RFC 2045 §5.2: what is no type is text, as long as it is not named like a file.
  return node.filename === false ? 'text/plain' : 'application/octet-stream'
}

/** Whether it is text to be read, not a file. RFC 2183 §2.8: a disposition that is not known is `attachment`. */
const isReadable = ({ node }: Part, type: string): boolean =>
  (type === 'text/plain' || type === 'text/html') &&
  (node.disposition === false || node.disposition === '' || node.disposition === 'inline')

function textOf(part: Part, type: string): string {
  const bytes = bytesOf(part)
  const charset = part.node.charset === false ? null : part.node.charset
  const text = (type === 'text/html' ? decodeHtml(bytes, charset) : decodeText(bytes, charset))
    .replaceAll('\0', '')
    .replaceAll('\r\n', '\n')
  return part.node.flowed && type === 'text/plain' ? libmime.decodeFlowed(text, part.node.delSp) : text
}

function bytesOf({ node, chunks }: Part): Uint8Array {
  const encoded = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)
  return decodeTransfer(encoded, node.multipart === false && node.encoding !== false ? node.encoding : '')
}

/** In a buffer of their own, which can be given away: what was not encoded still lies in the raw message. */
const ownBytes = (bytes: Uint8Array): Uint8Array => (bytes instanceof Buffer ? new Uint8Array(bytes) : bytes)

function contentIdOf({ node }: Part): string | null {
  const value = node.headers === false ? '' : node.headers.getFirst('content-id')
  const id = decodeValue(value)
    .replaceAll(/[<>\s]/g, '')
    .slice(0, LONGEST_CONTENT_ID)
    .toWellFormed()
  return id === '' ? null : id
}

function isInline(part: Part, contentId: string | null): boolean {
  if (part.node.disposition !== false && part.node.disposition !== '') return part.node.disposition === 'inline'
  if (contentId === null) return false
  for (let above = part.parent; above; above = above.parent) if (above.node.multipart === 'related') return true
  return false
}
