/**
 * @module /login, /logout, /reset-password and /join: the pages of users. GET shows and never acts; POST acts, for forms
 * without scripts, and only for our own pages. Hidden under the tracking hosts of accounts: no one must sign in under
 * another party's name.
 */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { type Html, ownFormResponse } from '#platform/http/html.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import type { AuthContext } from './auth-context.ts'
import { FormPages, hiddenFormRoute, hiddenRoute, readField, redirectTo } from './form-pages.ts'
import { findInvitation } from './invitations.ts'
import { findRequiredProof, join } from './join.ts'
import { JOIN_PATH, LOGIN_PATH, LOGOUT_PATH, RESET_PATH, toPathAfterLogin, toStartPath } from './links.ts'
import { beginLogin, finishLogin, logout, requireActorUser, type SignedIn } from './login.ts'
import {
  errorPage,
  invalidLinkPage,
  joinPage,
  loginCodePage,
  loginPage,
  newPasswordPage,
  passwordSetPage,
  resetRequestedPage,
  resetRequestPage,
  signedInPage,
} from './page.ts'
import type { PasswordProof } from './password-proof.ts'
import { confirmReset, findResetLinkEmail } from './password-reset.ts'
import { getCsrfToken, isValidCsrfToken, requireSessionId, toCookieHeader } from './sessions.ts'
import { listMemberships } from './users.ts'

const WRONG_PASSWORD_MESSAGE = 'Email address or password is wrong, or you belong to no account.'
const WRONG_CODE_MESSAGE = 'The code is wrong or was already used; enter a new one.'
const LATE_CODE_MESSAGE = 'Five minutes have passed, or the page was already used; sign in again.'

class TeamPages extends FormPages {
  readonly #app: App
  readonly #auth: AuthContext

  constructor(app: App, auth: AuthContext) {
    super(auth)
    this.#app = app
    this.#auth = auth
  }

