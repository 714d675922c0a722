/**
 * @module The Model Context Protocol over standard input and output (`tassis mcp`): passes each message to `/mcp` of a
 * service and its answer back. Everything else, such as which tools there are, is up to the service.
 */
import { parseJsonObject } from '#platform/json-object.ts'
import { seconds } from '#platform/units.ts'

/** Maximum length of a message; the service accepts less. */
const MAX_LINE_LENGTH = 2_000_000
/** Messages that are passed on at the same time; the next ones wait in the pipe. */
const MAX_CONCURRENT = 8
/** Twice as long as any tool takes. */
const TIMEOUT_MS = seconds(60)
/** Where a message of the current protocol names the version of the protocol. */
const VERSION_FIELD = 'io.modelcontextprotocol/protocolVersion'
const PARSE_ERROR_CODE = -32_700
const INTERNAL_ERROR_CODE = -32_603

export interface StdioOptions {
  readonly endpoint: string
  readonly key: string
  readonly input: AsyncIterable<Uint8Array>
  /** Writes one message, without line break. */
  readonly write: (message: string) => void
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
}

interface Message {
  readonly id?: string | number | null
  readonly method?: unknown
  readonly params?: { readonly name?: unknown; readonly _meta?: Readonly<Record<string, unknown>> }
}

export async function serveStdio(options: StdioOptions): Promise<void> {
  const running = new Set<Promise<void>>()
  for await (const line of readLines(options.input)) {
    if (line === '') continue
    const work = passOn(line, options).finally(() => running.delete(work))
    running.add(work)
    if (running.size >= MAX_CONCURRENT) await Promise.race(running)
  }
  await Promise.all(running)
}

async function passOn(line: string | undefined, options: StdioOptions): Promise<void> {
  const message = line === undefined ? undefined : (parseJsonObject(line) as Message | undefined)
  if (line === undefined || message === undefined) {
    const problem = line === undefined ? `has more than ${MAX_LINE_LENGTH} characters` : 'is not a JSON object'
    options.write(toError(null, PARSE_ERROR_CODE, `The message ${problem}.`))
    return
  }
  const id = message.id ?? null
  const answer = await ask(line, message, options).catch((error: unknown) =>
    toError(
      id,
      INTERNAL_ERROR_CODE,
      `The service at ${options.endpoint} does not answer (${describeFailure(error)}); start it, or pass its address with --url.`,
    ),
  )
  // A notification has no answer, not even an error.
  if (answer !== undefined && message.id !== undefined) options.write(answer)
}

const describeFailure = (error: unknown): string => (error instanceof Error ? error.message : 'unknown error')

async function ask(
  line: string,
  message: Message,
  { endpoint, key, fetch }: StdioOptions,
): Promise<string | undefined> {
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...readProtocolHeaders(message),
    },
    body: line,
    redirect: 'error',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  const text = await response.text()
  if (text === '') return undefined
  const answer = parseJsonObject(text)
  if (answer === undefined || !('jsonrpc' in answer))
    return toError(
      message.id ?? null,
      INTERNAL_ERROR_CODE,
      `${endpoint} answers with status ${response.status} and no message of the protocol; --url must be the address of a Tassis service.`,
    )
  // Errors before the message was read do not know its id.
  return JSON.stringify({ ...answer, id: answer['id'] ?? message.id ?? null })
}

const HEADER_TEXT = /^[\x21-\x7e]{1,200}$/

/** The headers that the current protocol wants over HTTP, repeated from the message. */
function readProtocolHeaders({ method, params }: Message): Record<string, string> {
  const headers = {
    'mcp-protocol-version': params?._meta?.[VERSION_FIELD],
    'mcp-method': method,
    'mcp-name': params?.name,
  }
  return Object.fromEntries(
    Object.entries(headers).filter(
      (entry): entry is [string, string] => typeof entry[1] === 'string' && HEADER_TEXT.test(entry[1]),
    ),
  )
}

const toError = (id: string | number | null, code: number, message: string): string =>
  JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } })

/** Yields the lines of a stream; undefined for one that is too long, of which nothing is kept. */
async function* readLines(input: AsyncIterable<Uint8Array>): AsyncGenerator<string | undefined> {
  const decoder = new TextDecoder()
  let rest = ''
  let isTooLong = false
  for await (const chunk of input) {
    const lines = decoder.decode(chunk, { stream: true }).split('\n')
    const last = lines.pop() ?? ''
    for (const line of lines) {
      const whole = rest + line
      yield isTooLong || whole.length > MAX_LINE_LENGTH ? undefined : whole.trim()
      rest = ''
      isTooLong = false
    }
    rest += last
    if (rest.length > MAX_LINE_LENGTH) {
      isTooLong = true
      rest = ''
    }
  }
  if (isTooLong || rest !== '') yield isTooLong ? undefined : rest.trim()
}
