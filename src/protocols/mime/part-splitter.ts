/**
 * @module The splitter of mailsplit, made to read what senders write: white space behind a delimiter (RFC 2046 §5.1.1), and fields about the content as
 * `structured-field.ts` reads them. Finds parts; reads no content.
 */
import { extname } from 'node:path/posix'
import type { Transform } from 'node:stream'
import { Headers, MimeNode, Splitter, type SplitterOptions } from '@zone-eu/mailsplit'
import libmime from 'libmime'
import { decodeWords } from './encoded-words.ts'
import { type HeaderField, readHead } from './header-fields.ts'
import { decodeParameter, type ParameterValue, parseStructuredField } from './structured-field.ts'

/** A part as the splitter finds it. Of the properties of the library only those are set that are read. */
export class PartNode extends MimeNode {
  /** Those of the header; of the message itself only those about the content. One character per octet. */
  rawFields: readonly HeaderField[] = []
  /** As the sender wrote it; undefined: it has none. */
  rawFilename: ParameterValue | undefined

  override parseHeaders(): void {
    if (this.headers) return
    // The splitter looks only whether it is there.
    this.headers = new Headers()
    const { _headersLines: lines } = this as unknown as { readonly _headersLines: readonly Buffer[] }
    // Of as many octets as may be here every number of lines is fine.
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
    this.charset = text('charset').trim() || false
    this.flowed = text('format').trim().toLowerCase() === 'flowed'
    this.delSp = this.flowed && text('delsp').trim().toLowerCase() === 'yes'
    this.multipart = this.contentType.startsWith('multipart/') && this.contentType.slice('multipart/'.length)
    // §5.1.1: it cannot end with white space, since what stands behind a delimiter does not count.
    const boundary = type.parameters.get('boundary')?.octets.trimEnd() ?? ''
    this._boundary = boundary !== '' && Buffer.from(boundary, 'latin1')
  }

  #field(name: string): ReturnType<typeof parseStructuredField> {
    return parseStructuredField(this.rawFields.find(([each]) => each.toLowerCase() === name)?.[1] ?? '')
  }

  /** Of a part that does not say it. */
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

/** What the splitter has and its own type does not know. */
interface SplitterInternals extends Transform {
  node: MimeNode
  readonly config: SplitterOptions
  newNode(parent?: PartNode | false): void
  compareBoundary(line: Buffer, start: number, boundary: Buffer): 1 | 2 | false
}

const OpenSplitter = Splitter as unknown as new (options: SplitterOptions) => SplitterInternals

export class PartSplitter extends OpenSplitter {
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

/** A line without the white space before its end. */
function removePadding(line: Buffer): Buffer {
  let lineEnd = line.length
  if (line[lineEnd - 1] === LF) lineEnd--
  if (line[lineEnd - 1] === CR) lineEnd--
  let end = lineEnd
  while (line[end - 1] === SPACE || line[end - 1] === TAB) end--
  return end === lineEnd ? line : Buffer.concat([line.subarray(0, end), line.subarray(lineEnd)])
}
