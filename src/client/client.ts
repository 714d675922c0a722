/**
 * @module The client of the API: one method for each route, made from the table in `api.ts`. Works on `fetch` alone, in
 * Node, Bun, Deno, browsers and at the edge; commands, dashboard and MCP pass a `fetch` of their own. A method returns
 * the JSON of the response as it is.
 */

/** What any request may be given. */
export interface RequestOptions {
  readonly signal?: AbortSignal | undefined
  /** Time limit of one attempt in milliseconds, in place of that of the client. */
  readonly timeoutMs?: number | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** A request that is repeated with the same key has no second effect. Default: a new one for each call that takes one. */
  readonly idempotencyKey?: string | undefined
  /** Further parameters, for methods that take a body. */
  readonly query?: Query | undefined
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>

/** A body that is not JSON: text, bytes, or a Blob with its type. */
export type RawBody = string | Blob | ArrayBuffer | Uint8Array

interface PageBody {
  readonly data: readonly unknown[]
  readonly pagination?: { readonly next_cursor?: string }
  /** Of the event feed: where to go on, forwards or (null: there is nothing older) backwards, and its last position. */
  readonly next_after?: number
  readonly next_before?: number | null
  readonly last_seq?: number
}

/** A list: `await` gives one page, `for await` all rows, page after page. */
export interface Pages<Body extends PageBody> extends PromiseLike<Body>, AsyncIterable<Body['data'][number]> {
  readonly pages: () => AsyncGenerator<Body>
}

interface ErrorBody {
  readonly code?: string
  readonly message?: string
  readonly request_id?: string
  readonly details?: readonly { readonly field?: string; readonly message: string }[]
  readonly retry_after?: number
  readonly next_after?: number
}

/** An error response of the API, or a request without a response. */
export class TassisError extends Error {
  override readonly name = 'TassisError'
  /** HTTP status; 0: there was no response. */
  readonly status: number
  /** For programs: stable, in snake_case. Without a response `no_connection` or `timeout`. */
  readonly code: string
  /** For the logs of the service. */
  readonly requestId: string | undefined
  /** What is wrong with which field. */
  readonly details: readonly { readonly field?: string; readonly message: string }[]
  /** Seconds after which a retry may succeed. */
  readonly retryAfter: number | undefined
  /** Of the event feed, when the events after a position are not kept: the position to go on from. */
  readonly nextAfter: number | undefined

  constructor(status: number, body: ErrorBody, options?: ErrorOptions) {
    super(body.message ?? `The service responded with status ${status}.`, options)
    this.status = status
    this.code = body.code ?? 'unknown'
    this.requestId = body.request_id
    this.details = body.details ?? []
    this.retryAfter = body.retry_after
    this.nextAfter = body.next_after
  }
}

export interface ClientOptions {
  /** Where the service is, such as `https://mail.example.com`; default: the page's own. */
  readonly url?: string | undefined
  /** An API key. */
  readonly key?: string | undefined
  /**
   * How often a request is repeated after a 429, a 5xx or a lost connection, if that cannot have a second effect;
   * default 2. A `Retry-After` of more than 30 seconds is left to the caller.
   */
  readonly retries?: number | undefined
  /** Time limit of one attempt in milliseconds, of a download until it begins; default: 60,000. 0: none. */
  readonly timeoutMs?: number | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Makes the requests; default: the global `fetch`. What it throws as a `TassisError` is thrown as it is. */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined
  /** Makes JSON values of what a method was given as its body; default: they are sent as they are. */
  readonly prepare?: ((body: unknown) => Promise<unknown>) | undefined
}

const DEFAULT_TIMEOUT_MS = 60_000
const FIRST_RETRY_MS = 500
const MAX_RETRY_MS = 30_000

/** Requests by resource: `/v1/emails,list pages,send POST body once,get /{id}`; see `api.ts`. */
type Table = Readonly<Record<string, string>>

/** A request as a table describes it. */
export interface RequestOfTable {
  readonly method: string
  readonly path: string
  readonly traits: readonly string[]
}

interface Call {
  readonly method: string
  readonly path: string
  readonly query: Query
  readonly body?: unknown
  readonly options: RequestOptions
  /** Whether its POST takes an idempotency key. */
  readonly isOnce: boolean
  /** Whether a body that is not JSON is CSV. */
  readonly isCsv: boolean
  /** Whether the response is returned as it is. */
  readonly isRaw: boolean
}

/** Makes the methods of a table. `Api` is the type that was generated with it. */
export function createClient<Api>(table: Table, options: ClientOptions): Api {
  const send = createSender(options)
  return mapValues(table, (line) => mapValues(parseRequests(line), (request) => toMethod(request, send))) as Api
}

/** The requests of a resource, by the names of their methods. */
export function parseRequests(line: string): Record<string, RequestOfTable> {
  const [base = '', ...entries] = line.split(',')
  return Object.fromEntries(
    entries.map((entry) => {
      const [name, ...traits] = entry.split(' ')
      const below = traits.find((word) => word.startsWith('/')) ?? ''
      const method = traits.find((word) => /^[A-Z]/.test(word)) ?? 'GET'
      return [name, { method, path: below.startsWith('/v1/') ? below : base + below, traits }]
    }),
  )
}

const mapValues = <In, Out>(values: Readonly<Record<string, In>>, map: (value: In) => Out): Record<string, Out> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]))

