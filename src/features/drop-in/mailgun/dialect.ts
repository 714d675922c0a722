/**
 * @module Mailgun's interface as a dialect of the HTTP server. The key is the password of HTTP Basic (RFC 7617), whose
 * user does not matter. Errors are `{"message": …}`.
 */
import { unauthorized } from '#platform/errors.ts'
import { readApiKeyText } from '#platform/http/authenticate.ts'
import type { Dialect } from '#platform/http/dialect.ts'

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
