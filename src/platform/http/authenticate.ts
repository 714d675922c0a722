/**
 * @module Reads the API key of a request: `Authorization: Bearer` (RFC 6750 §2.1) or `X-Service-Api-Key`. Knows no
 * accounts; the `authenticate` function that `app` passes in looks the key up.
 */
import { type AppError, unauthorized } from '../errors.ts'

// RFC 9110 §11.1: the scheme is case-insensitive. A key that an operator provisions may contain any visible character.
const BEARER = /^bearer +([\x21-\x7e]+) *$/i
const VISIBLE_ASCII = /^[\x21-\x7e]+$/
const MAX_KEY_LENGTH = 512

/** Whether a request has an API key, valid or not. */
export const hasCredentials = (headers: Headers): boolean =>
  headers.has('authorization') || headers.has('x-service-api-key')

/**
 * Reads the API key from the headers. Throws a 401 when it is missing or malformed, or when the two headers disagree.
 */
export function readApiKey(headers: Headers): string {
  const authorization = headers.get('authorization')
  const serviceKey = headers.get('x-service-api-key')
  const bearer = authorization === null ? undefined : BEARER.exec(authorization)?.[1]
  // Clients that need Authorization for their own proxy send Basic credentials there, and the key in the other header.
  if (authorization !== null && bearer === undefined && (serviceKey === null || /^bearer\b/i.test(authorization)))
    throw unauthorized('Authorization must be the word Bearer, a space and the API key')
  if (bearer !== undefined && serviceKey !== null && bearer !== serviceKey)
    throw unauthorized('Authorization and X-Service-Api-Key have different keys; send one of them')
  return readApiKeyText(bearer ?? serviceKey ?? undefined)
}

/** The forms of keys of other providers, whose clients are pointed to this service with their old key. */
const FOREIGN_KEYS: readonly (readonly [RegExp, string])[] = [
  [/^re_\w{8,}$/, 'Resend'],
  [/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, 'Postmark'],
  [/^SG\.[\w-]+\.[\w-]+$/, 'SendGrid'],
  [/^key-[0-9a-f]{32}$/, 'Mailgun'],
  [/^xkeysib-/, 'Brevo'],
  [/^mlsn\./, 'MailerSend'],
]

/** The 401 for a key that belongs to nobody; one with the form of another provider's key says so. */
export function unknownKey(key: string | undefined): AppError {
  const [, provider] = FOREIGN_KEYS.find(([form]) => key !== undefined && form.test(key)) ?? []
  return unauthorized(
    provider === undefined
      ? 'This API key is unknown or was revoked; `tassis keys list` or the dashboard (API keys) shows which are valid.'
      : `This looks like a key of ${provider}. This service has keys of its own: \`tassis keys create --name app\` or the dashboard (API keys) makes one.`,
    'invalid_token',
  )
}

/** Returns text that has the form of a key. Throws a 401 for any other. */
export function readApiKeyText(text: string | undefined): string {
  if (text === undefined || text.length > MAX_KEY_LENGTH || !VISIBLE_ASCII.test(text)) throw unauthorized()
  return text
}
