/**
 * @module What the routes and pages of users share, created once per service: who is signed in, the limits of attempts,
 * and the checks of a request.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { getPublicHost, isTrackingHost } from '#features/setup/domains/tracking-domain.ts'
import { AppError } from '#platform/errors.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import { requireOwnOrigin } from '#platform/http/session.ts'
import { createAttempts } from './attempts.ts'
import { toPathAfterLogin, toStartPath } from './links.ts'
import type { Browser } from './login.ts'
import type { SignInWays } from './page.ts'
import { findRelyingParty } from './passkeys/passkeys.ts'
import { createResetRequester } from './password-reset.ts'
import { createSessionGate } from './sessions.ts'

export type AuthContext = ReturnType<typeof createAuthContext>

/** @param trackWork gets work that continues after the response */
export function createAuthContext(app: App, trackWork: (work: Promise<void>) => void) {
  const sessions = createSessionGate(app)
  const attempts = createAttempts(app)
  /** The user whom the session cookie of a request identifies, for any method; undefined when no user is signed in. */
  const findActor = (request: Request): Actor | undefined => sessions.actorOf(request, () => clientIpOf(request))
  const ownHost = getPublicHost(app.config)
  const { dashboard, localSignIn, oidcIssuer, oidcName } = app.config
  const ways: SignInWays = {
    provider: oidcIssuer === '' ? undefined : oidcName,
    isLocal: localSignIn,
    hasPasskeys: dashboard && localSignIn && findRelyingParty(app.config) !== undefined,
  }
  return {
    ways,
    /** Where a browser goes on once it is signed in. @param next where it wanted to go */
    toNextPath: (next: string): string => toStartPath(app.config, toPathAfterLogin(app.config, next)),
    sessions,
    attempts,
    requestReset: createResetRequester(app, attempts, trackWork),
    findActor,
    readBrowser: (request: Request): Browser => ({
      ipAddress: clientIpOf(request),
      userAgent: request.headers.get('user-agent'),
      sessionId: findActor(request)?.sessionId,
    }),
    /**
     * Throws 404 under the tracking host of an account: no one must sign in, or see anything, under another party's
     * name.
     */
    requireOwnHost(request: Request): void {
      const { hostname } = new URL(request.url)
      if (hostname !== ownHost && isTrackingHost(app.db, hostname))
        throw new AppError(404, 'page_not_found', 'No such page.')
    },
    /** Throws 403 when the browser reports that the request comes from another site's page. */
    requireOwnOrigin: ({ headers }: Request): void => requireOwnOrigin(headers, app.config.publicUrl),
  }
}
