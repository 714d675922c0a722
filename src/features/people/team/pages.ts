/**
 * @module /login, /logout, /reset-password and /join: the pages of people. GET shows and never acts; POST does what the routes of /v1/auth do, for forms
 * without scripts, and only for pages of our own. Not to be found under the tracking hosts of accounts: nobody is to sign in under the name of another.
 */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { type Html, OWN_FORM_HEADERS, ownFormResponse } from '#platform/http/html.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import { findInvitation } from './invitations.ts'
import { join, proofOf } from './join.ts'
import { afterLogin, JOIN_PATH, LOGIN_PATH, LOGOUT_PATH, RESET_PATH } from './links.ts'
import { login, logout, userOf } from './login.ts'
import {
  askResetPage,
  joinPage,
  loginPage,
  newPasswordPage,
  passwordSetPage,
  refusedPage,
  resetAskedPage,
  signedInPage,
  voidLinkPage,
} from './page.ts'
import { confirmReset, emailOfResetLink } from './password-reset.ts'
import type { People } from './people.ts'
import { cookieOf, csrfToken, isCsrfToken, sessionOf } from './sessions.ts'
import { membershipsOf } from './users.ts'

const shown = { detail: { hide: true } }
const posted = { detail: { hide: true, ...acceptsBody('json-or-form') } }

/** To another page of ours, with GET. */
const goTo = (path: string, cookie?: string): Response =>
  new Response(null, {
    status: 303,
    headers: {
      ...OWN_FORM_HEADERS,
      location: path,
      'cache-control': 'no-store',
      ...(cookie !== undefined && { 'set-cookie': cookie }),
    },
  })

const LONGEST_FIELD = 1000

/** A field of the form; empty when it was not sent, or cannot be one. */
function fieldOf(body: unknown, name: string): string {
  const value = typeof body === 'object' && body !== null && Object.hasOwn(body, name) ? Reflect.get(body, name) : ''
  return typeof value === 'string' && value.length <= LONGEST_FIELD ? value : ''
}

/** What the pages have in common: who may post, and how a refusal becomes a page. */
class TeamPages {
  readonly #app: App
  readonly #people: People

  constructor(app: App, people: People) {
    this.#app = app
    this.#people = people
  }

  /** Runs what a page does; a refusal becomes a page too. @param again the page that was sent, with what is wrong */
  async act(request: Request, work: () => Promise<Response>, again: (message: string) => Html): Promise<Response> {
    try {
      this.#people.requireOwnHost(request)
      this.#people.requireOwnOrigin(request)
      return await work()
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      const { status, message, retryAfterSeconds } = error
      const headers = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
      const page = status === 403 || status === 404 ? refusedPage(message) : again(message)
      return ownFormResponse(page, status, headers)
    }
  }

  show(request: Request, page: () => Response): Response {
    try {
      this.#people.requireOwnHost(request)
      return page()
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      return ownFormResponse(refusedPage(error.message), error.status)
    }
  }

