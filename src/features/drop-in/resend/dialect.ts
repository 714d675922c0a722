/**
 * @module Resend's interface as a dialect of the HTTP server: its paths below `/resend`, and its sends at the root,
 * because some of its clients can set only a host. An error has the name that its clients know, and our own sentence,
 * which says what to change.
 */
import { AppError } from '#platform/errors.ts'
import { readApiKey } from '#platform/http/authenticate.ts'
import type { Dialect } from '#platform/http/dialect.ts'
import absent from './absent.json' with { type: 'json' }

/**
 * What Resend has, and this service has under another name or not at all: a 404 that says so, because "no such route"
 * would look like a wrong base URL.
 */
const ABSENT_PATHS = absent.map(({ path, name, instead }) => ({
  path: new RegExp(path),
  sentence: `${name}: not part of this service. ${instead}`,
}))

/** Why there is nothing at a path; undefined for a path that this interface does not know either. */
function describeAbsence(fullPath: string): string | undefined {
  const path = fullPath.replace(/^\/resend(?=\/)/, '').replace(/\/$/, '')
  return ABSENT_PATHS.find((one) => one.path.test(path))?.sentence
}

export const RESEND_PREFIX = '/resend'

const ROOT_PATH = /^\/emails(?:\/batch)?\/?$/

export const resendDialect: Dialect = {
  name: 'resend',
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
  toErrorResponse(given, _, path) {
    const [first] = given.details
    const error = first && IS_MISSING.test(first.message) ? missingField(first.field) : given
    const isRouteMissing = error.status === 404 || error.status === 405
    const absence = isRouteMissing ? describeAbsence(path) : undefined
    const { name, status } = absence === undefined ? classify(error) : ABSENT
    return {
      status,
      headers: { ...error.headers, ...(status === 401 && { 'www-authenticate': 'Bearer' }) },
      body: {
        statusCode: status,
        name,
        message: absence ?? toResendWords([error.message, ...(error.advice ? [error.advice] : [])].join('. ')),
      },
    }
  },
}

const createKeyError = (code: string, problem: string): AppError =>
  new AppError(401, code, `${problem}; send "Authorization: Bearer", a space and the key.`)

/** What the check of a body says of a field without a value. */
const IS_MISSING = /^(?:is required|must not be empty|must have at least 1 item)/

export function missingField(field: string, hint = ''): AppError {
  const message = `Missing \`${field}\` field. ${hint}`.trim()
  return new AppError(422, 'missing_required_field', message, { details: [{ field, message }] })
}

/** Our names of fields in a sentence, as this interface has them. */
const FIELD_NAMES: Readonly<Record<string, string>> = {
  html_body: 'html',
  text_body: 'text',
  send_at: 'scheduled_at',
  template_alias: 'template.id',
  template_data: 'template.variables',
  locale: 'template.locale',
  email_address: 'email',
}
const FIELD_NAME = new RegExp(`\\b(?:${Object.keys(FIELD_NAMES).join('|')})\\b`, 'g')

/** A sentence of ours with the names that fields have in this interface. */
export const toResendWords = (text: string): string => text.replace(FIELD_NAME, (name) => FIELD_NAMES[name] ?? name)

function classify({ status, code, details }: AppError): { readonly name: string; readonly status: number } {
  const field = details[0]?.field ?? ''
  if (code === 'missing_api_key') return { name: code, status: 401 }
  if (code === 'invalid_api_key') return { name: code, status: 403 }
  if (code === 'insufficient_scope' || code === 'restricted_key') return { name: 'restricted_api_key', status: 401 }
  if (code === 'idempotency_conflict') return { name: 'invalid_idempotent_request', status: 409 }
  if (code === 'quota_exceeded') return { name: 'monthly_quota_exceeded', status: 429 }
  if (code === 'missing_required_field') return { name: code, status: 422 }
  if (field.toLowerCase() === 'idempotency-key') return { name: 'invalid_idempotency_key', status: 400 }
  if (status === 422 && field === 'from' && code === 'invalid_address') return { name: 'invalid_from_address', status }
  if (status === 422 && field.startsWith('attachments')) return { name: 'invalid_attachment', status }
  return { name: NAMES[status] ?? (status < 500 ? 'validation_error' : 'application_error'), status }
}

/** Also where the path of a route that exists, such as /domains/{id}, has other methods. */
const ABSENT = { name: 'not_found', status: 404 } as const

const NAMES: Readonly<Record<number, string>> = {
  404: 'not_found',
  405: 'method_not_allowed',
  429: 'rate_limit_exceeded',
  500: 'internal_server_error',
}
