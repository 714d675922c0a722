/**
 * @module The states and transitions of a broadcast, and its control by users: pause, resume, cancel. Its functions are
 * the only writers of `broadcasts.state`; each changes the state by compare-and-set, and updates the broadcast's
 * operation. Never changes attempted recipients.
 *
 * fixing → waiting (its time is ahead) | sending | done (no recipients); after a crash in `fixing` it is discarded
 * waiting → sending (its time has come) | paused | cancelling
 * sending → paused | cancelling | failing (permanent error) | done (all recipients are enqueued and attempted, or
 * skipped)
 * paused → waiting | sending | cancelling
 * cancelling → cancelled, failing → failed: once all unattempted emails are withdrawn
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { isBroadcastRestored, readFence } from '#features/core/fence/restored.ts'
import {
  getOperation,
  type Operation,
  type OperationProgress,
  updateOperationProgress,
} from '#features/core/operations/operations.ts'
import { STATUSES, type Status, statusName } from '#features/sending/queue/status.ts'
import { releaseHeld } from '#features/sending/queue/waiting-transitions.ts'
import { codesOf, prepareStatements, type Tx } from '#platform/db/open.ts'
import { conflict } from '#platform/errors.ts'
import type { Millis } from '#platform/units.ts'
import type { broadcasts } from './tables.ts'

/** The position is the stored code: only append. States up to `failing` are open, as in `broadcasts_open`. */
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

/** SQL: the broadcast is open. Equals the text of the index `broadcasts_open`, or SQLite does not use that. */
export const IS_OPEN = `state <= ${stateCode('failing')}`
const PROCEEDING_CODES = `(${(['sending', 'cancelling', 'failing'] as const).map(stateCode).join(', ')})`

export type Broadcast = Readonly<
  Omit<typeof broadcasts.$inferSelect, 'templateVersion' | 'sandbox' | 'createdAt' | 'updatedAt'>
> & { readonly sandbox: number }

const COLUMNS = `id, account_id AS accountId, operation_id AS operationId, newsletter_id AS newsletterId, list_id AS listId, stream_id AS streamId,
  template_id AS templateId, from_address AS "from", subject, html_ref AS htmlRef, text_ref AS textRef, size_bytes AS sizeBytes, template_data AS templateData,
  extra, state, sandbox, total, handed_over AS handedOver, left_out AS leftOut, quota_month AS quotaMonth, due_at AS dueAt, error, actor`

const sql = prepareStatements((db) => ({
  open: db.prepare<{ id: number }, [number]>(`SELECT id FROM broadcasts WHERE ${IS_OPEN} AND stream_id = ? LIMIT 1`),
  byId: db.prepare<Broadcast, [number]>(`SELECT ${COLUMNS} FROM broadcasts WHERE id = ?`),
  byOperation: db.prepare<Broadcast, [number, number]>(
    `SELECT ${COLUMNS} FROM broadcasts WHERE operation_id = ? AND account_id = ?`,
  ),
  unfinished: db.prepare<Broadcast, []>(
    `SELECT ${COLUMNS} FROM broadcasts INDEXED BY broadcasts_open WHERE ${IS_OPEN} AND state < ${stateCode('cancelling')} ORDER BY id`,
  ),
  // Does not read broadcasts that still wait for their time, because there may be many.
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
  // Reads only the index `emails_of_operation`: some 50 ms for a million emails.
  byStatus: db.prepare<{ status: number; n: number }, [number]>(
    'SELECT status, COUNT(*) AS n FROM emails WHERE operation_id = ? GROUP BY status',
  ),
}))

export const hasOpenBroadcast = (db: Database, streamId: number): boolean => sql(db).open.get(streamId) !== null

export const findBroadcastById = (db: Database, id: number): Broadcast | undefined => sql(db).byId.get(id) ?? undefined

const findBroadcastOfOperation = (db: Database, accountId: number, operationId: number): Broadcast | undefined =>
  sql(db).byOperation.get(operationId, accountId) ?? undefined

/** The broadcasts that wait as restored, of one account or of all: those that would still enqueue emails. */
export function listRestoredBroadcasts(db: Database, accountId: number | null): Broadcast[] {
  const fence = readFence(db)
  return sql(db)
    .unfinished.all()
    .filter(
      (broadcast) => (accountId === null || broadcast.accountId === accountId) && isBroadcastRestored(fence, broadcast),
    )
}

