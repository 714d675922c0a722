/** @module A whole service with its HTTP API on a real socket, for tests, and a client that speaks to it. */

import { loadDashboardFiles } from '#app/built-files.ts'
import { createHttp, type HttpOptions } from '#app/http.ts'
import type { Actor } from '#features/core/app/app.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import type { BuiltFiles } from '#platform/http/built-files.ts'
import { createTestAccount, createTestApp, type TestApp, type TestAppOptions } from './app.ts'

export interface ApiResponse {
  readonly status: number
  readonly headers: Headers
  /** Parsed JSON; undefined when there is none. */
  readonly body: unknown
}

export interface ApiOptions {
  /** API key; null: none. Default: the first account's, with every scope. */
  readonly key?: string | null
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a request; `body` is sent as JSON unless it is undefined. */
export type ApiClient = (method: string, path: string, body?: unknown, options?: ApiOptions) => Promise<ApiResponse>

export interface TestApi extends TestApp {
  readonly api: ApiClient
  /** The first account, on plan `unlimited`. */
  readonly actor: Actor
  /** Its key, with every scope. */
  readonly key: string
  readonly url: string
  /** Creates a key with these scopes for the first account or another one; no scopes: all. */
  newKey(scopes?: readonly string[], of?: Actor): Promise<string>
  /** Creates another account. */
  newAccount(): Promise<Actor>
}

export interface TestApiOptions extends TestAppOptions {
  /** What the HTTP server is told about the service. */
  readonly serves?: HttpOptions
  /** Default: a free one. */
  readonly port?: number
}

let dashboard: Promise<BuiltFiles> | undefined

/** Bundles the dashboard once for all services of a process. */
function loadDashboard(): Promise<BuiltFiles> {
  dashboard ??= loadDashboardFiles()
  return dashboard
}

export async function createTestApi(options: TestApiOptions = {}): Promise<TestApi> {
  const service = await createTestApp(options)
  const { app } = service
  const actor = await createTestAccount(app)
  const newKey = async (scopes: readonly string[] = [], of: Actor = actor) =>
    (await createApiKey(app, of, { name: 'test', scopes })).key
  const key = await newKey()
  const http = createHttp(service.opened, {
    delivery: () => service.delivery,
    submission: () => service.submission,
    loadDashboard,
    ...options.serves,
  })
  const { port } = http.listen('127.0.0.1', options.port ?? 0)
  const url = `http://127.0.0.1:${port}`
  return {
    ...service,
    actor,
    key,
    url,
    newKey,
    newAccount: () => createTestAccount(app),
    api: (method, path, body, given = {}) => ask(method, `${url}${path}`, body, { key, ...given }),
    async [Symbol.asyncDispose]() {
      await http.stop(0)
      await service[Symbol.asyncDispose]()
    },
  }
}

async function ask(method: string, url: string, body: unknown, { key, headers }: ApiOptions): Promise<ApiResponse> {
  const response = await fetch(url, {
    method,
    headers: {
      ...(key && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
}

/**
 * The value at a path of names and positions, such as `at(answer.body, 'data', 0, 'id')`; throws when there is none.
 */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let found = value
  for (const step of path) {
    if (typeof found !== 'object' || found === null || !(step in found))
      throw new Error(`no ${path.join('.')} in ${JSON.stringify(value)}`)
    found = (found as Record<string | number, unknown>)[step]
  }
  return found
}
