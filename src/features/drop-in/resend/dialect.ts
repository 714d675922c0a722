/**
 * @module Resend's interface as a dialect of the HTTP server: its paths below `/resend`, and its sends at the root,
 * because some of its clients can set only a host. An error has the name that its clients know, and our own sentence,
 * which says what to change.
 */
import { AppError } from '#platform/errors.ts'
import { readApiKey } from '#platform/http/authenticate.ts'
import type { Dialect } from '#platform/http/dialect.ts'

const ABSENT =
  "This part of Resend's interface is not part of this service; docs/drop-in.md says what there is instead, and /docs lists the routes of its own interface."

export const RESEND_PREFIX = '/resend'

const ROOT_PATH = /^\/emails(?:\/batch)?\/?$/
/** Routes that do not exist here, and whose last part would be taken for an id. */
const ABSENT_PATH = /\/(?:emails\/metrics|domains\/claim)\/?$/

export const resendDialect: Dialect = {
  speaks: (path) => path === RESEND_PREFIX || path.startsWith(`${RESEND_PREFIX}/`) || ROOT_PATH.test(path),
  readApiKey(headers) {
    const authorization = headers.get('authorization') ?? ''
    if (!headers.has('x-service-api-key')) {
      if (authorization === '') throw createKeyError('missing_api_key', 'Missing API key')
      if (!/^bearer /i.test(authorization))
        throw createKeyError('invalid_api_key', 'The header Authorization has no "Bearer" before the key')
    }
    return readApiKey(headers)
  },
  toErrorResponse(error, _, path) {
    const isAbsent = error.code === 'route_not_found' || ([404, 405].includes(error.status) && ABSENT_PATH.test(path))
    const { name, status } = isAbsent ? { name: 'not_found', status: 404 } : classify(error)
    return {
      status,
      headers: { ...error.headers, ...(status === 401 && { 'www-authenticate': 'Bearer' }) },
      body: {
        statusCode: status,
        name,
        message: isAbsent ? ABSENT : toResendWords([error.message, ...(error.advice ? [error.advice] : [])].join('. ')),
      },
    }
  },
}

const createKeyError = (code: string, problem: string): AppError =>
  new AppError(401, code, `${problem}; send "Authorization: Bearer", a space and the key.`)

/** Our names of fields in a sentence, as this interface has them. */
const FIELD_NAMES: Readonly<Record<string, string>> = {
  html_body: 'html',
  text_body: 'text',
  send_at: 'scheduled_at',
  template_alias: 'template.id',
  template_data: 'template.variables',
  email_address: 'email',
}
const FIELD_NAME = new RegExp(`\\b(?:${Object.keys(FIELD_NAMES).join('|')})\\b`, 'g')

/** A sentence of ours with the names that fields have in this interface. */
export const toResendWords = (text: string): string => text.replace(FIELD_NAME, (name) => FIELD_NAMES[name] ?? name)

function classify({ status, code, details }: AppError): { readonly name: string; readonly status: number } {
  const field = details[0]?.field ?? ''
  if (code === 'missing_api_key') return { name: code, status: 401 }
  if (code === 'invalid_api_key') return { name: code, status: 403 }
  if (code === 'insufficient_scope') return { name: 'restricted_api_key', status: 401 }
  if (code === 'idempotency_conflict') return { name: 'invalid_idempotent_request', status: 409 }
  if (code === 'quota_exceeded') return { name: 'monthly_quota_exceeded', status: 429 }
  if (code === 'missing_required_field') return { name: code, status: 422 }
  if (field.toLowerCase() === 'idempotency-key') return { name: 'invalid_idempotency_key', status: 400 }
  if (status === 422 && field === 'from' && code === 'invalid_address') return { name: 'invalid_from_address', status }
  if (status === 422 && field.startsWith('attachments')) return { name: 'invalid_attachment', status }
  return { name: NAMES[status] ?? (status < 500 ? 'validation_error' : 'application_error'), status }
}

const NAMES: Readonly<Record<number, string>> = {
  404: 'not_found',
  405: 'method_not_allowed',
  429: 'rate_limit_exceeded',
  500: 'internal_server_error',
}
