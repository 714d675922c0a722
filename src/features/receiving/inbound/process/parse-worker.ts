/**
 * @module Entry point of the parse Worker: reads a received message, parses it, looks for a report, authenticates it.
 * Reads piece by piece, never a whole message into memory; writes large attachments to files that the main thread
 * adopts. Writes nothing else, and sends DNS queries through the main thread, which has the only cache.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { type BlobFile, createBlobFile } from '#platform/content/blob-file.ts'
import { readFrames } from '#platform/content/frames.ts'
import { type ContentReader, createContentReader } from '#platform/content/read.ts'
import { isTransientError } from '#platform/disk/storage-errors.ts'
import { systemClock } from '#platform/time/clock.ts'
import { KiB, MiB } from '#platform/units.ts'
import { parseAggregateReport } from '#protocols/aggregate-reports/parse.ts'
import { parseFeedbackReport } from '#protocols/arf/parse.ts'
import { authenticate } from '#protocols/authentication/authenticate.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/result.ts'
import type { Answer, Resolver } from '#protocols/dns/resolver.ts'
import { parseDsn } from '#protocols/dsn/parse.ts'
import { parseMessage } from '#protocols/mime/parse.ts'
import { type AttachmentFile, type ParsedMessage, UnparseableError } from '#protocols/mime/parsed.ts'
import type { FileWriter } from '#protocols/mime/part-body.ts'
import { removeQuotes } from '#protocols/mime/reply.ts'
import { joinPieces, type MessageSource } from '#protocols/mime/source.ts'
import * as protocol from './parse-protocol.ts'

declare const self: Worker

/** After a larger message garbage is collected immediately, because the runtime would collect it much later. */
const LARGE_MESSAGE_BYTES = 512 * KiB

const post = (message: protocol.FromParseWorker, transfer: ArrayBuffer[] = []): void =>
  self.postMessage(message, transfer)

class ParseWorker {
  #rawMail: ContentReader | undefined
  #filesFolder = ''
  #lastQueryId = 0
  readonly #queries = new Map<number, (answer: Answer<unknown>) => void>()
  readonly #resolver: Resolver = {
    mx: (name) => this.#query('mx', name),
    a: (name) => this.#query('a', name),
    aaaa: (name) => this.#query('aaaa', name),
    txt: (name) => this.#query('txt', name),
    cname: (name) => this.#query('cname', name),
    ns: (name) => this.#query('ns', name),
    ptr: (name) => this.#query('ptr', name),
    close() {},
    [Symbol.dispose]() {},
  }

  onMessage(message: protocol.ToParseWorker): void {
    switch (message.type) {
      case 'settings':
        this.#rawMail = createContentReader(message.rawFolder)
        this.#filesFolder = message.filesFolder
        post({ type: 'ready' })
        return
      case 'parse':
        void this.#process(message.id, message.request)
        return
      case 'dns':
        this.#queries.get(message.id)?.(message.answer)
        this.#queries.delete(message.id)
        return
    }
  }

  async #process(id: number, request: protocol.ParseRequest): Promise<void> {
    const files = new AttachmentFiles(this.#filesFolder, id)
    let message: MessageSource
    let content: protocol.ParsedContent
    try {
      const rawMail = this.#rawMail
      if (!rawMail) throw new Error('the Worker has no settings')
      message = { chunks: () => readPieces(() => openContent(rawMail, request)) }
      content = await parseContent(id, message, request, request.submitted ? undefined : () => files.createFile())
    } catch (error) {
      files.removeAll()
      if (!(error instanceof StorageFailureError)) throw error
      const { message: text, isRawLost, code } = error
      return post({ type: 'unreadable', id, error: text, isRawLost, code })
    }
    if (!content.message) files.removeAll()
    content = dropFileStarts(content)
    post({ type: 'parsed', id, content }, collectBuffers(content))
    const { sourceIp, helo, mailFrom, hostname } = request
    const facts = { clientIp: sourceIp, helo, mailFrom, hostname }
    const authentication = request.submitted
      ? UNKNOWN_AUTHENTICATION
      : await attemptStep(id, 'authenticating', UNKNOWN_AUTHENTICATION, () =>
          authenticate(message, facts, this.#resolver, systemClock),
        )
    post({ type: 'authenticated', id, authentication })
    if (request.sizeBytes > LARGE_MESSAGE_BYTES) Bun.gc(true)
  }

  #query<T>(kind: protocol.DnsQueryKind, name: string): Promise<Answer<T>> {
    return new Promise((resolve) => {
      const id = ++this.#lastQueryId
      // The answer has the type that this method of the resolver returns.
      this.#queries.set(id, resolve as (answer: Answer<unknown>) => void)
      post({ type: 'dns', id, kind, name })
    })
  }
}

function openContent(rawMail: ContentReader, { submitted, rawRef }: protocol.ParseRequest): Iterable<Uint8Array> {
  if (!submitted) return rawMail.chunks(rawRef)
  return submitted.kind === 'bytes' ? [submitted.bytes] : readFrames(submitted.path)
}

/** Reading or writing part of the message failed, through no fault of its content. */
class StorageFailureError extends Error {
  override readonly name = 'StorageFailure'
  readonly isRawLost: boolean
  readonly code: string | undefined

  constructor(error: unknown, isReading: boolean) {
    super(toErrorText(error))
    this.code = error instanceof Error && 'code' in error ? String(error.code) : undefined
    // A failing or full disk says nothing about the message; a missing or corrupt file does.
    this.isRawLost = isReading && !isTransientError(error)
  }
}

