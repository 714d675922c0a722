/**
 * @module The page at /: it leads people who open the address of the service in a browser to the sign-in page or, on a
 * server that only captures mail, to the captured mail. Programs get the usual 404, and so does every client under the
 * tracking host of an account.
 */
import { Elysia } from 'elysia'
import { unknownRoute } from '#platform/http/error-response.ts'
import { UNLISTED_HEADERS } from '#platform/http/html.ts'
import type { AuthContext } from './auth-context.ts'
import { LOGIN_PATH } from './links.ts'

/** @param path where browsers are led; default: the sign-in page */
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
