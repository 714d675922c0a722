/**
 * @module The page at /: where somebody who opens the address of the service in a browser can go on. On a server that is signing in; where mail is only
 * captured, a page that leads to it. Programs get the 404 that they get anywhere else, and so does everybody under the tracking hosts of accounts.
 */
import { Elysia } from 'elysia'
import { unknownRoute } from '#platform/http/error-response.ts'
import { html, htmlResponse, UNLISTED_HEADERS } from '#platform/http/html.ts'
import type { AuthContext } from './auth-context.ts'
import { LOGIN_PATH } from './links.ts'
import { userPage } from './page.ts'

const HEADERS = { ...UNLISTED_HEADERS, vary: 'accept' }

/** @param capturedPath the page of captured mail, where there is one */
export const homePage = (people: Pick<AuthContext, 'requireOwnHost'>, capturedPath?: string) =>
  new Elysia().get(
    '/',
    ({ request }) => {
      people.requireOwnHost(request)
      if (!isBrowser(request)) throw unknownRoute()
      if (capturedPath !== undefined) return htmlResponse(captureModePage(capturedPath), 200, HEADERS)
      return new Response(null, {
        status: 303,
        headers: { ...HEADERS, location: LOGIN_PATH, 'cache-control': 'no-store' },
      })
    },
    { detail: { hide: true } },
  )

/** Browsers name what they can show to people; programs take anything, or JSON. */
const isBrowser = ({ headers }: Request): boolean => /\btext\/html\b/i.test(headers.get('accept') ?? '')

const captureModePage = (capturedPath: string) =>
  userPage(
    'It runs',
    html`<p>Tassis captures mail here: nothing that is sent leaves this machine.</p>
<p><a href="${capturedPath}">Captured mail</a></p>
<p><a href="/docs">Documentation of the API</a></p>
<p><a href="${LOGIN_PATH}">Sign in</a>, as a user whom <code>tassis users create</code> made</p>`,
  )
