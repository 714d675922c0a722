/**
 * @module Entry of the parse Worker: reads a received message, parses it, looks for reports in it and authenticates it. A message is read piece by piece
 * and never whole in memory; large attachments are written into files that the main thread adopts. Writes nothing else, and asks DNS through the
 * main thread, which has the only cache.
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

/** What a larger message leaves behind is cleaned up before the next one, not when the collector comes to it. */
const LARGE_MESSAGE_BYTES = 512 * KiB

let rawMail: ContentReader | undefined
let filesFolder = ''
let lastQuestion = 0
const questions = new Map<number, (answer: Answer<unknown>) => void>()

const post = (message: FromParseWorker, transfer: ArrayBuffer[] = []): void => self.postMessage(message, transfer)

self.onmessage = ({ data }: MessageEvent<ToParseWorker>) => {
  switch (data.type) {
    case 'settings':
      rawMail = createContentReader(data.rawFolder)
      filesFolder = data.filesFolder
      post({ type: 'ready' })
      return
    case 'parse':
      void work(data.id, data.request)
      return
    case 'dns':
      questions.get(data.id)?.(data.answer)
      questions.delete(data.id)
      return
  }
}

async function work(id: number, request: ParseRequest): Promise<void> {
  const files = filesOf(id)
  let message: MessageSource
  let content: ParsedContent
  try {
    if (!rawMail) throw new Error('the Worker has no settings')
    const { rawRef } = request
    const reader = rawMail
    message = { slices: () => readable(() => reader.slices(rawRef)) }
    content = await parse(id, message, request, files.newFile)
  } catch (error) {
    files.removeAll()
    if (!(error instanceof StorageFailure)) throw error
    const { message: text, isOfRaw, code } = error
    return post({ type: 'unreadable', id, error: text, isOfRaw, code })
  }
  if (!content.message) files.removeAll()
  content = withoutStarts(content)
  post({ type: 'parsed', id, content }, buffersOf(content))
  const authentication = await authenticationOf(id, message, request)
  post({ type: 'authenticated', id, authentication })
  if (request.sizeBytes > LARGE_MESSAGE_BYTES) Bun.gc(true)
}

/** No fault of the message: a part of it cannot be read or written. */
class StorageFailure extends Error {
  override readonly name = 'StorageFailure'
  readonly isOfRaw: boolean
  readonly code: string | undefined

  constructor(error: unknown, isReading: boolean) {
    super(textOf(error))
    this.code = error instanceof Error && 'code' in error ? String(error.code) : undefined
    // A disk that fails or has no room says nothing of the message; a file that is missing or damaged does.
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

/** Octets of a message after which is cleaned up what was made of them: its garbage never grows with the message. */
const CLEANED_AFTER_BYTES = 8 * MiB

function* readable(open: () => Iterable<Uint8Array>): Generator<Uint8Array> {
  const slices = reading(() => open()[Symbol.iterator]())
  try {
    for (let uncleanedBytes = 0; ; ) {
      const next = reading(() => slices.next())
      if (next.done) return
      uncleanedBytes += next.value.length
      if (uncleanedBytes > CLEANED_AFTER_BYTES) {
        Bun.gc(true)
        uncleanedBytes = 0
      }
      yield next.value
    }
  } finally {
    // Closes the file when the reader stops before its end, as everyone does who only wants the header.
    slices.return?.()
  }
}

/** The files of a message's large attachments. */
function filesOf(id: number): { newFile(): FileWriter; removeAll(): void } {
  const files: { readonly file: PartFile; readonly path: string }[] = []
  return {
    newFile() {
      const path = join(filesFolder, `${filePrefix(id)}${files.length}.zst`)
      const file = writing(() => createPartFile(path))
      files.push({ file, path })
      return {
        write: (bytes) => writing(() => file.write(bytes)),
        finish: () => writing(() => file.finish()),
      }
    },
    removeAll() {
      for (const { file, path } of files) {
        file.close()
        rmSync(path, { force: true })
      }
    },
  }
}

async function authenticationOf(
  id: number,
  message: MessageSource,
  request: ParseRequest,
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

/** Feedback first: such a report often returns a delivery report's parts as well. */
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
    // Reading it takes many times its size, however small it was when it was packed.
    Bun.gc(true)
    return 'refused' in aggregate
      ? { reportProblem: aggregate.refused }
      : { report: { kind: 'aggregate', report: aggregate } }
  } catch (error) {
    post({ type: 'warning', id, error: `looking for a report: ${textOf(error)}` })
    return {}
  }
}

/** What is in files needs no copy of its beginning any more. */
function withoutStarts({ message, ...rest }: ParsedContent): ParsedContent {
  if (!message) return rest
  const attachments = message.attachments.map((each) => (each.file ? { ...each, content: new Uint8Array(0) } : each))
  return { ...rest, message: { ...message, attachments } }
}

const wholeOf = ({ path }: WholeFile): Uint8Array => joined([...slicesOfFrames(path)])

/** The buffers of attachments and of a report that was unpacked, to be given away: nothing else lies in them. */
function buffersOf(content: ParsedContent): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>()
  const parts = content.message?.attachments.map((attachment) => attachment.content) ?? []
  if (content.report?.kind === 'aggregate') parts.push(content.report.report.content)
  for (const bytes of parts)
    if (bytes.buffer instanceof ArrayBuffer && bytes.buffer.byteLength === bytes.length) buffers.add(bytes.buffer)
  return [...buffers]
}

const ask = <T>(kind: QuestionKind, name: string): Promise<Answer<T>> =>
  new Promise((resolve) => {
    const id = ++lastQuestion
    // What comes back is what that method of the resolver gives.
    questions.set(id, resolve as (answer: Answer<unknown>) => void)
    post({ type: 'dns', id, kind, name })
  })

const resolver: Resolver = {
  mx: (name) => ask('mx', name),
  a: (name) => ask('a', name),
  aaaa: (name) => ask('aaaa', name),
  txt: (name) => ask('txt', name),
  cname: (name) => ask('cname', name),
  ptr: (name) => ask('ptr', name),
  close() {},
  [Symbol.dispose]() {},
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
