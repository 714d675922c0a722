/**
 * @module What the pages with forms have in common: fields, redirects, the checks of a request, and turning an error
 * into a page. Under the tracking hosts of accounts they do not exist.
 */
import { AppError } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { type Html, OWN_FORM_HEADERS, ownFormResponse } from '#platform/http/html.ts'
import type { AuthContext } from './auth-context.ts'
import { errorPage } from './page.ts'

export const hiddenRoute = { detail: { hide: true } }
export const hiddenFormRoute = { detail: { hide: true, ...acceptsBody('json-or-form') } }

/** Redirects to another of our pages with GET. */
export const redirectTo = (path: string, cookie?: string): Response =>
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

/** A field of the form; empty when it is missing or not a string. */
export function readField(body: unknown, name: string): string {
  const value = typeof body === 'object' && body !== null && Object.hasOwn(body, name) ? Reflect.get(body, name) : ''
  return typeof value === 'string' && value.length <= MAX_FIELD_LENGTH ? value : ''
}

/** The checks of a request, and turning an error into a page. */
export class FormPages {
  readonly #auth: AuthContext

  constructor(auth: AuthContext) {
    this.#auth = auth
  }

  /**
   * Handles a POST; an error becomes a page too.
   * @param renderAgain renders the submitted page with what was wrong
   */
  async handlePost(
    request: Request,
    work: () => Promise<Response>,
    renderAgain: (message: string, error: AppError) => Html,
  ): Promise<Response> {
    try {
      this.#auth.requireOwnHost(request)
      this.#auth.requireOwnOrigin(request)
      return await work()
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      const { status, message, retryAfterSeconds } = error
      const headers = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
      const page = status === 403 || status === 404 ? errorPage(message) : renderAgain(message, error)
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
}
