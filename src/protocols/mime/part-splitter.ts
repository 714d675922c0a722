/**
 * @module Extends mailsplit's splitter to read what senders really write: accepts white space after a delimiter (RFC
 * 2046 §5.1.1), and parses fields about the content with `structured-field.ts`. Finds parts, but reads no content.
 */
import { extname } from 'node:path/posix'
import type { Transform } from 'node:stream'
import { Headers, MimeNode, Splitter, type SplitterOptions } from '@zone-eu/mailsplit'
import libmime from 'libmime'
import { SEALED_TYPE } from './attachment.ts'
import { decodeWords } from './encoded-words.ts'
import { type HeaderField, readHead } from './header-fields.ts'
import { decodeParameter, type ParameterValue, parseStructuredField } from './structured-field.ts'

/** A part found by the splitter. Of the properties that the library defines, sets only those that are read. */
export class PartNode extends MimeNode {
  /**
   * Fields of the part's header; for the message itself, only the fields about the content. One character per octet.
   */
  rawFields: readonly HeaderField[] = []
  /** The file name as the sender wrote it; undefined when there is none. */
  rawFilename: ParameterValue | undefined
  /** Of the content type. */
  parameters: ReadonlyMap<string, ParameterValue> = new Map()
  /** Whether a sealed multipart is a part without parts, whose octets stay as they are. */
  keepsSealed = false

  override parseHeaders(): void {
    if (this.headers) return
    // Set because the splitter checks whether `headers` is set; the splitter never reads its content.
    this.headers = new Headers()
    const { _headersLines: lines } = this as unknown as { readonly _headersLines: readonly Buffer[] }
    // The number of octets is limited already, so the number of lines needs no limit.
    this.rawFields = readHead(Buffer.concat(lines), Number.POSITIVE_INFINITY)?.rawFields ?? []
    const type = this.#field('content-type')
    const disposition = this.#field('content-disposition')
    const text = (name: string): string => {
      const value = type.parameters.get(name)
      return value ? decodeParameter(value, null) : ''
    }
    this.rawFilename = dropEmpty(disposition.parameters.get('filename')) ?? dropEmpty(type.parameters.get('name'))
    this.encoding = this.#field('content-transfer-encoding').value.toLowerCase()
    this.disposition = decodeWords(disposition.value).toLowerCase().trim() || false
    this.contentType = type.value === '' ? this.#guessType() : trimTypeParts(type.value.toLowerCase())
    this.parameters = type.parameters
    this.charset = text('charset').trim() || false
    this.flowed = text('format').trim().toLowerCase() === 'flowed'
    this.delSp = this.flowed && text('delsp').trim().toLowerCase() === 'yes'
    const isWhole = this.keepsSealed && SEALED_TYPE.test(this.contentType)
    this.multipart =
      !isWhole && this.contentType.startsWith('multipart/') && this.contentType.slice('multipart/'.length)
    // RFC 2046 §5.1.1: a boundary cannot end with white space, since white space after a delimiter is ignored.
    const boundary = type.parameters.get('boundary')?.octets.trimEnd() ?? ''
    this._boundary = boundary !== '' && !isWhole && Buffer.from(boundary, 'latin1')
  }

  #field(name: string): ReturnType<typeof parseStructuredField> {
    return parseStructuredField(this.rawFields.find(([each]) => each.toLowerCase() === name)?.[1] ?? '')
  }

  /** Guesses the type of a part that declares none. */
  #guessType(): string {
    const name = this.rawFilename ? decodeParameter(this.rawFilename, null) : ''
    const extension = extname(name).slice(1)
    if (extension !== '') return libmime.detectMimeType(extension)
    return this.disposition === 'attachment' ? 'application/octet-stream' : 'text/plain'
  }
}

const dropEmpty = (value: ParameterValue | undefined): ParameterValue | undefined =>
  value?.octets === '' ? undefined : value

const trimTypeParts = (type: string): string =>
  type
    .split('/')
    .map((part) => part.trim())
    .join('/')

/** Members of the splitter that its type does not declare. */
interface SplitterInternals extends Transform {
  node: MimeNode
  readonly config: SplitterOptions
  newNode(parent?: PartNode | false): void
  compareBoundary(line: Buffer, start: number, boundary: Buffer): 1 | 2 | false
}

const OpenSplitter = Splitter as unknown as new (options: SplitterOptions) => SplitterInternals

/** @param keepsSealed whether a message that is sealed as a whole is one part */
export class PartSplitter extends OpenSplitter {
  constructor(options: SplitterOptions & { readonly keepsSealed: boolean }) {
    super(options)
    ;(this.node as PartNode).keepsSealed = options.keepsSealed
  }

  override newNode(parent: PartNode | false = false): void {
    super.newNode(parent)
    this.node = new PartNode(parent, this.config)
  }

  override compareBoundary(line: Buffer, start: number, boundary: Buffer): 1 | 2 | false {
    return super.compareBoundary(removePadding(line), start, boundary)
  }
}

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const TAB = 0x09

/** Removes white space before the end of a line. */
function removePadding(line: Buffer): Buffer {
  let lineEnd = line.length
  if (line[lineEnd - 1] === LF) lineEnd--
  if (line[lineEnd - 1] === CR) lineEnd--
  let end = lineEnd
  while (line[end - 1] === SPACE || line[end - 1] === TAB) end--
  return end === lineEnd ? line : Buffer.concat([line.subarray(0, end), line.subarray(lineEnd)])
}
