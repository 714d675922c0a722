/**
 * @module Parses a received message (RFC 5322, RFC 2045 to 2047, RFC 2231, RFC 6532), however hostile, within limits of
 * time and memory. Uses the splitter, the word decoder and the address parser that mailparser is based on. Converts
 * neither HTML to text nor text to HTML.
 */
import type { Transform } from 'node:stream'
import * as headerFields from './header-fields.ts'
import { type ParsedMessage, UnparseableError } from './parsed.ts'
import type { FileWriter } from './part-body.ts'
import { type MessageContent, PartReader, type SplitterOutput } from './part-reader.ts'
import { PartSplitter } from './part-splitter.ts'
import { asBuffer, createSource, type MessageSource, readPrefix } from './source.ts'

const MAX_PARTS = 10_000
const MAX_PART_HEAD_BYTES = 1024 * 1024

export interface ParseOptions {
  /** Reverse-path of the session, `''` for the null one. */
  readonly mailFrom: string
  /**
   * Creates a file for a large attachment. If left out, all attachments stay in memory. The caller deletes the files
   * when the message is rejected.
   */
  readonly newFile?: () => FileWriter
  /** The message will be sent again: parts get their `form`, and a sealed message is one part. */
  readonly forSending?: boolean
}

/**
 * Parses header fields, bodies and attachments. If a field that may occur once is repeated, only the first is read. A
 * message/rfc822 is an attachment, whatever its content, and so is every part that is not readable text.
 * @throws UnparseableError with a reason, for a message above one of the limits: 1 MiB or 100,000 lines of header,
 * 200,000 fields or 8 MiB of header in all parts, 10,000 parts, 100 levels or 1,000 attachments
 */
export async function parseMessage(message: Uint8Array | MessageSource, options: ParseOptions): Promise<ParsedMessage> {
  const source = message instanceof Uint8Array ? createSource(message) : message
  const start = readPrefix(source, headerFields.MAX_HEAD_BYTES)
  const head = headerFields.readHead(start)
  if (!head)
    throw new UnparseableError('The header of the message is longer than 1 MiB or has more than 100,000 lines.')
  const { charset, ...content } = await readContent(generateSplitterInput(source, start, head), options)
  return { ...readHeaderFields(headerFields.decodeFields(head.rawFields, charset), options.mailFrom), ...content }
}

/**
 * Parses only the header of a message that cannot or must not be parsed as a whole; the result has no bodies and
 * attachments.
 * @param start the beginning of the message
 */
export const parseHeader = (start: Uint8Array, { mailFrom }: Pick<ParseOptions, 'mailFrom'>): ParsedMessage => ({
  ...readHeaderFields(headerFields.decodeFields(headerFields.readHead(start)?.rawFields ?? [], null), mailFrom),
  text: null,
  html: null,
  attachments: [],
})

function readHeaderFields(
  fields: readonly headerFields.HeaderField[],
  mailFrom: string,
): Omit<ParsedMessage, 'text' | 'html' | 'attachments'> {
  const byName = Map.groupBy(fields, ([name]) => name.toLowerCase())
  const all = (name: string): string[] => byName.get(name)?.map(([, value]) => value) ?? []
  const first = (name: string): string | undefined => byName.get(name)?.[0]?.[1]
  const from = headerFields.parseAddresses(all('from').slice(0, 1))
  const to = headerFields.parseAddresses(all('to'))
  return {
    headers: fields.map(([name, value]) => [name, headerFields.decodeValue(value)] as const),
    from: from?.text ?? null,
    to: to?.text ?? null,
    cc: headerFields.parseAddresses(all('cc'))?.text ?? null,
    replyTo: headerFields.parseAddresses(all('reply-to').slice(0, 1))?.text ?? null,
    fromAddresses: from?.addresses ?? [],
    toAddresses: to?.addresses ?? [],
    subject: headerFields.decodeValue(first('subject') ?? ''),
    messageId: headerFields.parseMessageId(first('message-id')),
    inReplyTo: headerFields.parseMessageId(first('in-reply-to')),
    references: headerFields.parseMessageIds(all('references').join(' ')),
    dateMs: headerFields.parseDate(first('date')),
    isAutomatic: mailFrom === '' || isMarkedAutomatic(all),
  }
}

