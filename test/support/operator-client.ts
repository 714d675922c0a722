/** @module The API as commands call it, for tests that have the service in their process. */
import { createAdminFetch } from '#app/admin-fetch.ts'
import type { OpenedApp } from '#app/create.ts'
import { createHttp, type HttpOptions } from '#app/http.ts'
import { API, type Api } from '#client/api.ts'
import { createClient } from '#client/client.ts'
import { OPERATOR_API, type OperatorApi } from '#client/operator-api.ts'
import { createInternalRequest } from '#platform/http/internal-request.ts'

/** The operator's client; on routes of accounts, for the only account. */
export function createOperatorClient(opened: OpenedApp, options: HttpOptions = {}): Api & OperatorApi {
  const serve = createAdminFetch(opened.app, createHttp(opened, options))
  const fetch = async (url: string, init: RequestInit) => serve(await createInternalRequest(url, init))
  const client = { url: 'http://tassis', fetch, retries: 0 }
  return { ...createClient<Api>(API, client), ...createClient<OperatorApi>(OPERATOR_API, client) }
}
