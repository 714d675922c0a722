/**
 * @module Serves the API to commands, over the admin socket or within the command's own process: every route, with all
 * rights. Routes below /v1/operator are called by the operator of the service; any other acts for one account.
 */

import { resolveAccount } from '#features/core/accounts/rows.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { SCOPES } from '#features/setup/api-keys/scopes.ts'
import { AppError } from '#platform/errors.ts'
import { toErrorResponse } from '#platform/http/error-response.ts'
import type { HttpServer } from '#platform/http/server.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'

/** ID or name of the account for which a request acts, URL-encoded; without it, the only account. */
export const ACCOUNT_HEADER = 'tassis-account'

/** Operators act for no account on routes of operators. */
const OPERATOR: Actor = { accountId: 0, accountUuid: '', type: 'operator', id: 'cli', scopes: new Set(SCOPES) }

export const createAdminFetch =
  (app: App, http: HttpServer) =>
  async (request: Request): Promise<Response> => {
    try {
      return await http.fetch(request, { actor: toActor(app, request) })
    } catch (error) {
      if (error instanceof AppError) return toErrorResponse(error, formatUuid(newUuid()))
      throw error
    }
  }

function toActor(app: App, { url, headers }: Request): Actor {
  if (new URL(url).pathname.startsWith('/v1/operator/')) return OPERATOR
  const account = headers.get(ACCOUNT_HEADER)
  return toOperatorActor(resolveAccount(app, account === null ? undefined : decodeURIComponent(account)))
}