/** Resolves with the JSON of the response, undefined if it has none, or with the response itself. */
type Send = (call: Call) => Promise<unknown>

function toMethod({ method, path: template, traits }: RequestOfTable, send: Send) {
  const has = (trait: string): boolean => traits.includes(trait)
  return (...args: unknown[]): unknown => {
    const path = template.replace(/\{(\w+)\}/g, (_, name: string) => toSegment(name, args.shift()))
    const body = has('body') ? args.shift() : undefined
    const parameters = has('query') || has('pages') ? args.shift() : undefined
    const options = (args.shift() ?? {}) as RequestOptions
    const query = { ...(parameters as Query | undefined), ...options.query }
    const is = { isOnce: has('once'), isCsv: has('csv'), isRaw: has('raw') }
    const read = (more: Query = {}) => send({ method, path, query: { ...query, ...more }, body, options, ...is })
    return has('pages') ? toPages(read) : read()
  }
}

/** One part of a path, from which no part can lead to another route. */
function toSegment(name: string, value: unknown): string {
  const text = String(value ?? '')
  if (text === '' || text === '.' || text === '..') throw new TypeError(`${name} is missing or is not an id`)
  return encodeURIComponent(text)
}

function toPages(read: (query?: Query) => Promise<unknown>): Pages<PageBody> {
  async function* pages() {
    for (let query: Query | undefined = {}; query !== undefined; ) {
      const page = (await read(query)) as PageBody
      yield page
      query = findNext(page, query)
    }
  }
  return {
    pages,
    // biome-ignore lint/suspicious/noThenProperty: a list can be awaited for its first page
    then: (onDone, onError) => (read() as Promise<PageBody>).then(onDone, onError),
    async *[Symbol.asyncIterator]() {
      for await (const { data } of pages()) yield* data
    },
  }
}

/** Parameters of the next page; undefined: there is none. */
function findNext({ pagination, ...feed }: PageBody, previous: Query): Query | undefined {
  const cursor = pagination?.next_cursor
  if (cursor !== undefined) return { cursor, page: undefined, offset: undefined }
  const { next_before: before, next_after: after, last_seq: last = 0 } = feed
  if (before !== undefined) return before === null ? undefined : { before }
  return after !== undefined && after < last && after !== previous['after'] ? { after } : undefined
}

/** Whether a repeated request has no second effect. */
const isRepeatable = (method: string): boolean => method !== 'POST' && method !== 'PATCH'

/** Makes requests, repeats those that may succeed later, and throws `TassisError` for any that does not succeed. */
function createSender({
  url = '',
  key,
  retries = 2,
  timeoutMs = DEFAULT_TIMEOUT_MS,
  headers,
  fetch: own,
  prepare = async (body) => body,
}: ClientOptions): Send {
  let base = url
  while (base.endsWith('/')) base = base.slice(0, -1)
  const doFetch = own ?? ((target, init) => fetch(target, init))
  return async ({ method, path, query, body: given, options, isOnce, isCsv, isRaw }) => {
    const { signal, timeoutMs: limitMs = timeoutMs } = options
    const body = isRawBody(given) ? given : await prepare(given)
    const isJson = body !== undefined && !isRawBody(body)
    const idempotencyKey = options.idempotencyKey ?? (isOnce ? (findKey(body) ?? newIdempotencyKey()) : undefined)
    const init = {
      method,
      // A browser or server that follows a redirect makes a GET of a POST.
      redirect: 'manual',
      ...(body !== undefined && { body: (isJson ? JSON.stringify(body) : body) as string }),
      headers: mergeHeaders(
        { accept: 'application/json' },
        isJson ? { 'content-type': 'application/json' } : isCsv && { 'content-type': 'text/csv' },
        key !== undefined && { authorization: `Bearer ${key}` },
        idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey },
        headers,
        options.headers,
      ),
    } as const
    const isSafe = isRepeatable(method) || idempotencyKey !== undefined
    for (let attempt = 0; ; attempt++) {
      const limit = startLimit(limitMs, signal)
      const result = await tryOnce(() => doFetch(`${base}${path}${toQuery(query)}`, { ...init, ...limit.init }), isRaw)
      limit.end()
      if (!(result instanceof TassisError)) return result
      if (signal?.aborted) throw signal.reason
      const error = limit.isExceeded() ? createTimeoutError(limitMs, result) : result
      const waitMs = toWaitMs(error, attempt, isSafe)
      if (attempt >= retries || waitMs === undefined) throw error
      await sleep(waitMs, signal)
    }
  }
}