function isMarkedAutomatic(all: (name: string) => readonly string[]): boolean {
  const words = (name: string): string[] =>
    all(name).map((value) => (/^[a-z-]*/i.exec(value.trim())?.[0] ?? '').toLowerCase())
  return (
    words('auto-submitted').some((word) => word !== 'no') ||
    words('precedence').some((word) => word === 'bulk' || word === 'list' || word === 'junk') ||
    all('list-id').length > 0 ||
    all('x-auto-response-suppress').length > 0
  )
}

/** Reads bodies and attachments part by part. Only the results of a finished part stay in memory. */
async function readContent(
  pieces: Iterable<Buffer>,
  { newFile, forSending = false }: Pick<ParseOptions, 'newFile' | 'forSending'>,
): Promise<MessageContent> {
  const limits = { ignoreEmbedded: true, maxChildNodes: MAX_PARTS, maxHeadSize: MAX_PART_HEAD_BYTES }
  const splitter: Transform = new PartSplitter({ ...limits, keepsSealed: forSending })
  const reader = new PartReader(newFile, forSending)
  // The streams are not connected by a pipeline, which would cost more than parsing an ordinary message.
  const split = new Promise<void>((resolve, reject) => {
    splitter.on('data', (found: SplitterOutput) => {
      try {
        if (found.type === 'node') reader.beginPart(found)
        else reader.addContent(found)
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
    throw toUnparseable(error)
  }
  return reader.end()
}

async function writeAll(splitter: Transform, pieces: Iterable<Buffer>): Promise<void> {
  for (const piece of pieces) {
    if (splitter.destroyed) return
    if (!splitter.write(piece)) await waitForDrain(splitter)
  }
  if (!splitter.destroyed) splitter.end()
}

/** Resolves when the stream accepts more data or is closed. */
const waitForDrain = (stream: Transform): Promise<void> =>
  new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done).off('close', done)
      resolve()
    }
    stream.on('drain', done).on('close', done)
  })

function toUnparseable(error: unknown): unknown {
  if (!(error instanceof Error && 'code' in error && error.code === 'EMAXLEN')) return error
  return error.message.includes('header')
    ? new UnparseableError('The header of a part of the message is longer than 1 MiB.')
    : new UnparseableError(`The message has more than ${MAX_PARTS} parts.`)
}

/**
 * Yields only the data that the splitter needs: the header fields about the content, a blank line (even if the message
 * lacks it), and the body. Other fields are left out, because the splitter uses a hundred times the octets of each
 * field.
 */
function* generateSplitterInput(
  source: MessageSource,
  start: Uint8Array,
  { end, isClosed, contentLines }: headerFields.Head,
): Generator<Buffer> {
  const checkCarriageReturns = createCarriageReturnCheck()
  for (const [from, to] of contentLines) {
    const line = asBuffer(start.subarray(from, to))
    checkCarriageReturns(line)
    yield line
    if (line.at(-1) !== LF) yield CRLF
  }
  if (!isClosed) yield CRLF
  let position = 0
  for (const chunk of source.chunks()) {
    const body = asBuffer(chunk.subarray(Math.max(0, end - position)))
    position += chunk.length
    checkCarriageReturns(body)
    if (body.length > 0) yield body
  }
}

const LF = 0x0a
const CRLF = Buffer.from('\r\n')

const MAX_CARRIAGE_RETURNS = 1000
const CR = 0x0d
const LONG_RUN = Buffer.alloc(MAX_CARRIAGE_RETURNS + 1, CR)

/**
 * Returns a function that throws when there are more than 1,000 carriage returns in a row, because the splitter scans a
 * header once for each of them.
 */
function createCarriageReturnCheck(): (chunk: Buffer) => void {
  /** Number of carriage returns at the end of the data so far. */
  let run = 0
  return (chunk) => {
    let leading = 0
    while (chunk[leading] === CR) leading++
    if (run + leading > MAX_CARRIAGE_RETURNS || chunk.includes(LONG_RUN))
      throw new UnparseableError('The message has more than 1,000 carriage returns in a row.')
    let end = chunk.length
    while (chunk[end - 1] === CR) end--
    run = end === 0 ? run + leading : chunk.length - end
  }
}
