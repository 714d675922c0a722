/**
 * @module Parses a message that came in (RFC 5322, RFC 2045 to 2047, RFC 2231, RFC 6532), whatever a stranger made of it, within bounds of time and
 * memory. Stands on the splitter, the word decoder and the address parser that mailparser is made of. Makes no text of HTML and no HTML of text.
 */
import type { Transform } from 'node:stream'
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
  MOST_HEAD_BYTES,
  messageIdIn,
  messageIdsIn,
  readHead,
} from './header-fields.ts'
import type { ParsedAttachment, ParsedMessage } from './parsed.ts'
import { type FileWriter, type PartBody, type PartContent, partBody } from './part-body.ts'
import { type MessageSource, sourceOf, startOf } from './source.ts'

/** A message that cannot be parsed; `message` is one sentence that says why. */
export class Unparseable extends Error {
  override readonly name = 'Unparseable'
}

const MOST_PARTS = 10_000
const MOST_LEVELS = 100
const MOST_ATTACHMENTS = 1000
const MOST_PART_HEAD_BYTES = 1024 * 1024
/** Of all parts together: each costs a hundred times its octets. */
const MOST_PART_FIELDS = 200_000
/** Of all parts together. */
const MOST_PART_HEADS_BYTES = 8 * 1024 * 1024
const LONGEST_CONTENT_ID = 998
/** Of all text parts together, and as much of all HTML parts; a part that goes beyond is an attachment as well. */
const MOST_TEXT_BYTES = 2 * 1024 * 1024
/** A larger attachment goes to a file. */
const MOST_BYTES_IN_MEMORY = 256 * 1024

export interface ParseOptions {
  /** Reverse-path of the session, `''` for the null one. */
  readonly mailFrom: string
  /** Makes a file for a large attachment; left out: all of them stay in memory. Whoever gave it removes the files when the message is refused. */
  readonly newFile?: () => FileWriter
}

/** A node of the message's tree, as it is found. */
interface Part {
  readonly node: MimeNode
  readonly parent: Part | undefined
  readonly level: number
  hasChildren: boolean
}

/**
 * Header fields, bodies and attachments of a message. A field that may stand once and stands twice is read where it stands first. A message/rfc822
 * is an attachment, whatever is in it; so is every part that is no text to be read.
 * @throws Unparseable with a reason: more than 1 MiB or 100,000 lines of header, 200,000 fields or 8 MiB of header in all parts, 10,000 parts, 100 levels or 1,000 attachments
 */
export async function parseMessage(message: Uint8Array | MessageSource, options: ParseOptions): Promise<ParsedMessage> {
  const source = message instanceof Uint8Array ? sourceOf(message) : message
  const start = startOf(source, MOST_HEAD_BYTES)
  const head = readHead(start)
  if (!head) throw new Unparseable('The header of the message is longer than 1 MiB or has more than 100,000 lines.')
  const content = await contentOf(piecesOf(source, start, head), options.newFile)
  return { ...headerOf(head.fields, options.mailFrom), ...content }
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

/** Bodies and attachments, part by part: of a part that is over only what is wanted of it stays in memory. */
async function contentOf(pieces: Iterable<Buffer>, newFile: (() => FileWriter) | undefined): Promise<MessageContent> {
  const options = { ignoreEmbedded: true, maxChildNodes: MOST_PARTS, maxHeadSize: MOST_PART_HEAD_BYTES }
  // Its own type knows one event only.
  const splitter = new Splitter(options) as unknown as Transform
  const reader = new PartReader(newFile)
  // Without a pipeline, which costs more than an ordinary message.
  const split = new Promise<void>((resolve, reject) => {
    splitter.on('data', (found: SplitterOutput) => {
      try {
        if (found.type === 'node') reader.begin(found)
        else reader.take(found)
      } catch (error) {
        splitter.destroy(error instanceof Error ? error : new Error(String(error)))
      }
    })
    splitter.on('error', reject)
    splitter.on('close', () => reject(new Error('the splitter was closed')))
    splitter.on('end', resolve)
  })
  try {
    await Promise.all([split, writeAll(splitter, pieces)])
  } catch (error) {
    splitter.destroy()
    throw refused(error)
  }
  return reader.end()
}

async function writeAll(splitter: Transform, pieces: Iterable<Buffer>): Promise<void> {
  for (const piece of pieces) {
    if (splitter.destroyed) return
    if (!splitter.write(piece)) await drained(splitter)
  }
  if (!splitter.destroyed) splitter.end()
}

/** Resolves when it takes more, or nothing any more. */
const drained = (stream: Transform): Promise<void> =>
  new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done).off('close', done)
      resolve()
    }
    stream.on('drain', done).on('close', done)
  })

type MessageContent = Pick<ParsedMessage, 'text' | 'html' | 'attachments'>

