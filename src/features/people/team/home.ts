/**
 * @module The page at /: it leads people who open the address of the service in a browser to the sign-in page or, on a
 * server that only captures mail, to the captured mail. Programs get the usual 404, and so does every client under the
 * tracking host of an account.
 */
import { Elysia } from 'elysia'
import { unknownRoute } from '#platform/http/error-response.ts'
import { html, htmlResponse, UNLISTED_HEADERS } from '#platform/http/html.ts'
import type { AuthContext } from './auth-context.ts'
import { LOGIN_PATH } from './links.ts'
import { userPage } from './page.ts'

const HEADERS = { ...UNLISTED_HEADERS, vary: 'accept' }

/** @param capturedPath page of captured mail, if the server has one */
export const homePage = (auth: Pick<AuthContext, 'requireOwnHost'>, capturedPath?: string) =>
  new Elysia().get(
    '/',
    ({ request }) => {
      auth.requireOwnHost(request)
      if (!isBrowser(request)) throw unknownRoute()
      if (capturedPath !== undefined) return htmlResponse(captureModePage(capturedPath), 200, HEADERS)
      return new Response(null, {
        status: 303,
        headers: { ...HEADERS, location: LOGIN_PATH, 'cache-control': 'no-store' },
      })
    },
    { detail: { hide: true } },
  )

/** Browsers name HTML among the types they accept; programs accept anything, or JSON. */
const isBrowser = ({ headers }: Request): boolean => /\btext\/html\b/i.test(headers.get('accept') ?? '')

const captureModePage = (capturedPath: string) =>
  userPage(
    'Tassis is running',
    html`<p>Tassis captures mail here: no message leaves this machine.</p>
<p><a href="${capturedPath}">Captured mail</a></p>
<p><a href="/docs">API documentation</a></p>
<p><a href="${LOGIN_PATH}">Sign in</a> as a user created with <code>tassis users create</code></p>`,
  )