  /** Who is signed in and sent the token of the page. */
  provenBy(request: Request, body: unknown): Actor | undefined {
    const actor = this.#people.signedIn(request)
    return actor && isCsrfToken(this.#app, sessionOf(actor), fieldOf(body, 'csrf_token')) ? actor : undefined
  }

  signedInAs(actor: Actor): Response {
    const user = userOf(this.#app, actor)
    const account = membershipsOf(this.#app.db, user.id).find(({ accountId }) => accountId === actor.accountId)
    return ownFormResponse(
      signedInPage({
        email: user.email,
        accountName: account?.name ?? '',
        role: actor.role ?? '',
        csrfToken: csrfToken(this.#app, sessionOf(actor)),
      }),
    )
  }

  invited(token: string, signedIn: Actor | undefined, filled: { message?: string; name?: string } = {}): Html {
    const invitation = findInvitation(this.#app.db, token, this.#app.clock.now())
    if (!invitation) return voidLinkPage('invitation')
    const proof = proofOf(this.#app, invitation, signedIn)
    const { email, accountName, role } = invitation
    const csrf = proof === 'session' && signedIn ? { csrfToken: csrfToken(this.#app, sessionOf(signedIn)) } : {}
    return joinPage({ token, email, accountName, role, proof, ...csrf, ...filled })
  }

  newPassword(token: string, message?: string): Html {
    const email = emailOfResetLink(this.#app, token)
    return email === undefined ? voidLinkPage('reset') : newPasswordPage(token, email, { message })
  }
}

export function teamPages(app: App, people: People) {
  const pages = new TeamPages(app, people)
  return new Elysia()
    .get(
      LOGIN_PATH,
      ({ request, query }) =>
        pages.show(request, () => {
          const actor = people.signedIn(request)
          const next = afterLogin(fieldOf(query, 'next'))
          if (!actor) return ownFormResponse(loginPage({ next }))
          return next === LOGIN_PATH ? pages.signedInAs(actor) : goTo(next)
        }),
      shown,
    )
    .post(
      LOGIN_PATH,
      ({ request, body }) => {
        const email = fieldOf(body, 'email')
        const next = afterLogin(fieldOf(body, 'next'))
        return pages.act(
          request,
          async () => {
            const given = { email, password: fieldOf(body, 'password'), code: fieldOf(body, 'code') }
            const { token } = await login(app, people.attempts, given, people.browserOf(request))
            return goTo(next, cookieOf(app, token))
          },
          (message) => loginPage({ email, next, message }),
        )
      },
      posted,
    )
    .post(
      LOGOUT_PATH,
      ({ request, body }) =>
        pages.act(
          request,
          async () => {
            const actor = pages.provenBy(request, body)
            if (actor) await logout(app, actor)
            // Of a session that is over there is nothing to end, but the cookie; one that is not stays.
            return people.signedIn(request) ? goTo(LOGIN_PATH) : goTo(LOGIN_PATH, cookieOf(app, undefined))
          },
          refusedPage,
        ),
      posted,
    )
    .get(
      RESET_PATH,
      ({ request, query }) =>
        pages.show(request, () => {
          const token = fieldOf(query, 'token')
          if (!Object.hasOwn(query, 'token')) return ownFormResponse(askResetPage())
          return ownFormResponse(pages.newPassword(token), emailOfResetLink(app, token) === undefined ? 410 : 200)
        }),
      shown,
    )
    .post(
      RESET_PATH,
      ({ request, body }) => {
        const token = fieldOf(body, 'token')
        const email = fieldOf(body, 'email')
        return token === ''
          ? pages.act(
              request,
              async () => {
                if (email === '') throw invalid('email', 'Give your email address.')
                people.requestReset(email, clientIpOf(request))
                return ownFormResponse(resetAskedPage(), 202)
              },
              (message) => askResetPage({ email, message }),
            )
          : pages.act(
              request,
              async () => {
                const given = { token, password: fieldOf(body, 'password') }
                await confirmReset(app, people.attempts, given, clientIpOf(request))
                return ownFormResponse(passwordSetPage())
              },
              (message) => pages.newPassword(token, message),
            )
      },
      posted,
    )
    .get(
      JOIN_PATH,
      ({ request, query }) =>
        pages.show(request, () => {
          const token = fieldOf(query, 'token')
          const isOpen = findInvitation(app.db, token, app.clock.now()) !== undefined
          return ownFormResponse(pages.invited(token, people.signedIn(request)), isOpen ? 200 : 410)
        }),
      shown,
    )
    .post(
      JOIN_PATH,
      ({ request, body }) => {
        const token = fieldOf(body, 'token')
        const name = fieldOf(body, 'name')
        return pages.act(
          request,
          async () => {
            const given = { token, name, password: fieldOf(body, 'password'), code: fieldOf(body, 'code') }
            const signedIn = await join(
              app,
              people.attempts,
              given,
              people.browserOf(request),
              pages.provenBy(request, body),
            )
            return goTo(LOGIN_PATH, cookieOf(app, signedIn.token))
          },
          (message) => pages.invited(token, people.signedIn(request), { message, name }),
        )
      },
      posted,
    )
}