/** Broadcasts that can proceed now, oldest first. */
export const findReadyBroadcasts = (db: Database, now: Millis): { id: number; accountId: number }[] =>
  sql(db).ready.all(now)

/** The due time of the first waiting broadcast; undefined when none waits. */
export const findNextDueTime = (db: Database): Millis | undefined => sql(db).nextDue.get()?.at ?? undefined

/** Called at each transition, in its transaction, to update the newsletter. */
export type OnTransition = (
  tx: Tx,
  broadcast: Pick<Broadcast, 'id' | 'newsletterId' | 'total'>,
  state: BroadcastState,
  now: Millis,
) => void

/**
 * Moves a broadcast from state `from` to `to` and updates its operation; false when it is not in `from`.
 * @param error the reason in one sentence, for the user
 */
export function transitionBroadcast(
  app: App,
  tx: Tx,
  broadcast: Broadcast,
  transition: { readonly from: BroadcastState; readonly to: BroadcastState; readonly error?: string | undefined },
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

/** Records why a sending broadcast is delayed, without a change of state; null clears the reason. */
export function recordDelayReason(app: App, tx: Tx, broadcastId: number, error: string | null): void {
  if (sql(tx.db).note.run(error, app.eventTime(), broadcastId, stateCode('sending')).changes === 1)
    updateOperation(app, tx, broadcastId)
}

/** Counts recipients that were enqueued or skipped. A withdrawn recipient moves from the first count to the second. */
export function advanceBroadcast(
  app: App,
  tx: Tx,
  broadcastId: number,
  { handedOver, leftOut }: { readonly handedOver: number; readonly leftOut: number },
): void {
  sql(tx.db).advance.run(handedOver, leftOut, app.eventTime(), broadcastId)
  updateOperation(app, tx, broadcastId)
}

/** The status of the operation of a broadcast in each state. */
export const OPERATION_STATUS = {
  fixing: 'pending',
  waiting: 'pending',
  sending: 'processing',
  paused: 'processing',
  cancelling: 'processing',
  failing: 'processing',
  done: 'completed',
  cancelled: 'failed',
  failed: 'failed',
} as const satisfies Readonly<Record<BroadcastState, OperationProgress['status']>>

/** Writes the progress of a broadcast into its operation. */
function updateOperation(app: App, tx: Tx, broadcastId: number): void {
  const broadcast = findBroadcastById(tx.db, broadcastId)
  if (!broadcast || broadcast.operationId === null) return
  updateOperationProgress(app, tx, broadcast.operationId, {
    status: OPERATION_STATUS[stateName(broadcast.state)],
    completed: broadcast.handedOver,
    failed: broadcast.leftOut,
    errorSummary: broadcast.error ?? formatSkippedSummary(broadcast),
    metadata: toOperationMetadata(broadcast),
  })
}

const formatSkippedSummary = ({ leftOut, total }: Broadcast): string | null =>
  leftOut === 0
    ? null
    : `${leftOut} of ${total} contacts were skipped: they unsubscribed, were suppressed or were removed after the broadcast started.`

/** Metadata of the operation beyond its own fields. */
export const toOperationMetadata = (
  broadcast: Pick<Broadcast, 'state' | 'dueAt' | 'handedOver' | 'leftOut'>,
): Readonly<Record<string, unknown>> => ({
  state: stateName(broadcast.state),
  begins_at: new Date(broadcast.dueAt).toISOString(),
  handed_over: broadcast.handedOver,
  left_out: broadcast.leftOut,
})

/** Number of emails in each status; undefined when the operation is not a broadcast. */
export function countBroadcastEmails(
  db: Database,
  accountId: number,
  operationId: number,
): Readonly<Record<Status, number>> | undefined {
  const broadcast = findBroadcastOfOperation(db, accountId, operationId)
  if (!broadcast) return undefined
  // Keys whose emails are drafts send no broadcast.
  const statuses = STATUSES.filter((status) => status !== 'draft')
  const counts = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>
  for (const { status, n } of sql(db).byStatus.all(operationId)) counts[statusName(status)] = n
  return counts
}

export type ControlVerb = 'pause' | 'resume' | 'cancel'

const TRANSITIONS: Readonly<
  Record<ControlVerb, { from: readonly BroadcastState[]; to: BroadcastState; participle: string }>
> = {
  pause: { from: ['waiting', 'sending'], to: 'paused', participle: 'paused' },
  resume: { from: ['paused'], to: 'waiting', participle: 'resumed' },
  cancel: { from: ['waiting', 'sending', 'paused'], to: 'cancelling', participle: 'cancelled' },
}

const STATE_REASONS: Readonly<Partial<Record<ControlVerb, string>>> = {
  pause: 'Paused; emails not attempted before are not sent until it is resumed.',
  cancel: 'Cancelled; emails not attempted before are not sent.',
}

/**
 * Pauses, resumes or cancels, according to the verb; returns the resulting operation. Repeating a verb has no effect.
 * Throws 404 when the account has no such operation, 409 when the operation is not a broadcast or its state does not
 * allow the verb.
 */
export function controlBroadcast(
  app: App,
  actor: Actor,
  operationId: string,
  verb: ControlVerb,
  onTransition: OnTransition,
): Promise<Operation> {
  return app.commit[verb === 'cancel' ? 'writeFromReserve' : 'write']((tx) => {
    const operation = getOperation(tx.db, actor.accountId, operationId)
    const broadcast = findBroadcastOfOperation(tx.db, actor.accountId, operation.id)
    if (!broadcast)
      throw conflict(
        'not_a_broadcast',
        `An operation of type ${operation.type} cannot be ${TRANSITIONS[verb].participle}.`,
      )
    if (!isInRequestedState(verb, stateName(broadcast.state))) {
      transition(app, tx, broadcast, verb, onTransition)
      const action = `broadcast.${TRANSITIONS[verb].participle}`
      auditChange(app, tx, actor, action, operation.uuid, undefined, 'operation')
    }
    return getOperation(tx.db, actor.accountId, operationId)
  })
}

/**
 * Cancels the open broadcasts that wait as restored, of one account or of all; resolves with their number. They end once
 * their emails that were not attempted are withdrawn.
 */
export async function dropRestoredBroadcasts(
  app: App,
  accountId: number | null,
  onTransition: OnTransition,
): Promise<number> {
  let dropped = 0
  for (const broadcast of listRestoredBroadcasts(app.db, accountId)) {
    const from = stateName(broadcast.state)
    const transition = { from, to: TRANSITIONS.cancel.to, error: DROPPED_REASON }
    if (await app.commit.writeFromReserve((tx) => transitionBroadcast(app, tx, broadcast, transition, onTransition)))
      dropped++
  }
  app.broadcastChanged.emit()
  return dropped
}

const DROPPED_REASON =
  'The service was restored from a backup, and its operator dropped the broadcast; emails not attempted before are not sent.'

const isInRequestedState = (verb: ControlVerb, state: BroadcastState): boolean =>
  (verb === 'pause' && state === 'paused') ||
  (verb === 'resume' && (state === 'waiting' || state === 'sending')) ||
  (verb === 'cancel' && (state === 'cancelling' || state === 'cancelled'))

function transition(app: App, tx: Tx, broadcast: Broadcast, verb: ControlVerb, onTransition: OnTransition): void {
  const state = stateName(broadcast.state)
  const { from, participle: done } = TRANSITIONS[verb]
  // A resumed broadcast whose time has come goes on sending; it does not go back to `waiting`.
  const isDue = verb === 'resume' && broadcast.dueAt <= app.clock.now()
  const to = isDue ? 'sending' : TRANSITIONS[verb].to
  if (!from.includes(state))
    throw conflict('broadcast_over', `The broadcast is ${state}, so it can no longer be ${done}.`)
  if (!transitionBroadcast(app, tx, broadcast, { from: state, to, error: STATE_REASONS[verb] }, onTransition))
    throw new Error(`broadcast ${broadcast.id} is not ${state}`)
  const lanes = verb === 'resume' ? releaseHeld(tx, broadcast.operationId ?? 0, app.clock.now()) : []
  tx.afterCommit(() => {
    app.broadcastChanged.emit()
    for (const lane of lanes) app.mailDue.emit({ lane, at: app.clock.now() })
  })
}
