/**
 * @module Reads the parts of a message as the splitter of `parse.ts` finds them: joins texts and makes everything else
 * an attachment, within limits on number, depth and memory. What a part is follows from its header and those of the
 * parts that contain it (RFC 2045, RFC 2046, RFC 2183, RFC 3676). Retains only the results of a finished part.
 */
import { escapeUTF8 } from 'entities'
import libmime from 'libmime'
import { cleanFilename, formatContentType, isAlternativeType, SEALED_TYPE } from './attachment.ts'
import { decodeHeaderText, decodeHtml, decodeText, isMeaningfulCharset } from './charset.ts'
import { decodeValue } from './header-fields.ts'
import { type ParsedAttachment, type ParsedMessage, type PartForm, UnparseableError } from './parsed.ts'
import { createPartBody, type FileWriter, type PartBody, type PartContent } from './part-body.ts'
import type { PartNode } from './part-splitter.ts'
import { decodeParameter } from './structured-field.ts'

const MAX_LEVELS = 100
const MAX_ATTACHMENTS = 1000
/** Limit for the fields of all parts together, because a field takes a hundred times its octets in memory. */
const MAX_PART_FIELDS = 200_000
/** Limit for the headers of all parts together. */
const MAX_PART_HEADS_BYTES = 8 * 1024 * 1024
/**
 * Limit for all text parts together, and the same limit for all HTML parts together. A part that exceeds the limit is
 * also an attachment.
 */
const MAX_TEXT_BYTES = 2 * 1024 * 1024
/** An attachment larger than this goes to a file. */
const MAX_MEMORY_BYTES = 256 * 1024
const MAX_CONTENT_ID_LENGTH = 998

export type SplitterOutput =
  | PartNode
  | { readonly type: 'data' | 'body'; readonly node: PartNode; readonly value: Buffer }

export interface MessageContent extends Pick<ParsedMessage, 'text' | 'html' | 'attachments'> {
  /** The charset of the first text that declares a meaningful one; null when no text does. */
  readonly charset: string | null
}

/** Receives the output of the splitter, in the order of the message. */
export class PartReader {
  readonly #newFile: (() => FileWriter) | undefined
  readonly #forSending: boolean
  readonly #parts = new WeakMap<PartNode, Part>()
  readonly #texts = new TextCollector('\n')
  readonly #htmls = new TextCollector('<br/>\n', true)
  /**
   * Attachments with their nodes. Their names are decoded at the end: a later text may declare the charset that the
   * names use.
   */
  readonly #attachments: { readonly node: PartNode; readonly attachment: Omit<ParsedAttachment, 'filename'> }[] = []
  #charset: string | null = null
  #fieldCount = 0
  #headBytes = 0
  /** The last part found, which ends when the next part begins. */
  #open: OpenPart | undefined
  /** A line break that may belong to the boundary that follows. */
  #heldLineBreak: Buffer | undefined

  /** @param forSending whether attachments get their `form` */
  constructor(newFile: (() => FileWriter) | undefined, forSending: boolean) {
    this.#newFile = newFile
    this.#forSending = forSending
  }

