/** @module The stored form of an email's idempotency key. Pure. */
import { sha256 } from '#platform/crypto/crypto.ts'
import { invalid } from '#platform/errors.ts'

export interface Idempotency {
  readonly key: string
  /** First 16 bytes of the key's SHA-256. */
  readonly keyHash: Uint8Array
  /** Equal for equivalent requests. */
  readonly bodyHash: Uint8Array
}

const MAX_KEY_LENGTH = 256

/** Hash under which a key is stored; throws a 422 on `field` if the key is too short or too long. */
export function hashIdempotencyKey(field: string, key: string): Uint8Array {
  if (key.length === 0 || key.length > MAX_KEY_LENGTH)
    throw invalid(field, `An idempotency key must have 1 to ${MAX_KEY_LENGTH} characters.`)
  return sha256(key).slice(0, 16)
}
