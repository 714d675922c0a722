/**
 * @module Repeated requests: reads the idempotency key of a send request and hashes the request, and stores the
 * responses to all other requests with an Idempotency-Key header for at least 24 hours: to batches and broadcasts with
 * the request, to those that create something before their handler runs, so a crash can leave the outcome unknown, but
 * nothing is created twice. The latter are sealed, because they contain secrets that are stored nowhere else in clear.
 */

import type { Database } from 'bun:sqlite'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { hashIdempotencyKey, type Idempotency } from '#features/sending/queue/email.ts'
import { equalBytes, type KeyRing, sha256 } from '#platform/crypto/crypto.ts'
import type { SealedColumns } from '#platform/crypto/sealed-columns.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { AppError, conflict, invalid, tooManyRequests } from '#platform/errors.ts'
import type { NewRequest, RequestKeys, StoredResponse } from '#platform/http/repeated-request.ts'
import { KiB } from '#platform/units.ts'
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
  const { idempotency_key: _, ...rest } = request
  return createIdempotency('idempotency_key', fromBody ?? header, rest)
}

/**
 * The identity of a request; undefined without a key. Throws a 422 on `field` for a key that is too short or too long.
 * @param body what a repeated request must have in common with the first
 */
export function createIdempotency(field: string, key: string | undefined, body: unknown): Idempotency | undefined {
  return key === undefined ? undefined : { key, keyHash: hashIdempotencyKey(field, key), bodyHash: hashBody(body) }
}

export const createIdempotencyConflict = (): AppError =>
  conflict(
    'idempotency_conflict',
    'This idempotency key was used for a request with other content; use a new key for every email.',
  )

/** Equivalent bodies have equal hashes: the order of keys is ignored, and null equals a missing value. */
export function hashBody(value: unknown): Uint8Array {
  const steps = hashInSteps(value)
  for (;;) {
    const { done, value: hash } = steps.next()
    if (done) return hash
  }
}

