/**
 * @module /login/single-sign-on, which sends a browser to the identity provider, and /login/callback, to which it comes
 * back. Both are links, because a form may not lead to another host. Whatever fails ends on the sign-in page.
 */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { minutes } from '#platform/units.ts'
import type { AuthContext } from '../auth-context.ts'
import { createFlowCookie } from '../flow-cookie.ts'
import { createFormPages, hiddenRoute, redirectTo } from '../form-pages.ts'
import { CALLBACK_PATH, SIGN_ON_PATH, toPathAfterLogin, toStartPath } from '../links.ts'
import { loginPage } from '../page.ts'
import { toCookieHeader } from '../sessions.ts'
import { type Checks, createProvider, stale } from './provider.ts'
import { signOn } from './sign-on.ts'

interface Flow extends Checks {
  readonly next: string
  readonly invitation: string
}

export function singleSignOnPages(app: App, auth: AuthContext) {
  const provider = createProvider(app)
  const cookie = createFlowCookie<Flow>(app, 'tassis_sign_on', minutes(10))
  const { show } = createFormPages(auth)
  return new Elysia()
    .get(
      SIGN_ON_PATH,
      show(
        async ({ field }) => {
          const { url, checks } = await provider.begin(field('fresh') !== '')
          const next = toPathAfterLogin(app.config, field('next'))
          return redirectTo(url, cookie.begin({ ...checks, next, invitation: field('invitation') }))
        },
        ({ field }, message) => loginPage(auth.ways, { next: toPathAfterLogin(app.config, field('next')), message }),
      ),
      hiddenRoute,
    )
    .get(
      CALLBACK_PATH,
      show(
        async ({ request }) => {
          const { search, searchParams } = new URL(request.url)
          // Else any page could use up what the browser carries.
          const flow = cookie.take(request, ({ state }) => state === searchParams.get('state'))
          if (!flow) throw stale()
          auth.attempts.requireNetwork(auth.readBrowser(request).ipAddress)
          const identity = await provider.finish(search, flow)
          const { invitation, next } = flow
          const signedIn = await signOn(app, auth.attempts, {
            identity,
            browser: auth.readBrowser(request),
            invitation,
          })
          return redirectTo(toStartPath(app.config, next), toCookieHeader(app, signedIn.token), cookie.end)
        },
        (_, message) => loginPage(auth.ways, { message }),
      ),
      hiddenRoute,
    )
}
