/**
 * @module The written table of a broadcast's states and moves. Its functions are the only writers of `broadcasts.state`; each moves by compare-and-set
 * inside the caller's transaction, and moves the broadcast's operation with it.
 *
 * fixing → waiting (its time is ahead) | sending | done (nobody is on the list); a crash in `fixing` ends it without a trace
 * waiting → sending (its time has come) | paused | cancelling
 * sending → paused | cancelling | failing (it cannot go on) | done (all recipients are handed to delivery or left out)
 * paused → waiting | sending | cancelling
 * cancelling → cancelled, failing → failed: when what had not been tried is taken back
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { type OperationProgress, updateOperationProgress } from '#features/core/operations/operations.ts'
import type { Millis } from '#platform/clock.ts'
import { codesOf } from '#platform/db/codes.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'

/** Position = the stored code: only ever append. Up to `failing` it is open, as the index `broadcasts_open` has it. */
export const BROADCAST_STATES = [
  'fixing',
  'waiting',
  'sending',
  'paused',
  'cancelling',
  'failing',
  'done',
  'cancelled',
  'failed',
] as const
export type BroadcastState = (typeof BROADCAST_STATES)[number]

const CODES = codesOf<BroadcastState>('broadcast state', BROADCAST_STATES)
export const stateCode = CODES.codeOf
export const stateName = CODES.nameOf

/** SQL: the broadcast is not over. Its text is that of the partial index `broadcasts_open`, which is used only then. */
export const IS_OPEN = `state <= ${stateCode('failing')}`
const PROCEEDING_CODES = `(${(['sending', 'cancelling', 'failing'] as const).map(stateCode).join(', ')})`

/** A broadcast as its steps need it. */
export interface Broadcast {
  readonly id: number
  readonly accountId: number
  readonly operationId: number | null
  readonly newsletterId: number | null
  readonly listId: number
  readonly streamId: number
  readonly templateId: number | null
  readonly from: string
  readonly subject: string
  readonly htmlRef: number | null
  readonly textRef: number | null
  readonly sizeBytes: number
  /** JSON, as `formatSharedData` gives it. */
  readonly templateData: string
  /** JSON of what its emails share of a draft's `extra`. */
  readonly extra: string | null
  readonly state: number
  /** 1: it is only captured. */
  readonly sandbox: number
  readonly total: number
  readonly handedOver: number
  readonly leftOut: number
  readonly quotaMonth: number | null
  readonly dueAt: Millis
  readonly error: string | null
  /** JSON, as `formatStoredActor` gives it. */
  readonly actor: string
}

const COLUMNS = `id, account_id AS accountId, operation_id AS operationId, newsletter_id AS newsletterId, list_id AS listId, stream_id AS streamId,
  template_id AS templateId, from_address AS "from", subject, html_ref AS htmlRef, text_ref AS textRef, size_bytes AS sizeBytes, template_data AS templateData,
  extra, state, sandbox, total, handed_over AS handedOver, left_out AS leftOut, quota_month AS quotaMonth, due_at AS dueAt, error, actor`

const sql = prepareStatements((db) => ({
  open: db.prepare<{ id: number }, [number]>(
    `SELECT id FROM broadcasts WHERE state <= ${stateCode('failing')} AND stream_id = ? LIMIT 1`,
  ),
  byId: db.prepare<Broadcast, [number]>(`SELECT ${COLUMNS} FROM broadcasts WHERE id = ?`),
  byOperation: db.prepare<Broadcast, [number, number]>(
    `SELECT ${COLUMNS} FROM broadcasts WHERE operation_id = ? AND account_id = ?`,
  ),
  // Of many that wait for their time none is looked at before it.
  ready: db.prepare<{ id: number; accountId: number }, [number]>(
    `SELECT id, account_id AS accountId FROM broadcasts INDEXED BY broadcasts_open
     WHERE ${IS_OPEN} AND (state IN ${PROCEEDING_CODES} OR (state = ${stateCode('waiting')} AND due_at <= ?)) ORDER BY id`,
  ),
  nextDue: db.prepare<{ at: number | null }, []>(
    `SELECT MIN(due_at) AS at FROM broadcasts INDEXED BY broadcasts_open WHERE ${IS_OPEN} AND state = ${stateCode('waiting')}`,
  ),
  move: db.prepare('UPDATE broadcasts SET state = ?, error = ?, updated_at = ? WHERE id = ? AND state = ?'),
  note: db.prepare(
    'UPDATE broadcasts SET error = ?1, updated_at = ?2 WHERE id = ?3 AND state = ?4 AND error IS NOT ?1',
  ),
  advance: db.prepare(
    'UPDATE broadcasts SET handed_over = handed_over + ?, left_out = left_out + ?, updated_at = ? WHERE id = ?',
  ),
}))

