/** @module The idempotency key of an email, as it is stored. Pure. */
import { sha256 } from '#platform/crypto.ts'
import { invalid } from '#platform/errors.ts'

export interface Idempotency {
  readonly key: string
  /** First 16 bytes of the key's SHA-256. */
  readonly keyHash: Uint8Array
  /** Equal for requests that mean the same. */
  readonly bodyHash: Uint8Array
}

const MAX_KEY_LENGTH = 256

/** Hash under which a key is kept; 422 on `field` when the key is too short or too long. */
export function hashIdempotencyKey(field: string, key: string): Uint8Array {
  if (key.length === 0 || key.length > MAX_KEY_LENGTH)
    throw invalid(field, `An idempotency key has 1 to ${MAX_KEY_LENGTH} characters.`)
  return sha256(key).slice(0, 16)
}
