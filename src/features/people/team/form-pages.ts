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

/** Redirects with GET to another of our pages, or to the identity provider. */
export const redirectTo = (path: string, ...cookies: readonly (string | undefined)[]): Response =>
  new Response(null, {
    status: 303,
    headers: [
      ...Object.entries(OWN_FORM_HEADERS),
      ['location', path],
      ['cache-control', 'no-store'],
      ...cookies.flatMap((cookie): [string, string][] => (cookie === undefined ? [] : [['set-cookie', cookie]])),
    ],
  })

const MAX_FIELD_LENGTH = 1000

export function readField(body: unknown, name: string): string {
  const value = typeof body === 'object' && body !== null && Object.hasOwn(body, name) ? Reflect.get(body, name) : ''
  return typeof value === 'string' && value.length <= MAX_FIELD_LENGTH ? value : ''
}

/** A submitted form, or the query of a page. */
export interface Form {
  readonly request: Request
  /** A field; empty when it is missing, too long or not a string. */
  readonly field: (name: string) => string
}

interface Get {
  readonly request: Request
  readonly query: unknown
}

export interface Post {
  readonly request: Request
  readonly body: unknown
}

type Act = (
  work: (form: Form) => Promise<Response>,
  renderAgain?: (form: Form, message: string, error: AppError) => Html,
) => (post: Post) => Promise<Response>

/** Creates what makes the handlers of pages: they check the request, and turn an error into a page. */
export function createFormPages(auth: Pick<AuthContext, 'requireOwnHost' | 'requireOwnOrigin'>) {
  const toForm = (request: Request, fields: unknown): Form => ({ request, field: (name) => readField(fields, name) })
  /** Handles a POST. @param renderAgain renders the submitted page with what was wrong */
  const act: Act =
    (work, renderAgain = (_, message) => errorPage(message)) =>
    async ({ request, body }) => {
      const form = toForm(request, body)
      try {
        auth.requireOwnHost(request)
        auth.requireOwnOrigin(request)
        return await work(form)
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        const { status, message, headers } = error
        const page = status === 403 || status === 404 ? errorPage(message) : renderAgain(form, message, error)
        return ownFormResponse(page, status, headers)
      }
    }
  /** Handles a GET by which an identity provider takes part. @param renderError renders what failed */
  const follow =
    (work: (form: Form) => Promise<Response>, renderError: (form: Form, message: string) => Html) =>
    async ({ request, query }: Get): Promise<Response> => {
      const form = toForm(request, query)
      try {
        auth.requireOwnHost(request)
        return await work(form)
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        return ownFormResponse(renderError(form, error.message), error.status, error.headers)
      }
    }
  /** Handles a GET, which changes nothing. */
  const show =
    (render: (form: Form) => Response) =>
    ({ request, query }: Get): Response => {
      try {
        auth.requireOwnHost(request)
        return render(toForm(request, query))
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        return ownFormResponse(errorPage(error.message), error.status)
      }
    }
  return { act, follow, show }
}
