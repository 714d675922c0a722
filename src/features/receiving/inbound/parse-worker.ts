/**
 * @module Entry of the parse Worker: reads a received message, parses it, looks for a report, authenticates it. Reads
 * a message piece by piece, never whole into memory; writes large attachments into files that the main thread adopts.
 * Writes nothing else, and asks DNS through the main thread, which has the only cache.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '#platform/clock.ts'
import { slicesOfFrames } from '#platform/content/frames.ts'
import { createPartFile, type PartFile } from '#platform/content/part-file.ts'
import { type ContentReader, createContentReader } from '#platform/content/read.ts'
import { isPassingError } from '#platform/storage-errors.ts'
import { KiB, MiB } from '#platform/units.ts'
import { aggregateReportOf } from '#protocols/aggregate-reports/parse.ts'
import { feedbackReportOf } from '#protocols/arf/parse.ts'
import { authenticate } from '#protocols/authentication/authenticate.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/unknown.ts'
import type { Answer, Resolver } from '#protocols/dns/resolver.ts'
import { deliveryReportOf } from '#protocols/dsn/parse.ts'
import { parseMessage } from '#protocols/mime/parse.ts'
import type { ParsedMessage, WholeFile } from '#protocols/mime/parsed.ts'
import { Unparseable } from '#protocols/mime/parsed.ts'
import type { FileWriter } from '#protocols/mime/part-body.ts'
import { withoutQuotes } from '#protocols/mime/reply.ts'
import { joined, type MessageSource } from '#protocols/mime/source.ts'
import {
  type FromParseWorker,
  filePrefix,
  type ParsedContent,
  type ParseRequest,
  type QuestionKind,
  type ToParseWorker,
} from './parse-protocol.ts'

declare const self: Worker

/** After a larger message the garbage is collected before the next one, not when the runtime gets to it. */
const LARGE_MESSAGE_BYTES = 512 * KiB

const post = (message: FromParseWorker, transfer: ArrayBuffer[] = []): void => self.postMessage(message, transfer)

/** The Worker's side of the conversation with the main thread. */
class ParseWorker {
  #rawMail: ContentReader | undefined
  #filesFolder = ''
  #lastQuestion = 0
  readonly #questions = new Map<number, (answer: Answer<unknown>) => void>()
  readonly #resolver: Resolver = {
    mx: (name) => this.#ask('mx', name),
    a: (name) => this.#ask('a', name),
    aaaa: (name) => this.#ask('aaaa', name),
    txt: (name) => this.#ask('txt', name),
    cname: (name) => this.#ask('cname', name),
    ptr: (name) => this.#ask('ptr', name),
    close() {},
    [Symbol.dispose]() {},
  }

  onMessage(message: ToParseWorker): void {
    switch (message.type) {
      case 'settings':
        this.#rawMail = createContentReader(message.rawFolder)
        this.#filesFolder = message.filesFolder
        post({ type: 'ready' })
        return
      case 'parse':
        void this.#work(message.id, message.request)
        return
      case 'dns':
        this.#questions.get(message.id)?.(message.answer)
        this.#questions.delete(message.id)
        return
    }
  }

  async #work(id: number, request: ParseRequest): Promise<void> {
    const files = new AttachmentFiles(this.#filesFolder, id)
    let message: MessageSource
    let content: ParsedContent
    try {
      const rawMail = this.#rawMail
      if (!rawMail) throw new Error('the Worker has no settings')
      message = { slices: () => readPieces(() => rawMail.slices(request.rawRef)) }
      content = await parse(id, message, request, () => files.newFile())
    } catch (error) {
      files.removeAll()
      if (!(error instanceof StorageFailure)) throw error
      const { message: text, isOfRaw, code } = error
      return post({ type: 'unreadable', id, error: text, isOfRaw, code })
    }
    if (!content.message) files.removeAll()
    content = withoutStarts(content)
    post({ type: 'parsed', id, content }, buffersOf(content))
    const authentication = await authenticateMessage(id, message, request, this.#resolver)
    post({ type: 'authenticated', id, authentication })
    if (request.sizeBytes > LARGE_MESSAGE_BYTES) Bun.gc(true)
  }

  #ask<T>(kind: QuestionKind, name: string): Promise<Answer<T>> {
    return new Promise((resolve) => {
      const id = ++this.#lastQuestion
      // The main thread returns what this method of its resolver returned.
      this.#questions.set(id, resolve as (answer: Answer<unknown>) => void)
      post({ type: 'dns', id, kind, name })
    })
  }
}

/** A part of the message cannot be read or written, through no fault of its content. */
class StorageFailure extends Error {
  override readonly name = 'StorageFailure'
  readonly isOfRaw: boolean
  readonly code: string | undefined

  constructor(error: unknown, isReading: boolean) {
    super(textOf(error))
    this.code = error instanceof Error && 'code' in error ? String(error.code) : undefined
    // A disk that fails or is full says nothing of the message; a file that is missing or corrupt does.
    this.isOfRaw = isReading && !isPassingError(error)
  }
}

function guarded<T>(act: () => T, { isReading }: { readonly isReading: boolean }): T {
  try {
    return act()
  } catch (error) {
    throw new StorageFailure(error, isReading)
  }
}

const reading = <T>(act: () => T): T => guarded(act, { isReading: true })
const writing = <T>(act: () => T): T => guarded(act, { isReading: false })