/** `hashBody` in steps of about a millisecond, for a body of many values. */
function* hashInSteps(value: unknown): Generator<void, Uint8Array> {
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

/** Keys per account, within the two days for which they are stored. */
const MAX_KEYS = 10_000
/** A longer response is not stored; a repeated request then gets a 409 that names what was created. */
const MAX_RESPONSE_LENGTH = 16 * KiB
/** Of a request whose response is not stored yet. */
const PENDING = ''
/** Before the base64 of a sealed response; those of batches are JSON. */
const SEALED_PREFIX = 'sealed:'

interface Row {
  readonly id: number
  readonly bodyHash: Uint8Array
  readonly response: string
}

const sql = prepareStatements((db) => ({
  find: db.prepare<Row, [number, Uint8Array]>(
    'SELECT id, body_hash AS bodyHash, response FROM batch_replies WHERE account_id = ? AND key_hash = ?',
  ),
  atLimit: db.prepare<{ found: number }, [number]>(
    `SELECT 1 AS found FROM batch_replies WHERE account_id = ? LIMIT 1 OFFSET ${MAX_KEYS - 1}`,
  ),
  insert: db.prepare<{ id: number }, [number, Uint8Array, Uint8Array, string, number]>(
    'INSERT INTO batch_replies (account_id, key_hash, body_hash, response, created_at) VALUES (?, ?, ?, ?, ?) RETURNING id',
  ),
  end: db.prepare('UPDATE batch_replies SET response = ? WHERE id = ? AND key_hash = ?'),
  delete: db.prepare('DELETE FROM batch_replies WHERE id = ? AND key_hash = ?'),
  after: db.prepare<{ id: number; accountId: number; response: string }, [number, number]>(
    'SELECT id, account_id AS accountId, response FROM batch_replies WHERE id > ? ORDER BY id LIMIT ?',
  ),
  setResponse: db.prepare('UPDATE batch_replies SET response = ?, body_hash = zeroblob(16) WHERE id = ?'),
}))

/** A response as it is sealed. `body` is null when it was too long. */
interface Sealed {
  readonly status: number
  readonly body: string | null
  readonly location: string | null
}

const toSealContext = (accountId: number): string => `idempotency:${accountId}`

export const SEALED_COLUMNS: readonly SealedColumns[] = [
  {
    table: 'batch_replies',
    id: 'id',
    owner: 'account_id',
    columns: { response: toSealContext },
    textPrefix: SEALED_PREFIX,
  },
]

/** Opens a stored response that is sealed; returns any other as it is. */
export const openStoredResponse = (keys: KeyRing, accountId: number, stored: string): string =>
  stored.startsWith(SEALED_PREFIX)
    ? keys.unsealText(Uint8Array.fromBase64(stored.slice(SEALED_PREFIX.length)), toSealContext(accountId))
    : stored

const seal = (keys: KeyRing, accountId: number, text: string): string =>
  `${SEALED_PREFIX}${keys.seal(text, toSealContext(accountId)).toBase64()}`

export function createRequestKeys(app: App): RequestKeys<Actor> {
  /** Row ids of the requests that this process is handling. */
  const running = new Set<number>()

  /** The response of an earlier request. Throws 409 when there is none. */
  const toStored = (accountId: number, row: Row, bodyHash: Uint8Array): StoredResponse => {
    if (!equalBytes(row.bodyHash, bodyHash)) throw createIdempotencyConflict()
    if (row.response === PENDING) throw running.has(row.id) ? stillRunning() : unknownOutcome()
    const { status, body, location } = JSON.parse(openStoredResponse(app.keys, accountId, row.response)) as Sealed
    if (body === null) throw tooLong(location)
    return { kind: 'stored', status, body, location }
  }

  const toNew = (actor: Actor, id: number, keyHash: Uint8Array): NewRequest => ({
    kind: 'new',
    async end({ status, body, location }) {
      const response = { status, body: body.length > MAX_RESPONSE_LENGTH ? null : body, location } satisfies Sealed
      try {
        // After an internal error nobody knows what was stored, so the key stays as it is.
        if (status === 500) return
        await app.commit.writeFromReserve((tx) => {
          if (status >= 400) sql(tx.db).delete.run(id, keyHash)
          else sql(tx.db).end.run(seal(app.keys, actor.accountId, JSON.stringify(response)), id, keyHash)
        })
      } finally {
        running.delete(id)
      }
    },
  })

  const insert = (tx: Tx, accountId: number, keyHash: Uint8Array, bodyHash: Uint8Array): number => {
    if (sql(tx.db).atLimit.get(accountId))
      throw tooManyRequests(
        'too_many_idempotency_keys',
        `An account can use at most ${MAX_KEYS} idempotency keys in two days for requests that are not sends; try again later, or without a key.`,
        3600,
      )
    const row = sql(tx.db).insert.get(accountId, keyHash, bodyHash, PENDING, app.clock.now())
    if (!row) throw new Error('the idempotency key was not stored')
    running.add(row.id)
    return row.id
  }

  return {
    async begin(actor, { key, path, body }) {
      const { accountId } = actor
      const keyHash = hashIdempotencyKey('Idempotency-Key', key)
      // With the actor: a key that may do less must not get the response of another one.
      const identity = { actor: `${actor.type} ${actor.id}`, path, body }
      const bodyHash = await app.fairScheduler.runSteps(getTenantId(app.db, accountId), hashInSteps(identity))
      const earlier = sql(app.db).find.get(accountId, keyHash)
      if (earlier) return toStored(accountId, earlier, bodyHash)
      return await app.commit.write((tx) => {
        const found = sql(tx.db).find.get(accountId, keyHash)
        return found
          ? toStored(accountId, found, bodyHash)
          : toNew(actor, insert(tx, accountId, keyHash, bodyHash), keyHash)
      })
    },
  }
}

const stillRunning = (): AppError =>
  new AppError(
    409,
    'idempotency_in_progress',
    'The first request with this idempotency key is still being handled; repeat it in a second.',
    { retryAfterSeconds: 1 },
  )

const unknownOutcome = (): AppError =>
  conflict(
    'idempotency_outcome_unknown',
    'The first request with this idempotency key was interrupted, so it may have created something or not. Read what there is, and if it is missing, repeat the request with a new key.',
  )

const tooLong = (location: string | null): AppError =>
  conflict(
    'idempotency_response_not_kept',
    `The first request with this idempotency key has succeeded; its response was too long to be stored.${location === null ? '' : ` Read ${location}.`}`,
  )

export interface ResponseKey {
  readonly keyHash: Uint8Array
  /** Hash of the request parts that identify a repeated request. */
  readonly bodyHash: Uint8Array
}

/** The key of a request; undefined without the header. Throws a 422 if the header is too short or too long. */
export async function createResponseKey(
  app: Pick<App, 'db' | 'fairScheduler'>,
  { accountId }: Actor,
  header: string | undefined,
  body: unknown,
): Promise<ResponseKey | undefined> {
  if (header === undefined) return undefined
  const keyHash = hashIdempotencyKey('Idempotency-Key', header)
  return { keyHash, bodyHash: await app.fairScheduler.runSteps(getTenantId(app.db, accountId), hashInSteps(body)) }
}

/** The stored response for this key, if any. Throws a 409 `idempotency_conflict` if it was used with another body. */
export function findStoredResponse<T extends object>(db: Database, actor: Actor, key: ResponseKey): T | undefined {
  const found = sql(db).find.get(actor.accountId, key.keyHash)
  if (!found) return undefined
  if (!equalBytes(found.bodyHash, key.bodyHash)) throw createIdempotencyConflict()
  return JSON.parse(found.response) as T
}

/** Stores the response, in the transaction with the changes that it describes. */
export function storeResponse(app: Pick<App, 'clock'>, tx: Tx, actor: Actor, key: ResponseKey, response: object): void {
  sql(tx.db).insert.run(actor.accountId, key.keyHash, key.bodyHash, JSON.stringify(response), app.clock.now())
}

/** Rows examined per transaction. A response has up to 500 emails, so ten rows take some 10 ms at most. */
const ERASE_BATCH_SIZE = 10

/**
 * Examines the next responses after a row, and erases a person from the responses of one account. Clears the body hash
 * of a changed response, so a repeated request then conflicts.
 * @param options.erased returns a text without the person, or the same text if the person is not in it
 * @returns `next`: where to continue; undefined at the end
 */
export function eraseInStoredResponses(
  { keys }: Pick<App, 'keys'>,
  tx: Tx,
  options: { readonly accountId: number; readonly after: number; readonly erased: (text: string) => string },
): { readonly rows: number; readonly next: number | undefined } {
  const rows = sql(tx.db).after.all(options.after, ERASE_BATCH_SIZE)
  let changed = 0
  for (const { id, accountId, response } of rows) {
    if (accountId !== options.accountId) continue
    const text = openStoredResponse(keys, accountId, response)
    const erased = options.erased(text)
    if (erased === text) continue
    sql(tx.db).setResponse.run(response.startsWith(SEALED_PREFIX) ? seal(keys, accountId, erased) : erased, id)
    changed++
  }
  return { rows: changed, next: rows.length < ERASE_BATCH_SIZE ? undefined : rows.at(-1)?.id }
}
