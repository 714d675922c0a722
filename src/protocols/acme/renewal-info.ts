/** @module When a server wants a certificate to be renewed (RFC 9773, ACME Renewal Information). */
import { parseRetryAfter } from '../http/retry-after.ts'
import type { AcmeSession } from './session.ts'

export interface RenewalWindow {
  /** Milliseconds since the epoch. */
  readonly start: number
  readonly end: number
  /** When the server wants to be asked again, in ms from now; undefined: it does not say. */
  readonly askAgainMs: number | undefined
}

/**
 * The identifier of a certificate (§4.1): key identifier of its issuer and serial number.
 * @param authorityKeyId hexadecimal, from the extension of that name
 * @param serialNumber hexadecimal
 */
export function toCertificateId(authorityKeyId: string, serialNumber: string): string {
  const serial = Buffer.from(serialNumber.length % 2 === 1 ? `0${serialNumber}` : serialNumber, 'hex')
  // The DER of a positive integer begins with 00 if its first bit is set.
  const isPadded = ((serial[0] ?? 0) & 0x80) !== 0
  const der = isPadded ? Buffer.concat([Buffer.from([0]), serial]) : serial
  return `${Buffer.from(authorityKeyId, 'hex').toString('base64url')}.${der.toString('base64url')}`
}

/** Undefined when the server has no renewal information, or no valid one. Throws `AcmeError` when it does not answer. */
export async function readRenewalWindow(session: AcmeSession, id: string): Promise<RenewalWindow | undefined> {
  const base = session.optionalEndpoint('renewalInfo')
  if (base === undefined) return undefined
  const { response, object } = await session.readPublic(`${base.replace(/\/$/, '')}/${id}`)
  const suggested = object['suggestedWindow'] as { start?: unknown; end?: unknown } | undefined
  const start = Date.parse(String(suggested?.start))
  const end = Date.parse(String(suggested?.end))
  if (Number.isNaN(start) || Number.isNaN(end) || end < start) return undefined
  return { start, end, askAgainMs: parseRetryAfter(response.header('retry-after'), session.now()) }
}
