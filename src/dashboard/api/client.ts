/** @module The client of the API with the session of this browser: `api` for changes, `read` for what screens show. */
import { API, type Api } from '#client/api.ts'
import { createClient, parseRequests, type RequestOfTable, TassisError } from '#client/client.ts'
import { OPERATOR_API, type OperatorApi } from '#client/operator-api.ts'

type WholeApi = Api & OperatorApi

let csrfToken = ''
/** Held in memory only: a page of another origin must not find it. */
export const rememberCsrfToken = (token: string): void => {
  csrfToken = token
}

let onSignedOut = (): void => {}
/** @param listener called when a request finds that the session has ended */
export const listenForSignOut = (listener: () => void): void => {
  onSignedOut = listener
}

let onForbidden = (): void => {}
/** @param listener called when a change was forbidden: the role may have changed */
export const listenForForbidden = (listener: () => void): void => {
  onForbidden = listener
}

/** Makes a request with the session; the page also learns of one that has ended and of a role that was changed. */
export async function fetchWithSession(url: string, init: RequestInit): Promise<Response> {
  const headers = { ...init.headers, ...(init.method !== 'GET' && { 'x-csrf-token': csrfToken }) }
  const response = await fetch(url, { ...init, headers, credentials: 'same-origin', cache: 'no-store' }).catch(
    (error) => {
      if (init.signal?.aborted) throw error
      throw new TassisError(0, { code: 'no_connection', message: 'The server cannot be reached.' })
    },
  )
  // The sign-in itself also responds with 401, which is about the password.
  if (response.status === 401 && url !== '/v1/auth/login') {
    onSignedOut()
    const message = 'Your session had ended. Sign in again, then repeat this.'
    throw new TassisError(401, { ...(await readCode(response)), message })
  }
  // Only the age of the password; the role is the same.
  if (response.status === 403 && init.method !== 'GET' && (await readCode(response)).code !== 'password_required')
    onForbidden()
  return response
}

const readCode = async (response: Response): Promise<{ readonly code?: string }> =>
  (await response
    .clone()
    .json()
    .catch(() => ({}))) as { readonly code?: string }

/** Errors are shown, and queries repeat what may succeed later, so that nothing is repeated here. */
const OPTIONS = { fetch: fetchWithSession, retries: 0, timeoutMs: 0 }
const TABLE: Readonly<Record<string, string>> = { ...API, ...OPERATOR_API }

export const api = createClient<WholeApi>(TABLE, OPTIONS)
/** The same, by names that are known only here. */
const methods = createClient<Methods>(TABLE, OPTIONS)

/** A request that reads: the key by which its response is kept, and how it is made. */
export interface Read<Result extends PromiseLike<unknown>> {
  /** Resource, method, ids, and the query. */
  readonly queryKey: readonly unknown[]
  readonly queryFn: (context: { readonly signal: AbortSignal }) => Promise<Awaited<Result>>
  readonly call: (signal: AbortSignal) => Result
  /** For links that the browser follows. */
  readonly url: string
}

type Reads<Methods> = {
  readonly [Name in keyof Methods]: Methods[Name] extends (...args: infer Args) => infer Result
    ? Result extends PromiseLike<unknown>
      ? (...args: Args) => Read<Result>
      : never
    : never
}

/** Requests for `useQuery` and the hooks of `data.ts`, by the names of the client: `read.domains.get(id)`. */
export const read = mapValues(TABLE, (line, resource) =>
  mapValues(parseRequests(line), (request, name) => toRead(resource, name, request)),
) as { readonly [Resource in keyof WholeApi]: Reads<WholeApi[Resource]> }

function mapValues<In, Out>(values: Readonly<Record<string, In>>, map: (value: In, name: string) => Out): unknown {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value, name)]))
}

type Methods = Readonly<Record<string, Readonly<Record<string, (...args: unknown[]) => PromiseLike<unknown>>>>>

function toRead(resource: string, name: string, { path, traits }: RequestOfTable) {
  const idCount = path.split('{').length - 1
  return (...args: readonly unknown[]): Read<PromiseLike<unknown>> => {
    const ids = args.slice(0, idCount)
    const query =
      traits.includes('query') || traits.includes('pages')
        ? toQuery(args[idCount] as Query | undefined, traits.includes('pages') && path !== FEED)
        : undefined
    const input = query ? [query] : traits.includes('body') ? [args[idCount]] : []
    const call = (signal: AbortSignal) =>
      methods[resource]?.[name]?.(...ids, ...input, { signal }) as PromiseLike<unknown>
    return {
      queryKey: [resource, name, ...ids, ...input],
      queryFn: async ({ signal }) => await call(signal),
      call,
      url: toUrl(path, ids, query),
    }
  }
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>

const PAGE_SIZE = 50
/** Has positions and a limit instead of pages. */
const FEED = '/v1/events'

/** A filter without a text is none. */
const toQuery = (query: Query = {}, isPaged: boolean): Record<string, string> =>
  Object.fromEntries(
    Object.entries<Query[string]>({ ...(isPaged && { per_page: PAGE_SIZE }), ...query }).flatMap(([name, value]) =>
      value === undefined || value === '' ? [] : [[name, String(value)]],
    ),
  )

function toUrl(path: string, ids: readonly unknown[], query: Record<string, string> = {}): string {
  const rest = ids.values()
  const parameters = new URLSearchParams(query).toString()
  return (
    path.replace(/\{\w+\}/g, () => encodeURIComponent(String(rest.next().value))) + (parameters && `?${parameters}`)
  )
}
