/**
 * @module Mailgun's interface as a dialect of the HTTP server: its paths below `/mailgun`, and those of its versions 3
 * and 4 also at the root, because Ghost keeps only the host of its base URL. The key is the password of HTTP Basic (RFC
 * 7617), whose user does not matter. Errors are `{"message": …}`.
 */
import { unauthorized } from '#platform/errors.ts'
import { readApiKeyText } from '#platform/http/authenticate.ts'
import type { Dialect } from '#platform/http/dialect.ts'

/** Where the routes are. */
export const PREFIXES = ['/mailgun', ''] as const
const SPOKEN = /^\/(?:mailgun|v[34])(?:\/|$)/
const BASIC = /^basic +([\w+/=-]+) *$/i

/** Parts of paths that Mailgun has, and what this service has in place of them. */
const ABSENT: readonly (readonly [path: RegExp, instead: string])[] = [
  [/\/routes\b/, 'Received mail goes to inbound routes: /v1/inbound-routes.'],
  [/\/lists\b/, 'Lists are contact lists: /v1/contact-lists.'],
  [/\/webhooks\b/, 'Webhooks are at /v1/webhooks; their payloads are ours.'],
  [/\/templates\b/, 'Templates are at /v1/templates; messages name them by their alias.'],
  [/\/credentials\b/, 'The password of SMTP is an API key: /v1/api-keys.'],
  [/\/whitelists\b/, 'No address is exempt from the suppression list; DELETE takes it off the list.'],
  [/\/import$/, 'POST /v1/suppressions/import takes the file.'],
  [/\/(?:tags?|stats|metrics)\b/, 'GET /v1/analytics/overview has figures, events have tags.'],
  [/\/tracking\b/, 'Tracking is set for the account, and in each message by o:tracking-opens and o:tracking-clicks.'],
]

/** A sentence of ours with the names that fields have in this interface. */
const toMailgunWords = (text: string): string =>
  text
    .replace(/\b(html|text)_body\b/g, '$1')
    .replace(/\btemplate_(?:alias|data)\b/g, (name) => (name === 'template_data' ? 't:variables' : 'template'))

export const mailgunDialect: Dialect = {
  name: 'mailgun',
  speaks: (path) => SPOKEN.test(path),
  readApiKey(headers) {
    const [, encoded = ''] = BASIC.exec(headers.get('authorization') ?? '') ?? []
    const [, key] = /:(.*)/s.exec(Buffer.from(encoded, 'base64').toString()) ?? []
    if (key === undefined) throw unauthorized('Authorization must be HTTP Basic with the user "api" and an API key')
    return readApiKeyText(key)
  },
  toErrorResponse({ status: own, code, message, advice, headers }, _, path) {
    const isAbsent = code === 'route_not_found' || code === 'method_not_allowed'
    const [, instead = 'docs/drop-in.md lists what there is.'] = ABSENT.find(([pattern]) => pattern.test(path)) ?? []
    const problem = isAbsent
      ? `This part of Mailgun's interface is not part of this service. ${instead}`
      : toMailgunWords(message)
    // Mailgun's clients know no 422.
    const status = isAbsent ? 404 : own === 422 ? 400 : own
    const challenge = status === 401 && { 'www-authenticate': 'Basic realm="MG API"' }
    return {
      status,
      headers: { ...headers, ...challenge },
      body: { message: advice ? `${problem}. ${advice}` : problem },
    }
  },
}
