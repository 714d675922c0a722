/**
 * @module /login, /logout, /reset-password, /join and /setup: the pages of users. GET shows and never acts; POST acts, for
 * forms without scripts, and only for our own pages. Hidden under the tracking hosts of accounts: no one must sign in under
 * another party's name.
 */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { unknownRoute } from '#platform/http/error-response.ts'
import { type Html, ownFormResponse, UNLISTED_HEADERS } from '#platform/http/html.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import type { AuthContext } from './auth-context.ts'
import { createFormPages, type Form, hiddenFormRoute, hiddenRoute, readField, redirectTo } from './form-pages.ts'
import { findInvitation } from './invitations.ts'
import { findRequiredProof, join } from './join.ts'
import { JOIN_PATH, LOGIN_PATH, LOGOUT_PATH, RESET_PATH, SETUP_PATH, toPathAfterLogin, toStartPath } from './links.ts'
import {
  beginLogin,
  createPasswordProof,
  finishLogin,
  logout,
  onlyByProvider,
  readPasswordProof,
  requireActorUser,
  type SignedIn,
} from './login.ts'
import {
  invalidLinkPage,
  invalidSetupLinkPage,
  joinPage,
  loginCodePage,
  loginPage,
  newPasswordPage,
  passwordSetPage,
  resetRequestedPage,
  resetRequestPage,
  setupPage,
  signedInPage,
} from './page.ts'
import { confirmReset, findResetLink } from './password-reset.ts'
import { getCsrfToken, isValidCsrfToken, requireSessionId, toCookieHeader } from './sessions.ts'
import { type AccountCreator, findFirstAccount, isSetupLink, setUp } from './setup.ts'
import { singleSignOnPages } from './single-sign-on/pages.ts'
import { listMemberships } from './users.ts'

const WRONG_PASSWORD_MESSAGE = 'Email address or password is wrong, or you belong to no account.'
const WRONG_CODE_MESSAGE = 'The code is wrong or was already used; enter a new one.'
const LATE_CODE_MESSAGE = 'Five minutes have passed, or the password was changed; sign in again.'

type FormPages = ReturnType<typeof createFormPages>

/** Where a browser that has just signed in goes on. */
const toNextPage = (app: App, next: string, { token }: SignedIn): Response =>
  redirectTo(toStartPath(app.config, next), toCookieHeader(app, token))

/** The signed-in user, if the request has the CSRF token of the page. */
function findVerifiedActor(app: App, auth: AuthContext, { request, field }: Form): Actor | undefined {
  const actor = auth.findActor(request)
  return actor && isValidCsrfToken(app, requireSessionId(actor), field('csrf_token')) ? actor : undefined
}

function showSignedIn(app: App, actor: Actor): Response {
  const user = requireActorUser(app, actor)
  const account = listMemberships(app.db, user.id).find(({ accountId }) => accountId === actor.accountId)
  return ownFormResponse(
    signedInPage({
      email: user.email,
      accountName: account?.name ?? '',
      role: actor.role ?? '',
      csrfToken: getCsrfToken(app, requireSessionId(actor)),
      hasDashboard: app.config.dashboard,
    }),
  )
}

function loginPages(app: App, auth: AuthContext, { act, show }: FormPages) {
  const { attempts } = auth
  const nextOf = ({ field }: Form): string => toPathAfterLogin(app.config, field('next'))
  const logIn = act(
    async (form) => {
      const { request, field } = form
      const credentials = { email: field('email'), password: field('password') }
      const result = await beginLogin(app, attempts, credentials, auth.readBrowser(request))
      if ('signedIn' in result) return toNextPage(app, nextOf(form), result.signedIn)
      const { codeOf: user } = result
      const proof = createPasswordProof(app, user)
      return ownFormResponse(loginCodePage({ email: user.email, next: nextOf(form), proof, ...auth.ways }))
    },
    (form, message, { code }) =>
      loginPage(auth.ways, {
        email: form.field('email'),
        next: nextOf(form),
        message: code === 'invalid_login' && auth.ways.isLocal ? WRONG_PASSWORD_MESSAGE : message,
      }),
  )
  const logInWithCode = act(
    async (form) => {
      const user = readPasswordProof(app, form.field('proof'))
      if (!user) throw new AppError(401, 'invalid_login', LATE_CODE_MESSAGE)
      const input = { user, code: form.field('code') }
      return toNextPage(app, nextOf(form), await finishLogin(app, attempts, input, auth.readBrowser(form.request)))
    },
    (form, message, { code }) => {
      const [proof, next] = [form.field('proof'), nextOf(form)]
      const user = readPasswordProof(app, proof)
      return user
        ? loginCodePage({
            email: user.email,
            next,
            proof,
            message: code === 'invalid_login' ? WRONG_CODE_MESSAGE : message,
            ...auth.ways,
          })
        : loginPage(auth.ways, { next, message })
    },
  )
  return new Elysia()
    .get(
      LOGIN_PATH,
      show((form) => {
        const actor = auth.findActor(form.request)
        const next = nextOf(form)
        if (!actor) return ownFormResponse(loginPage(auth.ways, { next }))
        return next === LOGIN_PATH ? showSignedIn(app, actor) : redirectTo(next)
      }),
      hiddenRoute,
    )
    .post(
      LOGIN_PATH,
      (post) => (readField(post.body, 'proof') === '' ? logIn(post) : logInWithCode(post)),
      hiddenFormRoute,
    )
    .post(
      LOGOUT_PATH,
      act(async (form) => {
        const actor = findVerifiedActor(app, auth, form)
        if (actor) await logout(app, actor)
        // If the session has already ended, only the cookie is removed; a session that is still live stays.
        return redirectTo(LOGIN_PATH, auth.findActor(form.request) ? undefined : toCookieHeader(app, undefined))
      }),
      hiddenFormRoute,
    )
}

