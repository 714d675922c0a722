/**
 * @module Accepts a batch: each email checked by itself, all accepted ones in one transaction with their operation. Quota is taken for the batch
 * as a whole. With an Idempotency-Key header the whole answer is kept and given again.
 */
import type { Actor, App } from '#features/app.ts'
import { equalBytes, sha256 } from '#platform/crypto.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { AppError, conflict, invalid } from '#platform/errors.ts'
import { checkOf } from '#platform/http/validation.ts'
import { days } from '#platform/units.ts'
import { requireSending, sendingAccount, takeQuota } from '../accounts/accounts.ts'
import { insertOperation } from '../operations/operations.ts'
import {
  findReplay,
  insertEmail,
  requireDiskSpace,
  requireSendable,
  type StoredContent,
  storeContent,
} from './accept.ts'
import { canonicalJson, type Draft, draftOf } from './draft.ts'
import { type BatchResponse, SendRequest, type SendResponse } from './model.ts'

export interface BatchInput {
  readonly emails: readonly unknown[]
  /** Header `Idempotency-Key`. */
  readonly idempotencyKey: string | undefined
}

const sql = prepared((db) => ({
  findReply: db.prepare<{ bodyHash: Uint8Array; response: string }, [number, Uint8Array]>(
    'SELECT body_hash AS bodyHash, response FROM batch_replies WHERE account_id = ? AND key_hash = ?',
  ),
  insertReply: db.prepare(
    'INSERT INTO batch_replies (account_id, key_hash, body_hash, response, created_at) VALUES (?, ?, ?, ?, ?)',
  ),
  trimReplies: db.prepare('DELETE FROM batch_replies WHERE created_at < ?'),
}))

const REPLY_KEPT_MS = days(2)

const checkItem = checkOf(SendRequest, 'email')

type Item = { readonly index: number; readonly draft: Draft; readonly content: StoredContent }

/** @param admit throws when the account sends too fast; asked after the look-up of the idempotency key */
export async function acceptBatch(
  app: App,
  actor: Actor,
  input: BatchInput,
  admit: () => void = () => undefined,
): Promise<BatchResponse> {
  const idempotency = idempotencyOf(input)
  const replay = idempotency && replyTo(app, actor, idempotency)
  if (replay) return replay
  admit()
  requireSending(sendingAccount(app.config, app.db, actor.accountId))
  const errors: BatchResponse['errors'] = []
  const drafts: { index: number; draft: Draft }[] = []
  for (const [index, given] of input.emails.entries()) {
    try {
      const draft = draftOf(app, checkedItem(given), undefined)
      if (!findReplay(app, actor, draft)) requireSendable(app, actor, draft)
      drafts.push({ index, draft })
    } catch (error) {
      errors.push({ index, error: itemError(error) })
    }
  }
  if (drafts.some(({ draft }) => !findReplay(app, actor, draft))) await requireDiskSpace(app)
  const items = await Promise.all(
    drafts.map(async ({ index, draft }): Promise<Item> => ({ index, draft, content: await storeContent(app, draft) })),
  )
  return app.commit.write((tx) => {
    const earlier = idempotency && replyTo(app, actor, idempotency)
    if (earlier) return earlier
    const response = insertBatch(app, tx, actor, items, errors, input.emails.length)
    if (idempotency) {
      sql(tx.db).insertReply.run(
        actor.accountId,
        idempotency.keyHash,
        idempotency.bodyHash,
        JSON.stringify(response),
        app.clock.now(),
      )
    }
    return response
  })
}

/** Removes answers that are older than they have to be kept. */
export const trimBatchReplies = (app: App): Promise<void> =>
  app.commit.write((tx) => void sql(tx.db).trimReplies.run(app.clock.now() - REPLY_KEPT_MS))

interface BatchIdempotency {
  readonly keyHash: Uint8Array
  readonly bodyHash: Uint8Array
}

function idempotencyOf({ emails, idempotencyKey }: BatchInput): BatchIdempotency | undefined {
  if (idempotencyKey === undefined) return undefined
  if (idempotencyKey.length === 0 || idempotencyKey.length > 256)
    throw invalid('Idempotency-Key', 'An idempotency key has 1 to 256 characters.')
  return { keyHash: sha256(idempotencyKey).slice(0, 16), bodyHash: sha256(canonicalJson(emails)).slice(0, 16) }
}

function replyTo(app: App, actor: Actor, idempotency: BatchIdempotency): BatchResponse | undefined {
  const found = sql(app.db).findReply.get(actor.accountId, idempotency.keyHash)
  if (!found) return undefined
  if (!equalBytes(found.bodyHash, idempotency.bodyHash)) {
    throw conflict(
      'idempotency_conflict',
      'This Idempotency-Key was used for a batch with another body; use a new key.',
    )
  }
  return JSON.parse(found.response) as BatchResponse
}

function checkedItem(given: unknown): SendRequest {
  const details = checkItem(given)
  if (details.length > 0)
    throw invalid(details[0]?.field ?? 'email', details.map((d) => `${d.field} ${d.message}`).join('; '))
  return given as SendRequest
}

/** A refusal of one item as its error text; what concerns the request as a whole, or is no refusal, goes on. */
function itemError(error: unknown): string {
  if (error instanceof AppError && error.status === 422) return error.message
  throw error
}

/** In one transaction: what the database decides may have changed since the items were checked, so it decides again. */
function insertBatch(
  app: App,
  tx: Tx,
  actor: Actor,
  items: readonly Item[],
  earlierErrors: BatchResponse['errors'],
  total: number,
): BatchResponse {
  const errors = [...earlierErrors]
  const placed: { item: Item; placement: ReturnType<typeof requireSendable> | undefined }[] = []
  for (const item of items) {
    try {
      const isReplay = findReplay(app, actor, item.draft) !== undefined
      placed.push({ item, placement: isReplay ? undefined : requireSendable(app, actor, item.draft) })
    } catch (error) {
      errors.push({ index: item.index, error: itemError(error) })
    }
  }
  // Two items with one key: the second returns the first, and counts nothing.
  const seenKeys = new Set<string>()
  const isFirst = ({ draft }: Item) => {
    if (!draft.idempotency) return true
    const isNew = !seenKeys.has(draft.idempotency.key)
    seenKeys.add(draft.idempotency.key)
    return isNew
  }
  const counted = placed.filter(({ item, placement }) => placement && !placement.sandbox && isFirst(item))
  const recipients = counted.reduce((sum, { item }) => sum + item.draft.recipients.length, 0)
  const account = sendingAccount(app.config, tx.db, actor.accountId)
  const quotaMonth = recipients > 0 ? takeQuota(tx, account, recipients, app.clock.now()) : null
  errors.sort((a, b) => a.index - b.index)
  const operation = insertOperation(app, tx, actor, {
    type: 'batch',
    status: 'completed',
    total,
    completed: total - errors.length,
    failed: errors.length,
    errorSummary: errors[0]
      ? `${errors.length} of ${total} emails were not accepted; the first: ${errors[0].error}`
      : null,
  })
  const data = placed.map(({ item, placement }): SendResponse => {
    const replay = findReplay(app, actor, item.draft)
    if (replay) return replay.response
    if (!placement) throw new Error('an earlier email of the batch is gone')
    return insertEmail(app, tx, actor, item.draft, item.content, {
      ...placement,
      quotaMonth: placement.sandbox ? null : quotaMonth,
      operationId: operation.id,
    })
  })
  return { operation_id: operation.uuid, data, errors }
}
