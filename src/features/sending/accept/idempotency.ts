/** @module Reads the idempotency key of a send request, and hashes the request to detect repeated ones. Pure. */

import { hashIdempotencyKey, type Idempotency } from '#features/sending/queue/idempotency-key.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { type AppError, conflict, invalid } from '#platform/errors.ts'
import type { SendRequest } from './model.ts'

/** Longer texts are hashed separately: a copy of the attachments would double the memory of a request. */
const MAX_PLAIN_TEXT_LENGTH = 4096

/**
 * The key of a request; undefined without one. Throws a 422 if field and header differ.
 * @param header value of `Idempotency-Key`, equivalent to the field in the body
 */
export function readIdempotency(request: SendRequest, header: string | undefined): Idempotency | undefined {
  const fromBody = request.idempotency_key ?? undefined
  if (header !== undefined && fromBody !== undefined && header !== fromBody) {
    throw invalid(
      'idempotency_key',
      'The header Idempotency-Key and the field idempotency_key differ; set only one of them.',
      'idempotency_key_mismatch',
    )
  }
  const key = fromBody ?? header
  if (key === undefined) return undefined
  const { idempotency_key: _, ...rest } = request
  return createIdempotency('idempotency_key', key, rest)
}

/**
 * The identity of a request; undefined without a key. Throws a 422 on `field` for a key that is too short or too long.
 * @param body what a repeated request must have in common with the first
 */
export function createIdempotency(field: string, key: string, body: unknown): Idempotency
export function createIdempotency(field: string, key: string | undefined, body: unknown): Idempotency | undefined
export function createIdempotency(field: string, key: string | undefined, body: unknown): Idempotency | undefined {
  return key === undefined ? undefined : { key, keyHash: hashIdempotencyKey(field, key), bodyHash: hashBody(body) }
}

/** The 409 for a key that was used with other content. */
export const createIdempotencyConflict = (): AppError =>
  conflict(
    'idempotency_conflict',
    'This idempotency key was used for a request with other content; use a new key for every email.',
  )

/**
 * Hashes a request body. Equivalent bodies have equal hashes: the order of keys is ignored, and null equals a missing
 * value.
 */
export function hashBody(value: unknown): Uint8Array {
  const steps = hashInSteps(value)
  for (;;) {
    const { done, value: hash } = steps.next()
    if (done) return hash
  }
}

/** `hashBody` in steps of about a millisecond, for a body of many values. */
export function* hashInSteps(value: unknown): Generator<void, Uint8Array> {
  const hash = new Bun.CryptoHasher('sha256')
  let written = ''
  let values = 0
  /** Writes JSON. */
  function* write(v: unknown): Generator<void> {
    if (typeof v === 'string')
      written += JSON.stringify(v.length > MAX_PLAIN_TEXT_LENGTH ? { sha256: sha256(v).toHex() } : v)
    else if (typeof v !== 'object' || v === null) written += JSON.stringify(v)
    else {
      const isList = Array.isArray(v)
      let separator = ''
      written += isList ? '[' : '{'
      for (const [name, item] of isList ? v.entries() : listMembers(v)) {
        written += isList ? separator : `${separator}${JSON.stringify(name)}:`
        separator = ','
        yield* write(item)
      }
      written += isList ? ']' : '}'
    }
    if (++values % VALUES_PER_STEP !== 0) return
    hash.update(written)
    written = ''
    yield
  }
  yield* write(value)
  return new Uint8Array(hash.update(written).digest()).slice(0, 16)
}

const VALUES_PER_STEP = 1000

/** In the order of JSON.stringify: whole numbers first. */
function listMembers(object: object): [string, unknown][] {
  const members = Object.entries(object).filter(([, item]) => item !== null && item !== undefined)
  return Object.entries(Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1))))
}
