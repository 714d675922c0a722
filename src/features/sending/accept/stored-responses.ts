/**
 * @module Stores the responses to batches and broadcasts with an Idempotency-Key header for at least 24 hours: the same
 * key returns the same response, and another body is a conflict. `repeated-requests.ts` stores
 * those to all other requests in the same table; their erasure is here.
 */
import type { Database } from 'bun:sqlite'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { hashIdempotencyKey } from '#features/sending/queue/idempotency-key.ts'
import { equalBytes } from '#platform/crypto/crypto.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { createIdempotencyConflict, hashInSteps } from './idempotency.ts'
import { openStoredResponse, sealStoredResponse } from './repeated-requests.ts'

export interface ResponseKey {
  readonly keyHash: Uint8Array
  /** Hash of the request parts that identify a repeated request. */
  readonly bodyHash: Uint8Array
}

const sql = prepareStatements((db) => ({
  find: db.prepare<{ bodyHash: Uint8Array; response: string }, [number, Uint8Array]>(
    'SELECT body_hash AS bodyHash, response FROM batch_replies WHERE account_id = ? AND key_hash = ?',
  ),
  insert: db.prepare(
    'INSERT INTO batch_replies (account_id, key_hash, body_hash, response, created_at) VALUES (?, ?, ?, ?, ?)',
  ),
  after: db.prepare<{ id: number; accountId: number; response: string }, [number, number]>(
    'SELECT id, account_id AS accountId, response FROM batch_replies WHERE id > ? ORDER BY id LIMIT ?',
  ),
  setResponse: db.prepare('UPDATE batch_replies SET response = ?, body_hash = zeroblob(16) WHERE id = ?'),
}))

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

/**
 * The stored response for this key; undefined if there is none. Throws a 409 `idempotency_conflict` if the key was used
 * with another body.
 */
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
    sql(tx.db).setResponse.run(sealStoredResponse(keys, accountId, response, erased), id)
    changed++
  }
  return { rows: changed, next: rows.length < ERASE_BATCH_SIZE ? undefined : rows.at(-1)?.id }
}