function resetPages(app: App, auth: AuthContext, { act, show }: FormPages) {
  const render = (token: string, message?: string): Html => {
    const link = findResetLink(app, token)
    return link ? newPasswordPage(token, link, { message }) : invalidLinkPage('reset')
  }
  const requestLink = act(
    async ({ request, field }) => {
      if (!app.config.localSignIn) throw onlyByProvider(app.config)
      if (field('email') === '') throw invalid('email', 'Enter your email address.')
      auth.requestReset(field('email'), clientIpOf(request))
      return ownFormResponse(resetRequestedPage(), 202)
    },
    ({ field }, message) => resetRequestPage({ email: field('email'), message }),
  )
  const setPassword = act(
    async ({ request, field }) => {
      const input = { token: field('token'), password: field('password') }
      return ownFormResponse(passwordSetPage(await confirmReset(app, auth.attempts, input, clientIpOf(request))))
    },
    ({ field }, message) => render(field('token'), message),
  )
  return new Elysia()
    .get(
      RESET_PATH,
      show(({ field }) => {
        if (field('token') === '') return ownFormResponse(resetRequestPage())
        const isValid = findResetLink(app, field('token')) !== undefined
        return ownFormResponse(render(field('token')), isValid ? 200 : 410)
      }),
      hiddenRoute,
    )
    .post(
      RESET_PATH,
      (post) => (readField(post.body, 'token') === '' ? requestLink(post) : setPassword(post)),
      hiddenFormRoute,
    )
}

function joinPages(app: App, auth: AuthContext, { act, show }: FormPages) {
  const render = ({ request, field }: Form, filled: { message?: string; name?: string } = {}): Html => {
    const token = field('token')
    const invitation = findInvitation(app.db, token, app.clock.now())
    if (!invitation) return invalidLinkPage('invitation')
    const signedIn = auth.findActor(request)
    const proof = findRequiredProof(app, invitation, signedIn)
    const csrfToken = proof === 'session' && signedIn ? getCsrfToken(app, requireSessionId(signedIn)) : undefined
    const { email, accountName, role } = invitation
    const { oidcName: provider } = app.config
    return joinPage({ token, email, accountName, role, proof, csrfToken, provider, ...filled })
  }
  return new Elysia()
    .get(
      JOIN_PATH,
      show((form) => {
        const isOpen = findInvitation(app.db, form.field('token'), app.clock.now()) !== undefined
        return ownFormResponse(render(form), isOpen ? 200 : 410)
      }),
      hiddenRoute,
    )
    .post(
      JOIN_PATH,
      act(
        async (form) => {
          const { request, field } = form
          const input = {
            token: field('token'),
            name: field('name'),
            password: field('password'),
            code: field('code'),
          }
          const signedIn = findVerifiedActor(app, auth, form)
          const joined = await join(app, auth.attempts, input, auth.readBrowser(request), signedIn)
          return toNextPage(app, LOGIN_PATH, joined)
        },
        (form, message) => render(form, { message, name: form.field('name') }),
      ),
      hiddenFormRoute,
    )
}

/** The page of the link that `serve` prints while there is no user: it creates the owner, and the first account. */
function setupPages(app: App, auth: AuthContext, accounts: AccountCreator, { act, show }: FormPages) {
  const render = (token: string, filled: object = {}): Html =>
    isSetupLink(app, token)
      ? setupPage({ token, ...filled, ofAccount: findFirstAccount(app.db)?.name })
      : invalidSetupLinkPage()
  const readFilled = ({ field }: Form) => ({
    accountName: field('account_name'),
    name: field('name'),
    email: field('email'),
  })
  return new Elysia()
    .get(
      SETUP_PATH,
      show(({ field }) => ownFormResponse(render(field('token')), isSetupLink(app, field('token')) ? 200 : 410)),
      hiddenRoute,
    )
    .post(
      SETUP_PATH,
      act(
        async (form) => {
          const { request, field } = form
          const input = { ...readFilled(form), token: field('token'), password: field('password') }
          const { attempts } = auth
          const signedIn = await setUp(app, { attempts, accounts }, input, auth.readBrowser(request))
          return toNextPage(app, LOGIN_PATH, signedIn)
        },
        (form, message) => render(form.field('token'), { ...readFilled(form), message }),
      ),
      hiddenFormRoute,
    )
}

export function teamPages(app: App, auth: AuthContext, accounts: AccountCreator) {
  const pages = createFormPages(auth)
  return new Elysia()
    .use(loginPages(app, auth, pages))
    .use(resetPages(app, auth, pages))
    .use(joinPages(app, auth, pages))
    .use(setupPages(app, auth, accounts, pages))
    .use(app.config.oidcIssuer === '' ? new Elysia() : singleSignOnPages(app, auth))
}

/**
 * The page at /: it leads people who open the address of the service in a browser to another page. Programs get the
 * usual 404, and so does every client under the tracking host of an account.
 */
export const homePage = (auth: Pick<AuthContext, 'requireOwnHost'>, path = LOGIN_PATH) =>
  new Elysia().get(
    '/',
    ({ request }) => {
      auth.requireOwnHost(request)
      if (!isBrowser(request)) throw unknownRoute()
      return new Response(null, {
        status: 303,
        headers: { ...UNLISTED_HEADERS, vary: 'accept', location: path, 'cache-control': 'no-store' },
      })
    },
    { detail: { hide: true } },
  )

/** Browsers name HTML among the types they accept; programs accept anything, or JSON. */
const isBrowser = ({ headers }: Request): boolean => /\btext\/html\b/i.test(headers.get('accept') ?? '')