/** The garbage is collected each time this much of a message was read, so that it does not grow with the message. */
const COLLECT_INTERVAL_BYTES = 8 * MiB

function* readPieces(open: () => Iterable<Uint8Array>): Generator<Uint8Array> {
  const slices = reading(() => open()[Symbol.iterator]())
  try {
    for (let uncollectedBytes = 0; ; ) {
      const next = reading(() => slices.next())
      if (next.done) return
      uncollectedBytes += next.value.length
      if (uncollectedBytes > COLLECT_INTERVAL_BYTES) {
        Bun.gc(true)
        uncollectedBytes = 0
      }
      yield next.value
    }
  } finally {
    // Closes the file when the reader stops early, as one of the header does.
    slices.return?.()
  }
}

/** The files of a message's large attachments. */
class AttachmentFiles {
  readonly #folder: string
  readonly #id: number
  readonly #files: { readonly file: PartFile; readonly path: string }[] = []

  constructor(folder: string, id: number) {
    this.#folder = folder
    this.#id = id
  }

  newFile(): FileWriter {
    const path = join(this.#folder, `${filePrefix(this.#id)}${this.#files.length}.zst`)
    const file = writing(() => createPartFile(path))
    this.#files.push({ file, path })
    return {
      write: (bytes) => writing(() => file.write(bytes)),
      finish: () => writing(() => file.finish()),
    }
  }

  removeAll(): void {
    for (const { file, path } of this.#files) {
      file.close()
      rmSync(path, { force: true })
    }
  }
}

async function authenticateMessage(
  id: number,
  message: MessageSource,
  request: ParseRequest,
  resolver: Resolver,
): Promise<AuthenticationResult> {
  const { sourceIp, helo, mailFrom, hostname, authenticationMs } = request
  try {
    return await authenticate(
      message,
      { clientIp: sourceIp, helo, mailFrom, hostname },
      resolver,
      systemClock,
      authenticationMs,
    )
  } catch (error) {
    post({ type: 'warning', id, error: `authenticating: ${textOf(error)}` })
    return UNKNOWN_AUTHENTICATION
  }
}

/** Throws a StorageFailure. */
async function parse(
  id: number,
  source: MessageSource,
  request: ParseRequest,
  newFile: () => FileWriter,
): Promise<ParsedContent> {
  let message: ParsedMessage
  try {
    message = await parseMessage(source, { mailFrom: request.mailFrom, newFile })
  } catch (error) {
    if (error instanceof StorageFailure) throw error
    if (!(error instanceof Unparseable)) post({ type: 'warning', id, error: `parsing: ${textOf(error)}` })
    return {
      problem: error instanceof Unparseable ? error.message : 'The message cannot be parsed.',
      strippedText: null,
    }
  }
  const strippedText = strippedTextOf(id, message)
  const report = request.wantsReport ? await reportOf(id, message, request) : {}
  return { message, strippedText, ...report }
}

function strippedTextOf(id: number, { text }: ParsedMessage): string | null {
  try {
    return text === null ? null : withoutQuotes(text)
  } catch (error) {
    post({ type: 'warning', id, error: `looking for quotations: ${textOf(error)}` })
    return null
  }
}

/** Looks for feedback first: such a report often includes the parts of a delivery report. */
async function reportOf(
  id: number,
  message: ParsedMessage,
  { mailFrom }: ParseRequest,
): Promise<Pick<ParsedContent, 'report' | 'reportProblem'>> {
  try {
    const feedback = feedbackReportOf(message)
    if (feedback) return { report: { kind: 'feedback', report: feedback } }
    const delivery = deliveryReportOf(message, { mailFrom })
    if (delivery) return { report: { kind: 'delivery', report: delivery } }
    const aggregate = aggregateReportOf(message, wholeOf)
    if (aggregate === undefined) return {}
    // Parsing it takes many times its unpacked size.
    Bun.gc(true)
    return 'refused' in aggregate
      ? { reportProblem: aggregate.refused }
      : { report: { kind: 'aggregate', report: aggregate } }
  } catch (error) {
    post({ type: 'warning', id, error: `looking for a report: ${textOf(error)}` })
    return {}
  }
}

/** Drops the beginnings of attachments that are in files. */
function withoutStarts({ message, ...rest }: ParsedContent): ParsedContent {
  if (!message) return rest
  const attachments = message.attachments.map((each) => (each.file ? { ...each, content: new Uint8Array(0) } : each))
  return { ...rest, message: { ...message, attachments } }
}

const wholeOf = ({ path }: WholeFile): Uint8Array => joined([...slicesOfFrames(path)])

/** The buffers to transfer, of attachments and of an unpacked report: only those that hold nothing else. */
function buffersOf(content: ParsedContent): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>()
  const parts = content.message?.attachments.map((attachment) => attachment.content) ?? []
  if (content.report?.kind === 'aggregate') parts.push(content.report.report.content)
  for (const bytes of parts)
    if (bytes.buffer instanceof ArrayBuffer && bytes.buffer.byteLength === bytes.length) buffers.add(bytes.buffer)
  return [...buffers]
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const parseWorker = new ParseWorker()
self.onmessage = ({ data }: MessageEvent<ToParseWorker>) => parseWorker.onMessage(data)