  beginPart(node: PartNode): void {
    const parent = node.parentNode ? this.#parts.get(node.parentNode as PartNode) : undefined
    const part: Part = { node, parent, level: (parent?.level ?? 0) + 1, hasChildren: false }
    if (part.level > MAX_LEVELS)
      throw new UnparseableError(`The parts of the message are nested more than ${MAX_LEVELS} levels deep.`)
    this.#fieldCount += node.rawFields.length
    this.#headBytes += node._headerlen
    if (this.#fieldCount > MAX_PART_FIELDS || this.#headBytes > MAX_PART_HEADS_BYTES)
      throw new UnparseableError('The headers of the parts of the message have more than 200,000 fields or 8 MiB.')
    if (parent) parent.hasChildren = true
    this.#close()
    this.#parts.set(node, part)
    this.#open = { part, reading: undefined }
  }

  addContent({ type, node, value }: Exclude<SplitterOutput, PartNode>): void {
    const held = this.#heldLineBreak
    this.#heldLineBreak = undefined
    const open = this.#open
    if (!open) return
    // The splitter reports the line break before a boundary as the body of an empty part, so such a line break is held
    // back until the next output.
    const isBoundary = type === 'data' && value[0] === DASH && value[1] === DASH
    if (held && !isBoundary) this.#getReading(open).body.push(held)
    if (open.part.node !== node) return
    // Ignores text outside of the parts (preamble, epilogue), unless the multipart has no parts.
    if (type === 'data' && (node.multipart === false || open.part.hasChildren)) return
    const isFirst = open.reading === undefined || open.reading.body.isEmpty
    if (isFirst && open.part.parent && isLineBreak(value)) this.#heldLineBreak = value
    else this.#getReading(open).body.push(value)
  }

  end(): MessageContent {
    this.#close()
    const charset = this.#charset
    return {
      charset,
      text: this.#texts.join(),
      html: this.#htmls.join(),
      attachments: this.#attachments.map(({ node, attachment }) => ({
        filename: readFilename(node, charset),
        ...attachment,
      })),
    }
  }

  /** Whether a text is shown after the HTML, such as the footer of a mailing list, instead of in its place. */
  #isBelowHtml(part: Part, type: string): boolean {
    if (!this.#forSending || type !== 'text/plain' || this.#htmls.isEmpty) return false
    for (let above = part.parent; above; above = above.parent) if (above.node.multipart === 'alternative') return false
    return true
  }

  /** Called when the content begins, because all properties that decide how to read the content are known then. */
  #getReading(open: OpenPart): Reading {
    if (open.reading) return open.reading
    const { part } = open
    const type = resolveType(part)
    const isNamed = readFilename(part.node, null) !== null
    const isFirst = this.#texts.isEmpty && this.#htmls.isEmpty
    const texts =
      isReadableText(part, type) && (!isNamed || isFirst)
        ? type === 'text/html'
          ? this.#htmls
          : this.#texts
        : undefined
    const encoding = part.node.multipart === false && part.node.encoding !== false ? part.node.encoding : ''
    // For a text, one character more is kept, to detect whether truncation split a character.
    const memoryBytes = Math.max(MAX_MEMORY_BYTES, (texts?.remainingBytes ?? 0) + MAX_CHARACTER_BYTES)
    open.reading = { type, texts, body: createPartBody(encoding, memoryBytes, this.#newFile) }
    return open.reading
  }

  #close(): void {
    const open = this.#open
    this.#open = undefined
    if (!open) return
    const { part } = open
    const { node } = part
    if (this.#heldLineBreak) this.#getReading(open).body.push(this.#heldLineBreak)
    this.#heldLineBreak = undefined
    if (node.multipart !== false && (part.hasChildren || open.reading === undefined)) return
    const { type, texts, body } = this.#getReading(open)
    const content = body.end()
    if (texts && node.charset !== false && isMeaningfulCharset(node.charset)) this.#charset ??= node.charset
    if (texts && this.#isBelowHtml(part, type) && this.#htmls.add(part, type, content) && this.#texts.isEmpty) return
    if (texts?.add(part, type, content)) return
    if (this.#attachments.length === MAX_ATTACHMENTS)
      throw new UnparseableError(`The message has more than ${MAX_ATTACHMENTS} attachments.`)
    const contentId = readContentId(part)
    this.#attachments.push({
      node,
      attachment: {
        contentType: type,
        contentId,
        disposition: texts === undefined && isInline(part, contentId) ? 'inline' : 'attachment',
        ...toOwnContent(content),
        ...(this.#forSending && { form: readForm(part, type) }),
      },
    })
  }
}

const readFilename = ({ rawFilename }: PartNode, bodyCharset: string | null): string | null =>
  rawFilename ? cleanFilename(decodeParameter(rawFilename, bodyCharset)) : null

/** A node of the message's tree, filled as the message is read. */
interface Part {
  readonly node: PartNode
  readonly parent: Part | undefined
  readonly level: number
  hasChildren: boolean
}

interface OpenPart {
  readonly part: Part
  /** Undefined until the part has content. */
  reading: Reading | undefined
}

interface Reading {
  readonly type: string
  /** Collects the text of the part; undefined when the part is an attachment. */
  readonly texts: TextCollector | undefined
  readonly body: PartBody
}

const DASH = 0x2d

const isLineBreak = (value: Uint8Array): boolean =>
  (value.length === 1 && value[0] === 0x0a) || (value.length === 2 && value[0] === 0x0d && value[1] === 0x0a)

/** Collects texts of one kind, up to a limit. */
class TextCollector {
  remainingBytes = MAX_TEXT_BYTES
  readonly #between: string
  readonly #isHtml: boolean
  readonly #texts: string[] = []

  constructor(between: string, isHtml = false) {
    this.#between = between
    this.#isHtml = isHtml
  }

  get isEmpty(): boolean {
    return this.#texts.length === 0
  }

  /** Adds a text. Returns false when the text exceeds the remaining capacity and was truncated. */
  add(part: Part, type: string, { start, sizeBytes }: PartContent): boolean {
    const isWhole = sizeBytes <= this.remainingBytes
    const text = decodePart(part, type, isWhole ? start : truncateText(start, this.remainingBytes))
    this.remainingBytes = isWhole ? this.remainingBytes - sizeBytes : 0
    if (text !== '') this.#texts.push(this.#isHtml && type === 'text/plain' ? toHtml(text) : text)
    return isWhole
  }

  join(): string | null {
    return this.#texts.length === 0 ? null : this.#texts.join(this.#between)
  }
}

const toHtml = (text: string): string => escapeUTF8(text).replaceAll('\n', '<br/>\n')

/** Of UTF-8. */
const MAX_CHARACTER_BYTES = 4
/** A last line that is longer than this is truncated inside the line; a shorter one is dropped as a whole. */
const MAX_OMITTED_LINE_BYTES = 64 * 1024

/**
 * Returns the beginning of a text up to a line end. If the last line is long, truncates inside the line, without
 * splitting a character of UTF-8.
 */
function truncateText(bytes: Uint8Array, maxBytes: number): Uint8Array {
  if (maxBytes === 0) return bytes.subarray(0, 0)
  const lineEnd = bytes.lastIndexOf(0x0a, maxBytes - 1) + 1
  // The length is even, for charsets of two octets.
  if (lineEnd > maxBytes - MAX_OMITTED_LINE_BYTES) return bytes.subarray(0, lineEnd - (lineEnd % 2))
  let end = maxBytes
  while (end > maxBytes - MAX_CHARACTER_BYTES && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--
  return bytes.subarray(0, end)
}

/**
 * Returns the content in a buffer of its own, which can be transferred to another thread. A copy is needed for
 * unencoded content, which is still a view of the raw message.
 */
function toOwnContent({ start, file }: PartContent): Pick<ParsedAttachment, 'content' | 'file'> {
  if (file) return { content: start.slice(0, MAX_MEMORY_BYTES), file }
  const isOwn = start.byteOffset === 0 && start.buffer.byteLength === start.length && !(start instanceof Buffer)
  return { content: isOwn ? start : new Uint8Array(start) }
}

const findRawValue = ({ rawFields }: PartNode, fieldName: string): string | undefined =>
  rawFields.find(([name]) => name.toLowerCase() === fieldName)?.[1]

const TYPE = /^[a-z0-9!#$&^_.+-]{1,127}\/[a-z0-9!#$&^_.+-]{1,127}$/

function resolveType({ node, parent, hasChildren }: Part): string {
  if (node.multipart !== false && !hasChildren) return 'text/plain'
  const isDeclared = findRawValue(node, 'content-type') !== undefined
  // RFC 2046 §5.1.5: the default type in a digest.
  if (!isDeclared && parent?.node.multipart === 'digest') return 'message/rfc822'
  const type = node.contentType || 'text/plain'
  if (TYPE.test(type)) return type
  // RFC 2045 §5.2: an invalid type means text, unless the part has a file name.
  return node.rawFilename === undefined ? 'text/plain' : 'application/octet-stream'
}

/** Whether the part is text to be read, not a file. RFC 2183 §2.8: an unknown disposition means `attachment`. */
const isReadableText = ({ node }: Part, type: string): boolean =>
  (type === 'text/plain' || type === 'text/html') &&
  (node.disposition === false || node.disposition === '' || node.disposition === 'inline')

/** Decodes a text part to text with line feeds. RFC 3676: joins flowed lines. */
function decodePart({ node }: Part, type: string, bytes: Uint8Array): string {
  const charset = node.charset === false ? null : node.charset
  const text = (type === 'text/html' ? decodeHtml(bytes, charset) : decodeText(bytes, charset))
    .replaceAll('\0', '')
    .replaceAll('\r\n', '\n')
  return node.flowed && type === 'text/plain' ? libmime.decodeFlowed(text, node.delSp) : text
}

/** Returns the Content-ID without angle brackets; null when there is none. */
function readContentId({ node }: Part): string | null {
  const id = decodeValue(decodeHeaderText(findRawValue(node, 'content-id') ?? '', null))
    .replaceAll(/[<>\s]/g, '')
    .slice(0, MAX_CONTENT_ID_LENGTH)
    .toWellFormed()
  return id === '' ? null : id
}

/** The form of an attachment. Its parent decides whether it is an alternative; a message may also consist of it alone. */
const readForm = ({ node, parent }: Part, type: string): PartForm => ({
  contentType: formatContentType(type, node.parameters),
  isAlternative: SEALED_TYPE.test(type)
    ? parent === undefined
    : isAlternativeType(type) &&
      node.disposition !== 'attachment' &&
      (parent === undefined || parent.node.multipart === 'alternative'),
})

/**
 * Whether the part is shown with the text: its disposition is `inline`, or it has no disposition, but a Content-ID, and
 * is inside a multipart/related.
 */
function isInline(part: Part, contentId: string | null): boolean {
  if (part.node.disposition !== false && part.node.disposition !== '') return part.node.disposition === 'inline'
  if (contentId === null) return false
  for (let above = part.parent; above; above = above.parent) if (above.node.multipart === 'related') return true
  return false
}
