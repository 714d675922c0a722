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

/** Renders what was wrong with a request, perhaps on the page that sent it. */
type RenderError = (form: Form, message: string, error: AppError) => Html

const renderErrorPage: RenderError = (_, message) => errorPage(message)

/** Creates what makes the handlers of pages: they check the request, and turn an error into a page. */
export function createFormPages(auth: Pick<AuthContext, 'requireOwnHost' | 'requireOwnOrigin'>) {
  const handle = async (
    form: Form,
    check: (request: Request) => void,
    work: (form: Form) => Response | Promise<Response>,
    renderError: RenderError,
  ): Promise<Response> => {
    try {
      auth.requireOwnHost(form.request)
      check(form.request)
      return await work(form)
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      return ownFormResponse(renderError(form, error.message, error), error.status, error.headers)
    }
  }
  return {
    /** Handles a POST. @param renderAgain renders the submitted page with what was wrong */
    act:
      (work: (form: Form) => Promise<Response>, renderAgain = renderErrorPage) =>
      ({ request, body }: { readonly request: Request; readonly body: unknown }) =>
        handle(
          { request, field: (name) => readField(body, name) },
          auth.requireOwnOrigin,
          work,
          (form, message, error) =>
            (error.status === 403 || error.status === 404 ? renderErrorPage : renderAgain)(form, message, error),
        ),
    /** Handles a GET, which changes nothing but what an identity provider takes part in. */
    show:
      (work: (form: Form) => Response | Promise<Response>, renderError = renderErrorPage) =>
      ({ request, query }: { readonly request: Request; readonly query: unknown }) =>
        handle({ request, field: (name) => readField(query, name) }, () => undefined, work, renderError),
  }
}
