/**
 * @module Entry of the parse Worker: reads a received message, parses it, looks for reports in it and authenticates it. Never writes anything, and asks
 * DNS through the main thread, which has the only cache.
 */
import { systemClock } from '#platform/clock.ts'
import { type ContentReader, createContentReader } from '#platform/content/read.ts'
import { feedbackReportOf } from '#protocols/arf/parse.ts'
import { authenticate } from '#protocols/authentication/authenticate.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/unknown.ts'
import type { Answer, Resolver } from '#protocols/dns/resolver.ts'
import { deliveryReportOf } from '#protocols/dsn/parse.ts'
import { parseMessage, Unparseable } from '#protocols/mime/parse.ts'
import type { ParsedMessage } from '#protocols/mime/parsed.ts'
import { withoutQuotes } from '#protocols/mime/reply.ts'
import { aggregateReportOf } from '#protocols/reports/parse.ts'
import type { FromParseWorker, ParsedContent, ParseRequest, QuestionKind, ToParseWorker } from './parse-protocol.ts'

declare const self: Worker

let rawMail: ContentReader | undefined
let lastQuestion = 0
const questions = new Map<number, (answer: Answer<unknown>) => void>()

const post = (message: FromParseWorker, transfer: ArrayBuffer[] = []): void => self.postMessage(message, transfer)

self.onmessage = ({ data }: MessageEvent<ToParseWorker>) => {
  switch (data.type) {
    case 'settings':
      rawMail = createContentReader(data.rawFolder)
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
  let raw: Uint8Array
  try {
    if (!rawMail) throw new Error('the Worker has no settings')
    raw = rawMail.get(request.rawRef)
  } catch (error) {
    return post({ type: 'unreadable', id, error: textOf(error) })
  }
  const content = await parse(id, raw, request)
  post({ type: 'parsed', id, content }, buffersOf(content))
  post({ type: 'authenticated', id, authentication: await authenticationOf(id, raw, request) })
}

async function authenticationOf(id: number, raw: Uint8Array, request: ParseRequest): Promise<AuthenticationResult> {
  const { sourceIp, helo, mailFrom, hostname } = request
  try {
    return await authenticate(raw, { clientIp: sourceIp, helo, mailFrom, hostname }, resolver, systemClock)
  } catch (error) {
    post({ type: 'warning', id, error: `authenticating: ${textOf(error)}` })
    return UNKNOWN_AUTHENTICATION
  }
}

async function parse(id: number, raw: Uint8Array, request: ParseRequest): Promise<ParsedContent> {
  let message: ParsedMessage
  try {
    message = await parseMessage(raw, { mailFrom: request.mailFrom })
  } catch (error) {
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
    const aggregate = await aggregateReportOf(message)
    if (aggregate === undefined) return {}
    return 'refused' in aggregate
      ? { reportProblem: aggregate.refused }
      : { report: { kind: 'aggregate', report: aggregate } }
  } catch (error) {
    post({ type: 'warning', id, error: `looking for a report: ${textOf(error)}` })
    return {}
  }
}

/** The buffers of attachments, made to be given away: no two share one, and none is the raw message's. */
function buffersOf(content: ParsedContent): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>()
  for (const { content: bytes } of content.message?.attachments ?? [])
    if (bytes.byteOffset === 0 && bytes.buffer instanceof ArrayBuffer && bytes.buffer.byteLength === bytes.length)
      buffers.add(bytes.buffer)
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
