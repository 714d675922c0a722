/** @module The headers of a webhook request: signature, event, attempt. Pure. */
import { createHmac } from 'node:crypto'

/**
 * `t=<unix seconds>,v1=<hex>`: HMAC-SHA256 with the secret in the form that the receiver has, over `<t>.<body>`.
 * @param t seconds since the epoch
 * @param body exactly what is sent
 */
export const signatureOf = (secret: string, t: number, body: string): string =>
  `t=${t},v1=${createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')}`

/**
 * The headers of an attempt. `prefixes` repeat the `X-Service-` headers for receivers that were built for another
 * service.
 */
export function headersOf(
  request: { readonly event: string; readonly attempt: number; readonly signature: string },
  prefixes: readonly string[],
): Record<string, string> {
  const headers: Record<string, string> = { 'content-type': 'application/json', 'user-agent': 'Tassis-Webhooks/1' }
  for (const prefix of ['X-Service', ...prefixes]) {
    headers[`${prefix}-Signature`] = request.signature
    headers[`${prefix}-Event`] = request.event
    headers[`${prefix}-Attempt`] = String(request.attempt)
  }
  return headers
}