/** Gets what the splitter finds, in the order of the message. */
class PartReader {
  readonly #newFile: (() => FileWriter) | undefined
  readonly #parts = new WeakMap<MimeNode, Part>()
  readonly #texts = new TextParts('\n')
  readonly #htmls = new TextParts('<br/>\n')
  readonly #attachments: ParsedAttachment[] = []
  #fieldCount = 0
  #headBytes = 0
  /** The part that was found last, and is over when the next one begins. */
  #open: OpenPart | undefined
  /** A line break of which it is not known yet whether it belongs to the boundary behind it. */
  #heldBack: Buffer | undefined

  constructor(newFile: (() => FileWriter) | undefined) {
    this.#newFile = newFile
  }

  begin(node: MimeNode): void {
    const parent = node.parentNode ? this.#parts.get(node.parentNode) : undefined
    const part: Part = { node, parent, level: (parent?.level ?? 0) + 1, hasChildren: false }
    if (part.level > MOST_LEVELS)
      throw new Unparseable(`The parts of the message lie deeper than ${MOST_LEVELS} levels.`)
    const fields = node.headers === false ? [] : node.headers.getList()
    this.#fieldCount += fields.length
    for (const { line } of fields) this.#headBytes += line.length
    if (this.#fieldCount > MOST_PART_FIELDS || this.#headBytes > MOST_PART_HEADS_BYTES)
      throw new Unparseable('The headers of the parts of the message have more than 200,000 fields or 8 MiB.')
    if (parent) parent.hasChildren = true
    this.#close()
    this.#parts.set(node, part)
    this.#open = { part, reading: undefined }
  }

  take({ type, node, value }: Exclude<SplitterOutput, MimeNode>): void {
    const held = this.#heldBack
    this.#heldBack = undefined
    const open = this.#open
    if (!open) return
    // The splitter tells the line break before a boundary as the body of a part that has none.
    const isBoundary = type === 'data' && value[0] === DASH && value[1] === DASH
    if (held && !isBoundary) this.#readingOf(open).body.push(held)
    if (open.part.node !== node) return
    // Of a multipart whose parts are not found, what stands there is all there is.
    if (type === 'data' && (node.multipart === false || open.part.hasChildren)) return
    const isFirst = open.reading === undefined || open.reading.body.isEmpty
    if (isFirst && open.part.parent && isLineBreak(value)) this.#heldBack = value
    else this.#readingOf(open).body.push(value)
  }

  end(): MessageContent {
    this.#close()
    return { text: this.#texts.joined(), html: this.#htmls.joined(), attachments: this.#attachments }
  }

  /** How the content of a part is read is known when it begins: all before it is there then. */
  #readingOf(open: OpenPart): Reading {
    if (open.reading) return open.reading
    const { part } = open
    const type = typeOf(part)
    const filename = part.node.filename === false ? null : safeFilename(decodeValue(part.node.filename))
    const isFirst = this.#texts.isEmpty && this.#htmls.isEmpty
    const texts =
      isReadable(part, type) && (filename === null || isFirst)
        ? type === 'text/html'
          ? this.#htmls
          : this.#texts
        : undefined
    const encoding = part.node.multipart === false && part.node.encoding !== false ? part.node.encoding : ''
    // Of a text one character more, to see whether one was cut in half.
    const memoryBytes = Math.max(MOST_BYTES_IN_MEMORY, (texts?.roomBytes ?? 0) + LONGEST_CHARACTER_BYTES)
    open.reading = { type, filename, texts, body: partBody(encoding, memoryBytes, this.#newFile) }
    return open.reading
  }

  #close(): void {
    const open = this.#open
    this.#open = undefined
    if (!open) return
    const { part } = open
    const { node } = part
    if (this.#heldBack) this.#readingOf(open).body.push(this.#heldBack)
    this.#heldBack = undefined
    if (node.multipart !== false && (part.hasChildren || open.reading === undefined)) return
    const { type, filename, texts, body } = this.#readingOf(open)
    const content = body.end()
    if (texts?.add(part, type, content)) return
    if (this.#attachments.length === MOST_ATTACHMENTS)
      throw new Unparseable(`The message has more than ${MOST_ATTACHMENTS} attachments.`)
    const contentId = contentIdOf(part)
    this.#attachments.push({
      filename,
      contentType: type,
      contentId,
      disposition: texts === undefined && isInline(part, contentId) ? 'inline' : 'attachment',
      ...kept(content),
    })
  }
}

interface OpenPart {
  readonly part: Part
  /** Undefined until there is some content. */
  reading: Reading | undefined
}

interface Reading {
  readonly type: string
  readonly filename: string | null
  /** Where its text goes; undefined: it is an attachment. */
  readonly texts: TextParts | undefined
  readonly body: PartBody
}

const DASH = 0x2d

const isLineBreak = (value: Uint8Array): boolean =>
  (value.length === 1 && value[0] === 0x0a) || (value.length === 2 && value[0] === 0x0d && value[1] === 0x0a)

/** Texts of one kind, within a bound. */
class TextParts {
  roomBytes = MOST_TEXT_BYTES
  readonly #between: string
  readonly #texts: string[] = []

  constructor(between: string) {
    this.#between = between
  }

  get isEmpty(): boolean {
    return this.#texts.length === 0
  }

  /** False: there is no room for all of it, and the end is left out. */
  add(part: Part, type: string, { start, sizeBytes }: PartContent): boolean {
    const isWhole = sizeBytes <= this.roomBytes
    const text = textOf(part, type, isWhole ? start : cutBefore(start, this.roomBytes))
    this.roomBytes = isWhole ? this.roomBytes - sizeBytes : 0
    if (text !== '') this.#texts.push(text)
    return isWhole
  }

  joined(): string | null {
    return this.#texts.length === 0 ? null : this.#texts.join(this.#between)
  }
}

/** Of UTF-8. */
const LONGEST_CHARACTER_BYTES = 4
/** A line that is longer is cut inside. */
const LONGEST_LINE_LEFT_OUT = 64 * 1024

/** The beginning of a text, up to a line end; in a long line at least not inside a character of UTF-8. */
function cutBefore(bytes: Uint8Array, mostBytes: number): Uint8Array {
  if (mostBytes === 0) return bytes.subarray(0, 0)
  const lineEnd = bytes.lastIndexOf(0x0a, mostBytes - 1) + 1
  // Even, for charsets of two octets.
  if (lineEnd > mostBytes - LONGEST_LINE_LEFT_OUT) return bytes.subarray(0, lineEnd - (lineEnd % 2))
  let end = mostBytes
  while (end > mostBytes - LONGEST_CHARACTER_BYTES && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--
  return bytes.subarray(0, end)
}

/** In a buffer of its own, which can be given away: what was not encoded still lies in the raw message. */
function kept({ start, file }: PartContent): Pick<ParsedAttachment, 'content' | 'file'> {
  if (file) return { content: start.slice(0, MOST_BYTES_IN_MEMORY), file }
  const isOwn = start.byteOffset === 0 && start.buffer.byteLength === start.length && !(start instanceof Buffer)
  return { content: isOwn ? start : new Uint8Array(start) }
}

function refused(error: unknown): unknown {
  if (!(error instanceof Error && 'code' in error && error.code === 'EMAXLEN')) return error
  return error.message.includes('header')
    ? new Unparseable('The header of a part of the message is longer than 1 MiB.')
    : new Unparseable(`The message has more than ${MOST_PARTS} parts.`)
}

/**
 * What the splitter needs of a message, piece by piece: of the header the fields about the content, since each field costs it a hundred times its
 * octets, then a blank line, which may be missing, and the body.
 */
function* piecesOf(source: MessageSource, start: Uint8Array, { end, isClosed, contentLines }: Head): Generator<Buffer> {
  const hasTooMany = carriageReturnCounter()
  for (const [from, to] of contentLines) {
    const line = asBuffer(start.subarray(from, to))
    checkReturns(hasTooMany(line))
    yield line
    if (line.at(-1) !== LF) yield CRLF
  }
  if (!isClosed) yield CRLF
  let position = 0
  for (const slice of source.slices()) {
    const body = asBuffer(slice.subarray(Math.max(0, end - position)))
    position += slice.length
    checkReturns(hasTooMany(body))
    if (body.length > 0) yield body
  }
}

const LF = 0x0a
const CRLF = Buffer.from('\r\n')

const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)

function checkReturns(hasTooMany: boolean): void {
  if (hasTooMany) throw new Unparseable('The message has more than 1,000 carriage returns in a row, which no mail has.')
}

const MOST_CARRIAGE_RETURNS = 1000
const CR = 0x0d

/** Whether more than 1,000 carriage returns stand in a row: the splitter looks at a header with many of them once for each. */
function carriageReturnCounter(): (slice: Uint8Array) => boolean {
  /** At the end of what was seen. */
  let run = 0
  return (slice) => {
    let leading = 0
    while (slice[leading] === CR) leading++
    if (run + leading > MOST_CARRIAGE_RETURNS) return true
    if (leading === slice.length) {
      run += leading
      return false
    }
    // A run of 1,000 has one at a multiple of 1,000.
    for (let index = MOST_CARRIAGE_RETURNS - 1; index < slice.length; index += MOST_CARRIAGE_RETURNS) {
      if (slice[index] !== CR) continue
      let start = index
      let end = index
      while (slice[start - 1] === CR) start--
      while (slice[end + 1] === CR) end++
      if (end - start + 1 > MOST_CARRIAGE_RETURNS) return true
    }
    let end = slice.length
    while (slice[end - 1] === CR) end--
    run = slice.length - end
    return false
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

function textOf({ node }: Part, type: string, bytes: Uint8Array): string {
  const charset = node.charset === false ? null : node.charset
  const text = (type === 'text/html' ? decodeHtml(bytes, charset) : decodeText(bytes, charset))
    .replaceAll('\0', '')
    .replaceAll('\r\n', '\n')
  return node.flowed && type === 'text/plain' ? libmime.decodeFlowed(text, node.delSp) : text
}

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
