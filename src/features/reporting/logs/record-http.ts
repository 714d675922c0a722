/** @module Decides which HTTP requests the request log has, and what it has of them. */
import type { Actor, App } from '#features/core/app/app.ts'
import type { Authenticator } from '#features/setup/api-keys/keys.ts'
import { attempt } from '#platform/attempt.ts'
import type { AppError } from '#platform/errors.ts'
import { readApiKey } from '#platform/http/authenticate.ts'
import type { Dialect } from '#platform/http/dialect.ts'
import type { EndedRequest } from '#platform/http/server.ts'
import { parseUuid } from '#platform/ids.ts'
import { getRequestLog, type RequestKind } from './request-log.ts'

/** A path of requests that send, of `/v1` and of every other interface. */
const SENDS = /\/emails?(?:\/|$)|^\/hooks\//
/** POST requests that change nothing, of which a dashboard makes many: at each key that is typed. */
const READS = /\/(?:render|replay\/count|import\/preview)$/
/** Signing in and the work of operators, which have the audit log, and the log itself. */
const UNLOGGED = /^\/v1\/(?:auth|operator|logs)(?:\/|$)/

/**
 * Returns what is called with each response. Logged are writes, refusals, and reads by API key; not the reads of
 * people in the dashboard, streams, and what commands on the machine do. A refused key is logged for its account, also
 * when it was revoked.
 */
export function createHttpRecorder(
  app: App,
  { findOwner }: Pick<Authenticator, 'findOwner'>,
  dialects: readonly Dialect<Actor>[],
): (response: Response, request: EndedRequest) => void {
  const log = getRequestLog(app)
  return ({ status, headers: sent }, request) => {
    const { method, path, headers, error, isSession, isGuest, knownActor, createdId } = request
    const isRefused = status >= 400 || error !== undefined
    if (knownActor !== undefined || isGuest || UNLOGGED.test(path)) return
    if (!isRefused && (method === 'GET' || method === 'HEAD' || method === 'OPTIONS' || READS.test(path))) {
      if (isSession || sent.get('content-type')?.startsWith('text/event-stream')) return
    }
    const dialect = dialects.find(({ speaks }) => speaks(path))
    const kind = (request.via ?? dialect?.name ?? (path.startsWith('/hooks/') ? 'supabase' : 'api')) as RequestKind
    // What a tool of MCP does is logged as the requests that it makes.
    if (kind === 'mcp' && request.via === undefined && !isRefused) return
    const actor = (request.actor as Actor | undefined) ?? findRefusedActor(request, dialect, findOwner)
    if (!actor) return
    log.add({
      accountId: actor.accountId,
      kind,
      method,
      // As a person writes it, so that it is found, and erased with an address in it.
      path: path.includes('%') ? (attempt(() => decodeURIComponent(path)) ?? path) : path,
      status: error && status < 400 ? error.status : status,
      error: error && describeError(error),
      durationMs: request.durationMs,
      actorId: actor.id,
      ipAddress: request.clientIp(),
      userAgent: headers.get('user-agent'),
      requestId: request.requestId,
      emailId: createdId !== undefined && SENDS.test(path) && parseUuid(createdId) ? createdId : undefined,
      body: request.bodySummary,
    })
  }
}

/** Code and sentence; with problems in several fields, which the sentence only counts, each of them. */
const describeError = ({ code, message, details }: AppError) => ({
  code,
  message: details.length < 2 ? message : details.map((detail) => `${detail.field} ${detail.message}`).join('; '),
})

/** Whose key a request has that was refused because of its key. */
function findRefusedActor(
  { headers, error, isSession }: EndedRequest,
  dialect: Dialect<Actor> | undefined,
  findOwner: Authenticator['findOwner'],
): Pick<Actor, 'accountId' | 'id'> | undefined {
  if (isSession || !error || (error.status !== 401 && error.status !== 403)) return undefined
  const key = attempt(() => (dialect?.readApiKey ?? readApiKey)(headers))
  return key === undefined ? undefined : findOwner(key)
}
