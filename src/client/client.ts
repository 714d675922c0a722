/**
 * @module The client of the API: one method for each route, made from the table in `api.ts`. Works on `fetch` alone, in
 * Node, Bun, Deno, browsers and at the edge; commands, dashboard and MCP pass a `fetch` of their own. A method returns
 * the JSON of the response as it is.
 */

/** What any request may be given. */
export interface RequestOptions {
  readonly signal?: AbortSignal | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** A request that is repeated with the same key has no second effect. Default: a new one for each call that takes one. */
  readonly idempotencyKey?: string | undefined
  /** Further parameters, for methods that take a body. */
  readonly query?: Query | undefined
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>

/** A body that is not JSON: text, bytes, or a Blob with its type. */
export type RawBody = string | Blob | ArrayBuffer | Uint8Array<ArrayBuffer>

interface PageBody {
  readonly data: readonly unknown[]
  readonly pagination?: { readonly next_cursor?: string }
  readonly has_more?: boolean
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
}

/** An error response of the API, or a request without a response. */
export class TassisError extends Error {
  override readonly name = 'TassisError'
  /** HTTP status; 0: there was no response. */
  readonly status: number
  /** For programs: stable, in snake_case. */
  readonly code: string
  /** For the logs of the service. */
  readonly requestId: string | undefined
  /** What is wrong with which field. */
  readonly details: readonly { readonly field?: string; readonly message: string }[]
  /** Seconds after which a retry may succeed. */
  readonly retryAfter: number | undefined

  constructor(status: number, body: ErrorBody, options?: ErrorOptions) {
    super(body.message ?? `The service responded with status ${status}.`, options)
    this.status = status
    this.code = body.code ?? 'unknown'
    this.requestId = body.request_id
    this.details = body.details ?? []
    this.retryAfter = body.retry_after
  }
}

export interface ClientOptions {
  /** Where the service is, such as `https://mail.example.com`; default: the page's own. */
  readonly url?: string | undefined
  /** An API key. */
  readonly key?: string | undefined
  /** How often a request is repeated after 429, 5xx or a lost connection, if that cannot have a second effect; default 2. */
  readonly retries?: number | undefined
  /** Time limit of one attempt in milliseconds; default: 60,000. 0: none. */
  readonly timeoutMs?: number | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Makes the requests; default: the global `fetch`. */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined
}

const DEFAULT_TIMEOUT_MS = 60_000
const FIRST_RETRY_MS = 500
const MAX_RETRY_MS = 30_000

/** A table of requests, by resource and method: `POST /v1/emails body once`; see `api.ts`. */
type Table = Readonly<Record<string, Readonly<Record<string, string>>>>

interface Call {
  readonly method: string
  readonly path: string
  readonly query?: Query | undefined
  readonly body?: unknown
  readonly options: RequestOptions
  readonly traits: readonly string[]
}

/** Makes the methods of a table. `Api` is the type that was generated with it. */
export function createClient<Api>(table: Table, options: ClientOptions): Api {
  const send = createSender(options)
  return mapValues(table, (resource) => mapValues(resource, (request) => toMethod(request, send))) as Api
}

const mapValues = <In, Out>(values: Readonly<Record<string, In>>, map: (value: In) => Out): Record<string, Out> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]))

type Send = (call: Call) => Promise<Response>

function toMethod(request: string, send: Send) {
  const [method = '', template = '', ...traits] = request.split(' ')
  const has = (trait: string): boolean => traits.includes(trait)
  return (...args: unknown[]): unknown => {
    const path = template.replace(/\{(\w+)\}/g, (_, name: string) => toSegment(name, args.shift()))
    const input = has('body') || has('query') ? args.shift() : undefined
    const options = (args.shift() ?? {}) as RequestOptions
    const query = { ...(has('query') ? (input as Query | undefined) : undefined), ...options.query }
    const call: Call = { method, path, query, options, traits, ...(has('body') && { body: input }) }
    if (has('raw')) return send(call)
    const read = async (more: Query = {}) => readJson(await send({ ...call, query: { ...query, ...more } }))
    return has('pages') || has('feed') ? toPages(read) : read()
  }
}

/** One part of a path, from which no part can lead to another route. */
function toSegment(name: string, value: unknown): string {
  const text = String(value ?? '')
  if (text === '' || text === '.' || text === '..') throw new TypeError(`${name} is missing or is not an id`)
  return encodeURIComponent(text)
}

const readJson = async (response: Response): Promise<unknown> =>
  response.status === 204 ? undefined : await response.json()

function toPages(read: (query?: Query) => Promise<unknown>): Pages<PageBody> {
  async function* pages() {
    for (let query: Query | undefined = {}; query !== undefined; ) {
      const page = (await read(query)) as PageBody
      yield page
      query = findNext(page)
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
function findNext({ data, pagination, has_more: hasMore }: PageBody): Query | undefined {
  const cursor = pagination?.next_cursor
  if (cursor !== undefined) return { cursor, page: undefined, offset: undefined }
  const last = data.at(-1) as { readonly seq?: number } | undefined
  return hasMore === true && last?.seq !== undefined ? { after: last.seq } : undefined
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
}: ClientOptions): Send {
  const base = url.replace(/\/+$/, '')
  const doFetch = own ?? ((target, init) => fetch(target, init))
  return async ({ method, path, query, body, options, traits }) => {
    const idempotencyKey = options.idempotencyKey ?? (traits.includes('once') ? newIdempotencyKey() : undefined)
    const isSafe = isRepeatable(method) || idempotencyKey !== undefined
    const isRaw =
      typeof body === 'string' || body instanceof Blob || body instanceof ArrayBuffer || ArrayBuffer.isView(body)
    const init = {
      method,
      ...(body !== undefined && { body: isRaw ? (body as RawBody) : JSON.stringify(body) }),
      headers: {
        accept: 'application/json',
        ...(body !== undefined && !isRaw && { 'content-type': 'application/json' }),
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
        ...headers,
        ...options.headers,
      },
    }
    for (let attempt = 0; ; attempt++) {
      const error = await tryOnce(() =>
        doFetch(`${base}${path}${toQuery(query)}`, { ...init, ...withSignal(options.signal, timeoutMs) }),
      )
      if (error instanceof Response) return error
      if (options.signal?.aborted) throw options.signal.reason
      const waitMs = toWaitMs(error, attempt, isSafe)
      if (attempt >= retries || waitMs === undefined) throw error
      await sleep(waitMs, options.signal)
    }
  }
}

async function tryOnce(request: () => Promise<Response>): Promise<Response | TassisError> {
  let response: Response
  try {
    response = await request()
  } catch (cause) {
    return new TassisError(0, { code: 'no_connection', message: `There was no response: ${toText(cause)}.` }, { cause })
  }
  if (response.ok) return response
  const body = (await response.json().catch(() => ({}))) as ErrorBody
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  return new TassisError(response.status, {
    ...body,
    ...(body.retry_after === undefined && seconds >= 0 && { retry_after: seconds }),
  })
}

const toText = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause)).replace(/\.$/, '')

const withSignal = (signal: AbortSignal | undefined, timeoutMs: number): { readonly signal?: AbortSignal } => {
  const limits = [...(signal ? [signal] : []), ...(timeoutMs > 0 ? [AbortSignal.timeout(timeoutMs)] : [])]
  const [only] = limits
  return only ? { signal: limits.length === 1 ? only : AbortSignal.any(limits) } : {}
}

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

const newIdempotencyKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')

function toQuery(query: Query = {}): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value))
  const text = parameters.toString()
  return text === '' ? '' : `?${text}`
}
