/** @module Pausing, resuming and cancelling a broadcast, by its operation. What was tried already stays as it is. */
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { getOperation, type Operation } from '#features/core/operations/operations.ts'
import { releaseHeld } from '#features/sending/queue/broadcast-moves.ts'
import type { Tx } from '#platform/db/commit.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import {
  type Broadcast,
  type BroadcastState,
  broadcastOfOperation,
  moveBroadcast,
  type OnMoved,
  stateName,
} from './states.ts'

export type ControlVerb = 'pause' | 'resume' | 'cancel'

const MOVES: Readonly<Record<ControlVerb, { from: readonly BroadcastState[]; to: BroadcastState; done: string }>> = {
  pause: { from: ['waiting', 'sending'], to: 'paused', done: 'paused' },
  resume: { from: ['paused'], to: 'waiting', done: 'resumed' },
  cancel: { from: ['waiting', 'sending', 'paused'], to: 'cancelling', done: 'cancelled' },
}

const ERRORS: Readonly<Partial<Record<ControlVerb, string>>> = {
  pause: 'Paused; what was not tried before is not sent until it is resumed.',
  cancel: 'Cancelled; what was not tried before is not sent.',
}

/**
 * Does what was asked for and gives the operation as it is then. 404 when the account has no such operation, 409 when it is no broadcast, or one that
 * this cannot be done to any more. To ask for what is so already changes nothing.
 */
export function controlBroadcast(
  app: App,
  actor: Actor,
  operationId: string,
  verb: ControlVerb,
  onMoved: OnMoved,
): Promise<Operation> {
  return app.commit[verb === 'cancel' ? 'writeFromReserve' : 'write']((tx) => {
    const operation = getOperation(tx.db, actor.accountId, operationId)
    const broadcast = broadcastOfOperation(tx.db, actor.accountId, operation.id)
    if (!broadcast)
      throw conflict('not_a_broadcast', `An operation of type ${operation.type} cannot be ${MOVES[verb].done}.`)
    if (!isSoAlready(verb, stateName(broadcast.state))) {
      move(app, tx, broadcast, verb, onMoved)
      audit(app, tx, actor, {
        action: `broadcast.${MOVES[verb].done}`,
        resourceType: 'operation',
        resourceId: formatUuid(operation.uuid),
      })
    }
    const after = getOperation(tx.db, actor.accountId, operationId)
    if (!after) throw notFound('operation_not_found', 'There is no operation with this id.')
    return after
  })
}

const isSoAlready = (verb: ControlVerb, state: BroadcastState): boolean =>
  (verb === 'pause' && state === 'paused') ||
  (verb === 'resume' && (state === 'waiting' || state === 'sending')) ||
  (verb === 'cancel' && (state === 'cancelling' || state === 'cancelled'))

function move(app: App, tx: Tx, broadcast: Broadcast, verb: ControlVerb, onMoved: OnMoved): void {
  const state = stateName(broadcast.state)
  const { from, done } = MOVES[verb]
  // What was begun goes on, and is not said to wait for its time.
  const isBegun = verb === 'resume' && broadcast.dueAt <= app.clock.now()
  const to = isBegun ? 'sending' : MOVES[verb].to
  if (!from.includes(state))
    throw conflict('broadcast_over', `The broadcast is ${PLAINLY[state]}, so it cannot be ${done} any more.`)
  const error = ERRORS[verb]
  if (!moveBroadcast(app, tx, broadcast, { from: state, to, ...(error !== undefined && { error }) }, onMoved))
    throw new Error(`broadcast ${broadcast.id} is not ${state}`)
  const lanes = verb === 'resume' ? releaseHeld(tx, broadcast.operationId ?? 0, app.clock.now()) : []
  tx.afterCommit(() => {
    app.broadcastChanged.emit()
    for (const lane of lanes) app.mailDue.emit({ lane, at: app.clock.now() })
  })
}

const PLAINLY: Readonly<Record<BroadcastState, string>> = {
  fixing: 'being begun',
  waiting: 'waiting for its time',
  sending: 'being sent',
  paused: 'paused',
  cancelling: 'being cancelled',
  failing: 'ending, because it could not go on',
  done: 'handed to delivery completely',
  cancelled: 'cancelled',
  failed: 'over, because it could not go on',
}
