/** @module What routes and pages of people share, made once for a service: who is signed in, how often anybody may try, and what a request is. */
import type { Actor, App } from '#features/core/app/app.ts'
import { getPublicHost, isTrackingHost } from '#features/setup/domains/tracking-domain.ts'
import { AppError } from '#platform/errors.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import { requireOwnOrigin, type SessionGate } from '#platform/http/session.ts'
import { type Attempts, createAttempts } from './attempts.ts'
import type { Browser } from './login.ts'
import { createResetRequester, type RequestReset } from './password-reset.ts'
import { createSessionGate } from './sessions.ts'

export interface AuthContext {
  readonly sessions: SessionGate<Actor>
  readonly attempts: Attempts
  readonly requestReset: RequestReset
  /** Who is signed in by the cookie of a request, wherever it goes; undefined when nobody is. */
  findActor(request: Request): Actor | undefined
  /** The browser that asks. */
  readBrowser(request: Request): Browser
  /** Throws 404 under the tracking host of an account: nobody is to sign in, or see anything, under the name of another. */
  requireOwnHost(request: Request): void
  /** Throws 403 when a browser says that a request comes from a page elsewhere. */
  requireOwnOrigin(request: Request): void
}

/** @param later gets work that goes on after its answer */
export function createAuthContext(app: App, trackWork: (work: Promise<void>) => void): AuthContext {
  const sessions = createSessionGate(app)
  const attempts = createAttempts(app)
  const findActor = (request: Request): Actor | undefined => sessions.actorOf(request, () => clientIpOf(request))
  const ownHost = getPublicHost(app.config)
  return {
    sessions,
    attempts,
    requestReset: createResetRequester(app, attempts, trackWork),
    findActor: findActor,
    readBrowser: (request) => ({
      ipAddress: clientIpOf(request),
      userAgent: request.headers.get('user-agent'),
      sessionId: findActor(request)?.sessionId,
    }),
    requireOwnHost: (request) => {
      const { hostname } = new URL(request.url)
      if (hostname !== ownHost && isTrackingHost(app.db, hostname))
        throw new AppError(404, 'page_not_found', 'There is no such page here.')
    },
    requireOwnOrigin: ({ headers }) => requireOwnOrigin(headers, app.config.publicUrl),
  }
}
