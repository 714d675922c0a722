/**
 * @module /login, /logout, /reset-password and /join: the pages of users. GET shows and never acts; POST does what the
 * routes of /v1/auth do, for forms without scripts, and only for our own pages. Hidden under the tracking hosts of
 * accounts: no one must sign in under another party's name.
 */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { type Html, OWN_FORM_HEADERS, ownFormResponse } from '#platform/http/html.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import type { AuthContext } from './auth-context.ts'
import { findInvitation } from './invitations.ts'
import { findRequiredProof, join } from './join.ts'
import { JOIN_PATH, LOGIN_PATH, LOGOUT_PATH, RESET_PATH, toPathAfterLogin, toStartPath } from './links.ts'
import { login, logout, requireActorUser } from './login.ts'
import {
  errorPage,
  invalidLinkPage,
  joinPage,
  loginPage,
  newPasswordPage,
  passwordSetPage,
  resetRequestedPage,
  resetRequestPage,
  signedInPage,
} from './page.ts'
import { confirmReset, findResetLinkEmail } from './password-reset.ts'
import { getCsrfToken, isValidCsrfToken, requireSessionId, toCookieHeader } from './sessions.ts'
import { listMemberships } from './users.ts'

const hiddenRoute = { detail: { hide: true } }
const hiddenFormRoute = { detail: { hide: true, ...acceptsBody('json-or-form') } }

/** Redirects to another of our pages with GET. */
const redirectTo = (path: string, cookie?: string): Response =>
  new Response(null, {
    status: 303,
    headers: {
      ...OWN_FORM_HEADERS,
      location: path,
      'cache-control': 'no-store',
      ...(cookie !== undefined && { 'set-cookie': cookie }),
    },
  })

const MAX_FIELD_LENGTH = 1000

/** A field of the form; empty when it is missing, too long or not a string. */
function readField(body: unknown, name: string): string {
  const value = typeof body === 'object' && body !== null && Object.hasOwn(body, name) ? Reflect.get(body, name) : ''
  return typeof value === 'string' && value.length <= MAX_FIELD_LENGTH ? value : ''
}

/** What the pages have in common: the checks of a POST, and turning an error into a page. */
class TeamPages {
  readonly #app: App
  readonly #auth: AuthContext

  constructor(app: App, auth: AuthContext) {
    this.#app = app
    this.#auth = auth
  }

  /**
   * Handles a POST; an error becomes a page too.
   * @param renderAgain renders the submitted page with the error message
   */
  async handlePost(
    request: Request,
    work: () => Promise<Response>,
    renderAgain: (message: string) => Html,
  ): Promise<Response> {
    try {
      this.#auth.requireOwnHost(request)
      this.#auth.requireOwnOrigin(request)
      return await work()
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      const { status, message, retryAfterSeconds } = error
      const headers = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
      const page = status === 403 || status === 404 ? errorPage(message) : renderAgain(message)
      return ownFormResponse(page, status, headers)
    }
  }

  handleGet(request: Request, page: () => Response): Response {
    try {
      this.#auth.requireOwnHost(request)
      return page()
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      return ownFormResponse(errorPage(error.message), error.status)
    }
  }

  /** The signed-in user, if the request has the CSRF token of the page. */
  findVerifiedActor(request: Request, body: unknown): Actor | undefined {
    const actor = this.#auth.findActor(request)
    return actor && isValidCsrfToken(this.#app, requireSessionId(actor), readField(body, 'csrf_token'))
      ? actor
      : undefined
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
      ({ request, body }) => {
        const email = readField(body, 'email')
        const next = toPathAfterLogin(app.config, readField(body, 'next'))
        return pages.handlePost(
          request,
          async () => {
            const input = { email, password: readField(body, 'password'), code: readField(body, 'code') }
            const { token } = await login(app, auth.attempts, input, auth.readBrowser(request))
            return redirectTo(next === LOGIN_PATH ? toStartPath(app.config) : next, toCookieHeader(app, token))
          },
          (message) => loginPage({ email, next, message }),
        )
      },
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
          errorPage,
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