function wrapStorageFailure<T>(act: () => T, { isReading }: { readonly isReading: boolean }): T {
  try {
    return act()
  } catch (error) {
    throw new StorageFailureError(error, isReading)
  }
}

const guardRead = <T>(act: () => T): T => wrapStorageFailure(act, { isReading: true })
const guardWrite = <T>(act: () => T): T => wrapStorageFailure(act, { isReading: false })

/** Garbage is collected each time this much was read, so that it does not grow with the message. */
const COLLECT_INTERVAL_BYTES = 8 * MiB

function* readPieces(open: () => Iterable<Uint8Array>): Generator<Uint8Array> {
  const chunks = guardRead(() => open()[Symbol.iterator]())
  try {
    for (let uncollectedBytes = 0; ; ) {
      const next = guardRead(() => chunks.next())
      if (next.done) return
      uncollectedBytes += next.value.length
      if (uncollectedBytes > COLLECT_INTERVAL_BYTES) {
        Bun.gc(true)
        uncollectedBytes = 0
      }
      yield next.value
    }
  } finally {
    // Closes the file when the reader stops early, as a header reader does.
    chunks.return?.()
  }
}

class AttachmentFiles {
  readonly #folder: string
  readonly #id: number
  readonly #files: { readonly file: BlobFile; readonly path: string }[] = []

  constructor(folder: string, id: number) {
    this.#folder = folder
    this.#id = id
  }

  createFile(): FileWriter {
    const path = join(this.#folder, `${protocol.filePrefix(this.#id)}${this.#files.length}.zst`)
    const file = guardWrite(() => createBlobFile(path))
    this.#files.push({ file, path })
    return {
      write: (bytes) => guardWrite(() => file.write(bytes)),
      finish: () => guardWrite(() => file.finish()),
    }
  }

  removeAll(): void {
    for (const { file, path } of this.#files) {
      file.close()
      rmSync(path, { force: true })
    }
  }
}

/** Returns the result of a step; if the step fails, posts a warning and returns `fallback`. */
async function attemptStep<T>(id: number, step: string, fallback: T, run: () => T | Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    post({ type: 'warning', id, error: `${step}: ${toErrorText(error)}` })
    return fallback
  }
}

/** Throws StorageFailureError. */
async function parseContent(
  id: number,
  source: MessageSource,
  request: protocol.ParseRequest,
  createFile: (() => FileWriter) | undefined,
): Promise<protocol.ParsedContent> {
  let message: ParsedMessage
  try {
    message = await parseMessage(source, {
      mailFrom: request.mailFrom,
      ...(createFile && { newFile: createFile }),
      forSending: request.submitted !== undefined,
    })
  } catch (error) {
    if (error instanceof StorageFailureError) throw error
    if (!(error instanceof UnparseableError)) post({ type: 'warning', id, error: `parsing: ${toErrorText(error)}` })
    return {
      problem: error instanceof UnparseableError ? error.message : 'The message cannot be parsed.',
      strippedText: null,
    }
  }
  const { text } = message
  const strippedText = await attemptStep(id, 'looking for quotations', null, () =>
    text === null ? null : removeQuotes(text),
  )
  const report = request.wantsReport
    ? await attemptStep(id, 'looking for a report', {}, () => findReport(message, request))
    : {}
  return { message, strippedText, ...report }
}

/** Looks for feedback first: feedback reports often contain the parts of a DSN. */
function findReport(
  message: ParsedMessage,
  { mailFrom }: protocol.ParseRequest,
): Pick<protocol.ParsedContent, 'report' | 'reportProblem'> {
  const feedback = parseFeedbackReport(message)
  if (feedback) return { report: { kind: 'feedback', report: feedback } }
  const delivery = parseDsn(message, { mailFrom })
  if (delivery) return { report: { kind: 'delivery', report: delivery } }
  const aggregate = parseAggregateReport(message, readWhole)
  if (aggregate === undefined) return {}
  // Parsing a report takes many times its unpacked size in memory.
  Bun.gc(true)
  return 'refused' in aggregate
    ? { reportProblem: aggregate.refused }
    : { report: { kind: 'aggregate', report: aggregate } }
}

/** Drops the in-memory start of attachments that are in files. */
function dropFileStarts({ message, ...rest }: protocol.ParsedContent): protocol.ParsedContent {
  if (!message) return rest
  const attachments = message.attachments.map((attachment) =>
    attachment.file ? { ...attachment, content: new Uint8Array(0) } : attachment,
  )
  return { ...rest, message: { ...message, attachments } }
}

const readWhole = ({ path }: AttachmentFile): Uint8Array => joinPieces([...readFrames(path)])

/** The buffers to transfer, of attachments and an unpacked report: only buffers that contain nothing else. */
function collectBuffers(content: protocol.ParsedContent): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>()
  const parts = content.message?.attachments.map((attachment) => attachment.content) ?? []
  if (content.report?.kind === 'aggregate') parts.push(content.report.report.content)
  for (const bytes of parts)
    if (bytes.buffer instanceof ArrayBuffer && bytes.buffer.byteLength === bytes.length) buffers.add(bytes.buffer)
  return [...buffers]
}

const toErrorText = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const parseWorker = new ParseWorker()
self.onmessage = ({ data }: MessageEvent<protocol.ToParseWorker>) => parseWorker.onMessage(data)