const isRawBody = (body: unknown): boolean =>
  typeof body === 'string' || body instanceof Blob || body instanceof ArrayBuffer || ArrayBuffer.isView(body)

/** The idempotency key that a body has itself; the service takes no other beside it. */
const findKey = (body: unknown): string | undefined =>
  (body as { readonly idempotency_key?: string | null } | undefined)?.idempotency_key ?? undefined

/** Headers of the last group win, whatever the case of their names. */
function mergeHeaders(
  ...groups: readonly (Readonly<Record<string, string>> | false | undefined)[]
): Record<string, string> {
  const merged = new Headers()
  for (const group of groups)
    for (const [name, value] of Object.entries(group || {})) if (value !== undefined) merged.set(name, value)
  return Object.fromEntries(merged)
}

/** Limits the time of an attempt, until `end()`. */
function startLimit(ms: number, signal: AbortSignal | undefined) {
  if (ms <= 0) return { init: signal ? { signal } : {}, isExceeded: () => false, end: () => {} }
  const limit = new AbortController()
  const timer = setTimeout(() => limit.abort(), ms)
  return {
    init: { signal: signal ? AbortSignal.any([signal, limit.signal]) : limit.signal },
    isExceeded: () => limit.signal.aborted,
    end: () => clearTimeout(timer),
  }
}

const createTimeoutError = (ms: number, cause: unknown): TassisError =>
  new TassisError(0, { code: 'timeout', message: `There was no response within ${ms / 1000} seconds.` }, { cause })

/** What a request became; an error if it did not succeed. */
async function tryOnce(request: () => Promise<Response>, isRaw: boolean): Promise<unknown> {
  try {
    const response = await request()
    if (!response.ok) return await toError(response)
    return isRaw ? response : parseBody(response, await response.text())
  } catch (cause) {
    if (cause instanceof TassisError) return cause
    return new TassisError(0, { code: 'no_connection', message: `There was no response: ${toText(cause)}.` }, { cause })
  }
}

function parseBody({ status }: Response, text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch (cause) {
    const message = 'The response is not JSON: is this the URL of the service?'
    return new TassisError(status, { code: 'invalid_response', message }, { cause })
  }
}

async function toError(response: Response): Promise<TassisError> {
  const { status, headers, type } = response
  if (type === 'opaqueredirect' || (status >= 300 && status < 400)) {
    const target = headers.get('location')
    const message = `The service redirects${target ? ` to ${target}` : ''}: use the URL to which it does.`
    return new TassisError(status, { code: 'redirected', message })
  }
  const body: unknown = await response.json().catch(() => undefined)
  const requestId = headers.get('x-request-id')
  const seconds = toSeconds(headers.get('retry-after'))
  return new TassisError(status, {
    ...(requestId !== null && { request_id: requestId }),
    ...(seconds !== undefined && { retry_after: seconds }),
    ...(typeof body === 'object' ? (body as ErrorBody) : {}),
  })
}

/** Seconds of a `Retry-After`, which has a number of them or a date. */
function toSeconds(value: string | null): number | undefined {
  const seconds = value === null || /^\d+$/.test(value) ? Number(value ?? Number.NaN) : toSecondsUntil(value)
  return seconds >= 0 ? seconds : undefined
}

const toSecondsUntil = (date: string): number => Math.ceil((Date.parse(date) - Date.now()) / 1000)

const toText = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause)).replace(/\.$/, '')

/** How long to wait before the next attempt; undefined: none can help. A 429 was not executed. */
function toWaitMs({ status, retryAfter }: TassisError, attempt: number, isSafe: boolean): number | undefined {
  const mayRepeat = status === 429 || (isSafe && (status === 0 || status >= 500))
  if (!mayRepeat) return undefined
  const backoffMs = FIRST_RETRY_MS * 2 ** attempt * (1 + Math.random())
  const waitMs = Math.max(backoffMs, (retryAfter ?? 0) * 1000)
  return waitMs > MAX_RETRY_MS ? undefined : waitMs
}

const sleep = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(done, ms)
    function done(): void {
      signal?.removeEventListener('abort', stop)
      resolve()
    }
    function stop(): void {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    signal?.addEventListener('abort', stop, { once: true })
  })

/** A new key for `idempotencyKey`; works in insecure contexts too. */
export const newIdempotencyKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')

function toQuery(query: Query = {}): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value))
  const text = parameters.toString()
  return text === '' ? '' : `?${text}`
}
