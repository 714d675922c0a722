/** @module Idempotency keys of send requests: the key, and what tells a repeated request from a different one. Pure. */
import { sha256 } from '#platform/crypto.ts'
import { type AppError, conflict, invalid } from '#platform/errors.ts'
import type { SendRequest } from './model.ts'

export interface Idempotency {
  readonly key: string
  /** First 16 bytes of the key's SHA-256. */
  readonly keyHash: Uint8Array
  /** Equal for requests that mean the same. */
  readonly bodyHash: Uint8Array
}

const LONGEST_KEY = 256
/** Longer texts are hashed by themselves: a copy of the attachments would double what a request holds. */
const LONGEST_PLAIN_TEXT = 4096

/**
 * The key of a request; undefined when it has none. Throws a 422 when field and header differ.
 * @param header value of `Idempotency-Key`, which means the same as the body's field
 */
export function idempotencyOf(request: SendRequest, header: string | undefined): Idempotency | undefined {
  const fromBody = request.idempotency_key ?? undefined
  if (header !== undefined && fromBody !== undefined && header !== fromBody) {
    throw invalid(
      'idempotency_key',
      'The header Idempotency-Key and the field idempotency_key differ; give one of them.',
      'idempotency_key_mismatch',
    )
  }
  const key = fromBody ?? header
  if (key === undefined) return undefined
  const { idempotency_key: _, ...rest } = request
  return { key, keyHash: keyHashOf('idempotency_key', key), bodyHash: bodyHashOf(rest) }
}

/** The 409 for a key that was used for other content. */
export const idempotencyConflict = (): AppError =>
  conflict(
    'idempotency_conflict',
    'This idempotency key was used for a request with other content; use a new key for every email.',
  )

/** Hash under which a key is kept; 422 on `field` when the key is too short or too long. */
export function keyHashOf(field: string, key: string): Uint8Array {
  if (key.length === 0 || key.length > LONGEST_KEY)
    throw invalid(field, `An idempotency key has 1 to ${LONGEST_KEY} characters.`)
  return sha256(key).slice(0, 16)
}

/** Equal for values that mean the same: the order of keys does not count, and null is as good as missing. */
export const bodyHashOf = (value: unknown): Uint8Array => sha256(canonicalJson(value)).slice(0, 16)

function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, v: unknown) => {
    if (typeof v === 'string') return v.length > LONGEST_PLAIN_TEXT ? { sha256: sha256(v).toHex() } : v
    if (typeof v !== 'object' || v === null || Array.isArray(v)) return v
    return Object.fromEntries(
      Object.entries(v)
        .filter(([, item]) => item !== null)
        .sort(([a], [b]) => (a < b ? -1 : 1)),
    )
  })
}