  /** The signed-in user, if the request has the CSRF token of the page. */
  findVerifiedActor(request: Request, body: unknown): Actor | undefined {
    const actor = this.#auth.findActor(request)
    return actor && isValidCsrfToken(this.#app, requireSessionId(actor), readField(body, 'csrf_token'))
      ? actor
      : undefined
  }

  login(request: Request, body: unknown): Promise<Response> {
    const email = readField(body, 'email')
    const next = toPathAfterLogin(this.#app.config, readField(body, 'next'))
    return this.handlePost(
      request,
      async () => {
        const credentials = { email, password: readField(body, 'password') }
        const { attempts, passwordProofs } = this.#auth
        const result = await beginLogin(this.#app, attempts, credentials, this.#auth.readBrowser(request))
        if ('signedIn' in result) return this.#toNextPage(next, result.signedIn)
        const { codeOf: user } = result
        const proof = passwordProofs.create({ user, checkedAt: this.#app.clock.now(), isCounted: true })
        return ownFormResponse(loginCodePage({ email: user.email, next, proof }))
      },
      (message, { code }) =>
        loginPage({ email, next, message: code === 'invalid_login' ? WRONG_PASSWORD_MESSAGE : message }),
    )
  }

  /** The second step of signing in: a proof is valid once, so the page of a wrong code has another. */
  loginWithCode(request: Request, body: unknown): Promise<Response> {
    const next = toPathAfterLogin(this.#app.config, readField(body, 'next'))
    let proof: PasswordProof | undefined
    return this.handlePost(
      request,
      async () => {
        proof = this.#auth.passwordProofs.consume(readField(body, 'proof'))
        if (!proof) throw new AppError(401, 'invalid_login', LATE_CODE_MESSAGE)
        const input = { proof, code: readField(body, 'code') }
        const signedIn = await finishLogin(this.#app, this.#auth.attempts, input, this.#auth.readBrowser(request))
        return this.#toNextPage(next, signedIn)
      },
      (message, { code }) =>
        proof
          ? loginCodePage({
              email: proof.user.email,
              next,
              proof: this.#auth.passwordProofs.create({ ...proof, isCounted: false }),
              message: code === 'invalid_login' ? WRONG_CODE_MESSAGE : message,
            })
          : loginPage({ next, message }),
    )
  }

  #toNextPage(next: string, { token }: SignedIn): Response {
    return redirectTo(next === LOGIN_PATH ? toStartPath(this.#app.config) : next, toCookieHeader(this.#app, token))
  }

  toSignedInResponse(actor: Actor): Response {
    const user = requireActorUser(this.#app, actor)
    const account = listMemberships(this.#app.db, user.id).find(({ accountId }) => accountId === actor.accountId)
    return ownFormResponse(
      signedInPage({
        email: user.email,
        accountName: account?.name ?? '',
        role: actor.role ?? '',
        csrfToken: getCsrfToken(this.#app, requireSessionId(actor)),
        hasDashboard: this.#app.config.dashboard,
      }),
    )
  }

  renderInvitation(token: string, signedIn: Actor | undefined, filled: { message?: string; name?: string } = {}): Html {
    const invitation = findInvitation(this.#app.db, token, this.#app.clock.now())
    if (!invitation) return invalidLinkPage('invitation')
    const proof = findRequiredProof(this.#app, invitation, signedIn)
    const { email, accountName, role } = invitation
    const csrf =
      proof === 'session' && signedIn ? { csrfToken: getCsrfToken(this.#app, requireSessionId(signedIn)) } : {}
    return joinPage({ token, email, accountName, role, proof, ...csrf, ...filled })
  }

  renderNewPassword(token: string, message?: string): Html {
    const email = findResetLinkEmail(this.#app, token)
    return email === undefined ? invalidLinkPage('reset') : newPasswordPage(token, email, { message })
  }
}

export function teamPages(app: App, auth: AuthContext) {
  const pages = new TeamPages(app, auth)
  return new Elysia()
    .get(
      LOGIN_PATH,
      ({ request, query }) =>
        pages.handleGet(request, () => {
          const actor = auth.findActor(request)
          const next = toPathAfterLogin(app.config, readField(query, 'next'))
          if (!actor) return ownFormResponse(loginPage({ next }))
          return next === LOGIN_PATH ? pages.toSignedInResponse(actor) : redirectTo(next)
        }),
      hiddenRoute,
    )
    .post(
      LOGIN_PATH,
      ({ request, body }) =>
        readField(body, 'proof') === '' ? pages.login(request, body) : pages.loginWithCode(request, body),
      hiddenFormRoute,
    )
    .post(
      LOGOUT_PATH,
      ({ request, body }) =>
        pages.handlePost(
          request,
          async () => {
            const actor = pages.findVerifiedActor(request, body)
            if (actor) await logout(app, actor)
            // If the session has already ended, only the cookie is removed; a session that is still live stays.
            return auth.findActor(request)
              ? redirectTo(LOGIN_PATH)
              : redirectTo(LOGIN_PATH, toCookieHeader(app, undefined))
          },
          (message) => errorPage(message),
        ),
      hiddenFormRoute,
    )
    .get(
      RESET_PATH,
      ({ request, query }) =>
        pages.handleGet(request, () => {
          const token = readField(query, 'token')
          if (!Object.hasOwn(query, 'token')) return ownFormResponse(resetRequestPage())
          return ownFormResponse(
            pages.renderNewPassword(token),
            findResetLinkEmail(app, token) === undefined ? 410 : 200,
          )
        }),
      hiddenRoute,
    )
    .post(
      RESET_PATH,
      ({ request, body }) => {
        const token = readField(body, 'token')
        const email = readField(body, 'email')
        return token === ''
          ? pages.handlePost(
              request,
              async () => {
                if (email === '') throw invalid('email', 'Enter your email address.')
                auth.requestReset(email, clientIpOf(request))
                return ownFormResponse(resetRequestedPage(), 202)
              },
              (message) => resetRequestPage({ email, message }),
            )
          : pages.handlePost(
              request,
              async () => {
                const input = { token, password: readField(body, 'password') }
                await confirmReset(app, auth.attempts, input, clientIpOf(request))
                return ownFormResponse(passwordSetPage())
              },
              (message) => pages.renderNewPassword(token, message),
            )
      },
      hiddenFormRoute,
    )
    .get(
      JOIN_PATH,
      ({ request, query }) =>
        pages.handleGet(request, () => {
          const token = readField(query, 'token')
          const isOpen = findInvitation(app.db, token, app.clock.now()) !== undefined
          return ownFormResponse(pages.renderInvitation(token, auth.findActor(request)), isOpen ? 200 : 410)
        }),
      hiddenRoute,
    )
    .post(
      JOIN_PATH,
      ({ request, body }) => {
        const token = readField(body, 'token')
        const name = readField(body, 'name')
        return pages.handlePost(
          request,
          async () => {
            const input = { token, name, password: readField(body, 'password'), code: readField(body, 'code') }
            const signedIn = await join(
              app,
              auth.attempts,
              input,
              auth.readBrowser(request),
              pages.findVerifiedActor(request, body),
            )
            return redirectTo(toStartPath(app.config), toCookieHeader(app, signedIn.token))
          },
          (message) => pages.renderInvitation(token, auth.findActor(request), { message, name }),
        )
      },
      hiddenFormRoute,
    )
}
