/**
 * @module What the routes and pages of users share, created once per service: who is signed in, the limits of attempts,
 * and the checks of a request.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { getPublicHost, isTrackingHost } from '#features/setup/domains/tracking-domain.ts'
import { AppError } from '#platform/errors.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import { requireOwnOrigin, type SessionGate } from '#platform/http/session.ts'
import { type Attempts, createAttempts } from './attempts.ts'
import type { Browser } from './login.ts'
import { createPasswordProofs, type PasswordProofs } from './password-proof.ts'
import { createResetRequester, type RequestReset } from './password-reset.ts'
import { createSessionGate } from './sessions.ts'

export interface AuthContext {
  readonly sessions: SessionGate<Actor>
  readonly attempts: Attempts
  readonly passwordProofs: PasswordProofs
  readonly requestReset: RequestReset
  /** The user whom the session cookie of a request identifies, for any method; undefined when no user is signed in. */
  findActor(request: Request): Actor | undefined
  readBrowser(request: Request): Browser
  /**
   * Throws 404 under the tracking host of an account: no one must sign in, or see anything, under another party's name.
   */
  requireOwnHost(request: Request): void
  /** Throws 403 when the browser reports that the request comes from another site's page. */
  requireOwnOrigin(request: Request): void
}

/** @param trackWork gets work that continues after the response */
export function createAuthContext(app: App, trackWork: (work: Promise<void>) => void): AuthContext {
  const sessions = createSessionGate(app)
  const attempts = createAttempts(app)
  const findActor = (request: Request): Actor | undefined => sessions.actorOf(request, () => clientIpOf(request))
  const ownHost = getPublicHost(app.config)
  return {
    sessions,
    attempts,
    passwordProofs: createPasswordProofs(app),
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
        throw new AppError(404, 'page_not_found', 'No such page.')
    },
    requireOwnOrigin: ({ headers }) => requireOwnOrigin(headers, app.config.publicUrl),
  }
}
