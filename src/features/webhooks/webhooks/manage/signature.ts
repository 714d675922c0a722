/**
 * @module The headers of a webhook request: event, attempt, and its signatures in our own form and in that of Standard
 * Webhooks. Pure.
 */
import { createHmac } from 'node:crypto'
import { days, type Millis } from '#platform/units.ts'

/** How long after a rotation the previous secret also signs. */
export const PREVIOUS_SECRET_MS = days(1)

/** The secrets of a webhook in the form that its receiver has: `whsec_…`. */
export interface SigningSecrets {
  readonly current: string
  /** The one before the last rotation; signs until `until`. */
  readonly previous?: { readonly secret: string; readonly until: Millis } | undefined
}

/** What a request is about, and when it is made. */
export interface SignedRequest {
  /** Id of the event: the same at every attempt and replay, so that receivers can drop repetitions. */
  readonly id: string
  readonly event: string
  /** Number of the attempt, from 1. */
  readonly attempt: number
  readonly at: Millis
  /** Exactly what is sent. */
  readonly body: string
}

/**
 * The headers of an attempt, signed with its time.
 * @param secrets undefined leaves the signatures out
 * @param prefixes repeat the `X-Service-` headers for receivers that were built for another service
 */
export function createRequestHeaders(
  { id, event, attempt, at, body }: SignedRequest,
  secrets: SigningSecrets | undefined,
  prefixes: readonly string[],
): Record<string, string> {
  const t = Math.floor(at / 1000)
  const headers: Record<string, string> = { 'content-type': 'application/json', 'user-agent': 'Tassis-Webhooks/1' }
  for (const prefix of ['X-Service', ...prefixes]) {
    if (secrets) headers[`${prefix}-Signature`] = createSignature(secrets.current, t, body)
    headers[`${prefix}-Event`] = event
    headers[`${prefix}-Attempt`] = String(attempt)
  }
  const signature = secrets && createStandardSignatures(secrets, { id, t, at, body })
  for (const prefix of ['webhook', 'svix']) {
    headers[`${prefix}-id`] = id
    headers[`${prefix}-timestamp`] = String(t)
    if (signature !== undefined) headers[`${prefix}-signature`] = signature
  }
  return headers
}

/**
 * `t=<unix seconds>,v1=<hex>`: HMAC-SHA256 with the secret in the form that the receiver has, over `<t>.<body>`. Only
 * the current secret signs, because receivers accept exactly one `v1`.
 */
const createSignature = (secret: string, t: number, body: string): string =>
  `t=${t},v1=${createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')}`

/**
 * Standard Webhooks: `v1,<base64>` for each valid secret, separated by spaces. HMAC-SHA256 with the octets of the
 * secret's base64 over `<id>.<t>.<body>`.
 */
function createStandardSignatures(
  { current, previous }: SigningSecrets,
  { id, t, at, body }: { readonly id: string; readonly t: number; readonly at: Millis; readonly body: string },
): string {
  const secrets = previous !== undefined && at < previous.until ? [current, previous.secret] : [current]
  return secrets
    .map((secret) => createHmac('sha256', Buffer.from(secret.replace(/^whsec_/, ''), 'base64')))
    .map((hmac) => `v1,${hmac.update(`${id}.${t}.${body}`).digest('base64')}`)
    .join(' ')
}
