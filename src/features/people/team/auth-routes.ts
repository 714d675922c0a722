/**
 * @module /v1/auth: signing in and out, sessions, password and second factor of the signed-in user. Paths, schemas and
 * one call each. Links by mail, to a new password or to a team, lead to the pages of `pages.ts` instead.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated } from '#features/core/app/http.ts'
import { describeRoute, errorResponses, publicRoute, requiresSession, responseHeaders } from '#platform/http/access.ts'
import { dataBody, onePageBody } from '#platform/http/envelope.ts'
import { DataBody, PageBody } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { AuthContext } from './auth-context.ts'
import {
  changePassword,
  confirmCode,
  confirmPassword,
  confirmTotp,
  disableTotp,
  renewRecoveryCodes,
  startTotp,
} from './credentials.ts'
import {
  endOtherOwnSessions,
  endOwnSession,
  login,
  logout,
  ONLY_PROVIDED,
  requireActorUser,
  switchAccount,
} from './login.ts'
import * as model from './model.ts'
import { listSessions, requireSessionId, SECOND_FACTOR_REQUIRED, toCookieHeader } from './sessions.ts'
import { listMemberships, type Membership } from './users.ts'

const tags = ['People']

const INVALID_LOGIN = [
  'invalid_login',
  'Address, password or code is wrong or missing, or the user belongs to no account: the response does not show which.',
] as const
const RATE_LIMITED = ['rate_limited', 'Too many attempts; wait as long as Retry-After says.'] as const

const NO_APP = errorResponses({ 409: ['totp_not_enabled', 'No app is in use.'], 429: RATE_LIMITED })

const own = (summary: string, description?: string, more?: object) =>
  describeRoute(summary, requiresSession, description, more)

export const authRoutes = (app: App, auth: AuthContext) =>
  new Elysia({ prefix: '/v1/auth', tags })
    .post(
      '/login',
      async ({ body, request, set }) => {
        auth.requireOwnOrigin(request)
        const signedIn = await login(app, auth.attempts, body, auth.readBrowser(request))
        set.headers['set-cookie'] = toCookieHeader(app, signedIn.token)
        return dataBody(model.sessionWire(app, signedIn))
      },
      {
        body: model.Login,
        response: DataBody(model.SessionState),
        detail: describeRoute(
          'Sign in',
          publicRoute,
          'For browsers: the response sets a session cookie, which authenticates requests to /v1 in place of an API key. Programs use API keys.',
          { ...responseHeaders('Set-Cookie'), ...errorResponses({ 401: INVALID_LOGIN, 429: RATE_LIMITED }) },
        ),
      },
    )
    .use(authenticated)
    .post(
      '/logout',
      async ({ actor, set }) => {
        await logout(app, actor)
        set.headers['set-cookie'] = toCookieHeader(app, undefined)
      },
      { detail: own('Sign out', undefined, responseHeaders('Set-Cookie')) },
    )
    .get('/session', ({ actor }) => dataBody(toSessionState(app, actor)), {
      response: DataBody(model.SessionState),
      detail: own('Get the signed-in user'),
    })
    .put(
      '/session',
      async ({ actor, body }) => {
        const membership = await switchAccount(app, actor, body.account_id)
        return dataBody(toSessionState(app, actor, membership))
      },
      {
        body: model.AccountChoice,
        response: DataBody(model.SessionState),
        detail: own(
          'Switch to another account of the user',
          'From then on, requests with this session act in that account.',
          errorResponses({ 404: ['account_not_found', 'The user belongs to no account with this id.'] }),
        ),
      },
    )
    .post('/session/password', ({ actor, body }) => confirmPassword(app, auth.attempts, actor, body.password), {
      body: model.PasswordConfirmation,
      detail: own(
        'Confirm the password',
        'For ten minutes, this session may do what otherwise responds with 403 `password_required`, such as show the secret of a webhook. Signing in confirms the password too.',
        errorResponses({ 429: RATE_LIMITED }),
      ),
    })
    .post('/session/code', ({ actor, body }) => confirmCode(app, auth.attempts, actor, body.code), {
      body: model.CodeConfirmation,
      detail: own(
        'Confirm a code',
        'A code of the authenticator app, or a recovery code, as the second factor of this session, which operators need.',
        NO_APP,
      ),
    })
    .get(
      '/sessions',
      ({ actor }) => {
        const found = listSessions(app.db, requireActorUser(app, actor).id, app.clock.now())
        return onePageBody(found.map((session) => model.sessionRecordWire(session, requireSessionId(actor))))
      },
      {
        response: PageBody(model.SessionRecord),
        detail: own(
          'List the sessions of the user',
          'All browsers in which the user is signed in, on one page, most recently used first.',
        ),
      },
    )
    .delete('/sessions', async ({ actor }) => dataBody({ ended: await endOtherOwnSessions(app, actor) }), {
      response: DataBody(model.OtherSessionsEnd),
      detail: own(
        'End all other sessions of the user',
        'All but the session of this request. Takes effect immediately.',
      ),
    })
    .delete('/sessions/:id', ({ actor, params }) => endOwnSession(app, actor, params.id), {
      params: Type.Object({ id: Type.String({ description: 'Id of the session.' }) }),
      detail: own('End a session of the user', 'Takes effect immediately.'),
    })
    .put('/password', ({ actor, body }) => changePassword(app, auth.attempts, actor, body), {
      body: model.PasswordChange,
      detail: own(
        'Change the password',
        'Ends all other sessions of the user.',
        errorResponses({ 403: ONLY_PROVIDED, 429: RATE_LIMITED }),
      ),
    })
    .post('/totp', async ({ actor, body }) => dataBody(await startTotp(app, auth.attempts, actor, body.password)), {
      body: model.OwnPassword,
      response: DataBody(model.TotpSecret),
      detail: own(
        'Start to set up an authenticator app',
        'Signing in requires codes only after one has been confirmed.',
        errorResponses({
          403: SECOND_FACTOR_REQUIRED,
          409: ['totp_enabled', 'An app is already in use.'],
          429: RATE_LIMITED,
        }),
      ),
    })
    .post(
      '/totp/confirm',
      async ({ actor, body }) => dataBody({ recovery_codes: await confirmTotp(app, auth.attempts, actor, body.code) }),
      {
        body: model.TotpConfirmation,
        response: DataBody(model.RecoveryCodes),
        detail: own(
          'Enable the authenticator app',
          undefined,
          errorResponses({
            403: SECOND_FACTOR_REQUIRED,
            409: ['totp_not_begun', 'No secret has been created yet, or an app is already in use.'],
            429: RATE_LIMITED,
          }),
        ),
      },
    )
    .post(
      '/totp/recovery-codes',
      async ({ actor, body }) =>
        dataBody({ recovery_codes: await renewRecoveryCodes(app, auth.attempts, actor, body) }),
      {
        body: model.TotpFactors,
        response: DataBody(model.RecoveryCodes),
        detail: own(
          'Renew the recovery codes',
          'Returns ten new recovery codes. Those before are no longer valid.',
          NO_APP,
        ),
      },
    )
    .delete('/totp', ({ actor, body }) => disableTotp(app, auth.attempts, actor, body), {
      body: model.TotpFactors,
      detail: own('Disable the authenticator app', undefined, NO_APP),
    })

/** @param switchedTo the account that this request switched the session to */
function toSessionState(app: App, actor: Actor, switchedTo?: Membership): model.SessionState {
  const user = requireActorUser(app, actor)
  const membership =
    switchedTo ?? listMemberships(app.db, user.id).find(({ uuid }) => formatUuid(uuid) === actor.accountUuid)
  if (!membership) throw new Error('a session without a membership')
  return model.sessionWire(app, { user, membership, id: requireSessionId(actor) })
}
