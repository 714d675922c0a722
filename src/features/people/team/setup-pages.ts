/**
 * @module /setup: the page of the link that `serve` prints while there is no user. GET shows and never acts; POST
 * creates the owner, and the account unless there is one, only for our own page. Hidden under the tracking hosts of accounts.
 */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { ownFormResponse } from '#platform/http/html.ts'
import type { AuthContext } from './auth-context.ts'
import { FormPages, hiddenFormRoute, hiddenRoute, readField, redirectTo } from './form-pages.ts'
import { SETUP_PATH, toStartPath } from './links.ts'
import { invalidSetupLinkPage, setupPage } from './page.ts'
import { toCookieHeader } from './sessions.ts'
import { type AccountCreator, findFirstAccount, isSetupLink, setUp } from './setup.ts'

export function setupPages(app: App, auth: AuthContext, accounts: AccountCreator) {
  const pages = new FormPages(auth)
  return new Elysia()
    .get(
      SETUP_PATH,
      ({ request, query }) =>
        pages.handleGet(request, () => {
          const token = readField(query, 'token')
          return isSetupLink(app, token)
            ? ownFormResponse(setupPage({ token, ofAccount: findFirstAccount(app.db)?.name }))
            : ownFormResponse(invalidSetupLinkPage(), 410)
        }),
      hiddenRoute,
    )
    .post(
      SETUP_PATH,
      ({ request, body }) => {
        const token = readField(body, 'token')
        const filled = {
          accountName: readField(body, 'account_name'),
          name: readField(body, 'name'),
          email: readField(body, 'email'),
        }
        return pages.handlePost(
          request,
          async () => {
            const input = { token, ...filled, password: readField(body, 'password') }
            const { attempts } = auth
            const signedIn = await setUp(app, { attempts, accounts }, input, auth.readBrowser(request))
            return redirectTo(toStartPath(app.config), toCookieHeader(app, signedIn.token))
          },
          (message) =>
            isSetupLink(app, token)
              ? setupPage({ token, ...filled, message, ofAccount: findFirstAccount(app.db)?.name })
              : invalidSetupLinkPage(),
        )
      },
      hiddenFormRoute,
    )
}
