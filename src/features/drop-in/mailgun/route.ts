/**
 * @module Mailgun's interface as a dialect of the HTTP server, and its routes in a short form: below `/mailgun`, and at
 * the root as well, because Ghost keeps only the host of its base URL. The key is the password of HTTP Basic (RFC 7617),
 * whose user does not matter. Errors are `{"message": …}`.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { requires } from '#features/core/app/http.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { requireAllowedDomain } from '#features/setup/api-keys/limits.ts'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { type AppError, notFound, unauthorized } from '#platform/errors.ts'
import { readApiKeyText } from '#platform/http/authenticate.ts'
import { acceptsBody, type BodyFormat } from '#platform/http/body.ts'
import type { Dialect } from '#platform/http/dialect.ts'
import * as dialects from '../dialects/routes.ts'

const PREFIXES = ['/mailgun', '']
const SPOKEN = /^\/(?:mailgun|v[34])(?:\/|$)/
const BASIC = /^basic +([\w+/=-]+) *$/i
const ABSENT =
  "This part of Mailgun's interface is not part of this service; docs/drop-in.md names what is there in its place."

/** Our names of fields in a sentence, as this interface has them. */
const FIELD_NAMES: Readonly<Record<string, string>> = {
  html_body: 'html',
  text_body: 'text',
  send_at: 'o:deliverytime',
  metadata: 'v:*',
  template_alias: 'template',
  template_data: 't:variables',
}
const FIELD_NAME = new RegExp(`\\b(?:${Object.keys(FIELD_NAMES).join('|')})\\b`, 'g')

export const mailgunDialect: Dialect = {
  name: 'mailgun',
  speaks: (path) => SPOKEN.test(path),
  readApiKey(headers) {
    const [, encoded = ''] = BASIC.exec(headers.get('authorization') ?? '') ?? []
    const [, key] = /:(.*)/s.exec(Buffer.from(encoded, 'base64').toString()) ?? []
    if (key === undefined) throw unauthorized('Authorization must be HTTP Basic with the user "api" and an API key')
    return readApiKeyText(key)
  },
  toErrorResponse({ status: own, code, message, advice, headers }) {
    const isAbsent = code === 'route_not_found' || code === 'method_not_allowed'
    const sentence = message.replace(FIELD_NAME, (name) => FIELD_NAMES[name] ?? name)
    // Mailgun's clients know no 422.
    const status = isAbsent ? 404 : own === 422 ? 400 : own
    return {
      status,
      headers: { ...headers, ...(status === 401 && { 'www-authenticate': 'Basic realm="MG API"' }) },
      body: { message: isAbsent ? ABSENT : advice ? `${sentence}. ${advice}` : sentence },
    }
  },
}

export type Query = dialects.Query

export interface Call extends dialects.Call {
  /** That of the path; '' without one. */
  readonly domain: string
  /** What follows the name of the list in the path. */
  readonly name: string | undefined
  /** Of the list, without a query. */
  readonly url: string
  readonly headers: dialects.Call['set']['headers']
}

/** @param body of a request that has one */
export const on = (
  route: string,
  scope: string,
  answer: (call: Call) => unknown,
  body: BodyFormat = 'json-or-form',
): dialects.Route => ({ route, answer, detail: { ...requires(scope), ...acceptsBody(body) } })

export const createRoutes = (app: App, routes: readonly dialects.Route[]) =>
  dialects.createRoutes(app, PREFIXES, routes, (call, _, path): Call => {
    const { actor, params, set } = call
    const domain = params['domain'] === undefined ? '' : requireDomain(app, actor, params['domain'])
    const url = trimTrailingSlashes(app.config.publicUrl) + path.replace('/:name', '').replace(':domain', domain)
    return { ...call, domain, name: params['name'], url, headers: set.headers }
  })

export const domainNotFound = (name: string): AppError =>
  notFound('domain_not_found', `Domain not found: ${name.slice(0, 253)}`)

/** The domain of a path: a registered one, or below one. Throws 404, and 403 where the key may not use it. */
function requireDomain({ db }: App, actor: Actor, text: string): string {
  const name = text.toLowerCase()
  if (!findSendingDomain(db, actor.accountId, name)) throw domainNotFound(name)
  requireAllowedDomain(actor, name)
  return name
}
