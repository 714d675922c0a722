/**
 * @module Stores the responses to requests that create something with an Idempotency-Key, for at least 24 hours: keys,
 * webhooks, lists and whatever else is not a send. That a request has begun is on disk before its handler runs, so a
 * crash can leave its outcome unknown, but nothing is created twice. Responses are sealed, because those of keys and
 * webhooks contain secrets that are stored nowhere else in clear.
 */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { hashIdempotencyKey } from '#features/sending/queue/idempotency-key.ts'
import { equalBytes, type KeyRing } from '#platform/crypto/crypto.ts'
import type { SealedColumns } from '#platform/crypto/sealed-columns.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError, conflict, tooManyRequests } from '#platform/errors.ts'
import type { NewRequest, RequestKeys, StoredResponse } from '#platform/http/repeated-request.ts'
import { KiB } from '#platform/units.ts'
import { createIdempotencyConflict, hashInSteps } from './idempotency.ts'

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
  begin: db.prepare<{ id: number }, [number, Uint8Array, Uint8Array, number]>(
    `INSERT INTO batch_replies (account_id, key_hash, body_hash, response, created_at) VALUES (?, ?, ?, '${PENDING}', ?) RETURNING id`,
  ),
  end: db.prepare('UPDATE batch_replies SET response = ? WHERE id = ? AND key_hash = ?'),
  delete: db.prepare('DELETE FROM batch_replies WHERE id = ? AND key_hash = ?'),
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

/** Seals what `openStoredResponse` opened, if it was sealed. */
export const sealStoredResponse = (keys: KeyRing, accountId: number, stored: string, text: string): string =>
  stored.startsWith(SEALED_PREFIX) ? seal(keys, accountId, text) : text

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
    const row = sql(tx.db).begin.get(accountId, keyHash, bodyHash, app.clock.now())
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
