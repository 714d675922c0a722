/**
 * @module Checks that a webhook request comes from the service, by its Standard Webhooks signature. Works on WebCrypto
 * alone, which compares signatures in constant time.
 */
import type { WebhookEvent } from './api.ts'

/** Headers of a request: `Headers`, or those of Node's `request.headers`. */
export type WebhookHeaders =
  | { readonly get: (name: string) => string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>

export interface VerifyOptions {
  /** How far the time of the request may be from now, either way; default: 300. */
  readonly toleranceSeconds?: number | undefined
  /** Default: the current time. */
  readonly now?: Date | undefined
}

/** Why a request is not an event of the service. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError'
  /** Respond with a 500 to `invalid_secret`, which is a mistake of the receiver, and with a 400 to the others. */
  readonly code: 'invalid_payload' | 'invalid_secret' | 'missing_header' | 'outside_tolerance' | 'wrong_signature'

  constructor(code: WebhookError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/**
 * Returns the event of a webhook request; `switch (event.event)` knows its fields.
 * @param body exactly as it was received: text or bytes, not parsed JSON
 * @param secrets `whsec_…`; several when one is being replaced, or when several webhooks have the same URL
 * @throws WebhookError if the request was not signed with one of the secrets, or not now
 */
export async function verifyWebhook(
  body: string | Uint8Array | ArrayBuffer,
  headers: WebhookHeaders,
  secrets: string | readonly string[],
  { toleranceSeconds = 300, now = new Date() }: VerifyOptions = {},
): Promise<WebhookEvent> {
  const id = requireHeader(headers, 'webhook-id')
  const timestamp = requireHeader(headers, 'webhook-timestamp')
  const signatures = requireHeader(headers, 'webhook-signature')
  const seconds = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN
  const awaySeconds = Math.abs(now.getTime() / 1000 - seconds)
  if (!(awaySeconds <= toleranceSeconds))
    throw new WebhookError(
      'outside_tolerance',
      `webhook-timestamp is ${timestamp}, which is not within ${toleranceSeconds} seconds of the time here.`,
    )
  const text = typeof body === 'string' ? body : new TextDecoder('utf-8', { ignoreBOM: true }).decode(body)
  if (!(await isSigned(`${id}.${timestamp}.${text}`, signatures, secrets)))
    throw new WebhookError(
      'wrong_signature',
      'No signature of this request was made with this secret: is it that of this webhook, and the body as received?',
    )
  return parseEvent(text)
}

function requireHeader(headers: WebhookHeaders, name: string): string {
  // Proxies and receivers that were built for Svix keep only its names.
  const value = readHeader(headers, name) ?? readHeader(headers, name.replace('webhook', 'svix'))
  if (!value) throw new WebhookError('missing_header', `The request has no header ${name}.`)
  return value
}

function readHeader(headers: WebhookHeaders, name: string): string | undefined {
  if (typeof headers.get === 'function') return headers.get(name) ?? undefined
  const [, value] = Object.entries(headers).find(([key]) => key.toLowerCase() === name) ?? []
  return typeof value === 'object' ? value[0] : value
}

/** Whether one of the signatures, `v1,<base64>` separated by spaces, was made with one of the secrets. */
async function isSigned(signed: string, signatures: string, secrets: string | readonly string[]): Promise<boolean> {
  const content = new TextEncoder().encode(signed)
  const given = signatures.split(' ').flatMap((signature) => {
    const bytes = signature.startsWith('v1,') ? decodeBase64(signature.slice(3)) : undefined
    return bytes ?? []
  })
  const keys = await Promise.all([secrets].flat().map(importSecret))
  if (keys.length === 0) throw new WebhookError('invalid_secret', 'There is no secret.')
  for (const key of keys)
    for (const signature of given) if (await crypto.subtle.verify('HMAC', key, signature, content)) return true
  return false
}

async function importSecret(secret: string): Promise<CryptoKey> {
  // Programs without types may pass a variable that is not set.
  const bytes = decodeBase64((secret ?? '').replace(/^whsec_/, ''))
  if (!bytes?.length) throw new WebhookError('invalid_secret', 'A secret is not whsec_ and base64.')
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
}

function decodeBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

function parseEvent(text: string): WebhookEvent {
  let payload: unknown
  try {
    payload = JSON.parse(text)
  } catch (cause) {
    throw new WebhookError('invalid_payload', 'The body is not JSON.', { cause })
  }
  if (typeof (payload as { readonly event?: unknown } | null)?.event === 'string') return payload as WebhookEvent
  throw new WebhookError('invalid_payload', 'The body has no `event`: the format of this webhook is not `tassis`.')
}