/** Whether a broadcast of a stream has not ended. */
export const hasOpenBroadcast = (db: Database, streamId: number): boolean => sql(db).open.get(streamId) !== null

export const findBroadcastById = (db: Database, id: number): Broadcast | undefined => sql(db).byId.get(id) ?? undefined

export const findBroadcastOfOperation = (db: Database, accountId: number, operationId: number): Broadcast | undefined =>
  sql(db).byOperation.get(operationId, accountId) ?? undefined

/** Those for which something is to be done now, oldest first. */
export const findReadyBroadcasts = (db: Database, now: Millis): { id: number; accountId: number }[] =>
  sql(db).ready.all(now)

/** When the first of those that wait has its time; undefined when none waits. */
export const findNextDueTime = (db: Database): Millis | undefined => sql(db).nextDue.get()?.at ?? undefined

/** What has to be told when a broadcast moves: its newsletter. In the transaction of the move. */
export type OnTransition = (
  tx: Tx,
  broadcast: Pick<Broadcast, 'id' | 'newsletterId' | 'total'>,
  state: BroadcastState,
  now: Millis,
) => void

/**
 * Moves a broadcast that is in `from`; false when it is not. Its operation moves along.
 * @param error why, in one sentence, where that is to be seen
 */
export function transitionBroadcast(
  app: App,
  tx: Tx,
  broadcast: Broadcast,
  transition: { readonly from: BroadcastState; readonly to: BroadcastState; readonly error?: string },
  onTransition: OnTransition,
): boolean {
  const now = app.eventTime()
  const { changes } = sql(tx.db).move.run(
    stateCode(transition.to),
    transition.error ?? null,
    now,
    broadcast.id,
    stateCode(transition.from),
  )
  if (changes !== 1) return false
  updateOperation(app, tx, broadcast.id)
  onTransition(tx, broadcast, transition.to, now)
  return true
}

/** Notes why a broadcast that is being sent does not go on; null: it does. Its state stays. */
export function recordDelayReason(app: App, tx: Tx, broadcastId: number, error: string | null): void {
  if (sql(tx.db).note.run(error, app.eventTime(), broadcastId, stateCode('sending')).changes === 1)
    updateOperation(app, tx, broadcastId)
}

/** Counts recipients that were handed to delivery or left out; those that are taken back move from one to the other. */
export function advanceBroadcast(
  app: App,
  tx: Tx,
  broadcastId: number,
  { handedOver, leftOut }: { readonly handedOver: number; readonly leftOut: number },
): void {
  sql(tx.db).advance.run(handedOver, leftOut, app.eventTime(), broadcastId)
  updateOperation(app, tx, broadcastId)
}

const OPERATION_STATUS: Readonly<Record<BroadcastState, OperationProgress['status']>> = {
  fixing: 'pending',
  waiting: 'pending',
  sending: 'processing',
  paused: 'processing',
  cancelling: 'processing',
  failing: 'processing',
  done: 'completed',
  cancelled: 'failed',
  failed: 'failed',
}

/** Writes into the operation how far its broadcast is. */
function updateOperation(app: App, tx: Tx, broadcastId: number): void {
  const broadcast = findBroadcastById(tx.db, broadcastId)
  if (!broadcast || broadcast.operationId === null) return
  const state = stateName(broadcast.state)
  const status = OPERATION_STATUS[state]
  updateOperationProgress(app, tx, broadcast.operationId, {
    ...(status && { status }),
    completed: broadcast.handedOver,
    failed: broadcast.leftOut,
    errorSummary: broadcast.error ?? formatSkippedSummary(broadcast),
    metadata: toOperationMetadata(broadcast),
  })
}

const formatSkippedSummary = ({ leftOut, total }: Broadcast): string | null =>
  leftOut === 0
    ? null
    : `${leftOut} of ${total} contacts were left out: they unsubscribed, were suppressed or were removed after the broadcast was begun.`

/** What the operation says beyond its own fields. */
export const toOperationMetadata = (
  broadcast: Pick<Broadcast, 'state' | 'dueAt' | 'handedOver' | 'leftOut'>,
): Readonly<Record<string, unknown>> => ({
  state: stateName(broadcast.state),
  begins_at: new Date(broadcast.dueAt).toISOString(),
  handed_over: broadcast.handedOver,
  left_out: broadcast.leftOut,
})
