/** @module Pauses, resumes and cancels a broadcast by its operation. Never changes attempted recipients. */
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { getOperation, type Operation } from '#features/core/operations/operations.ts'
import { releaseHeld } from '#features/sending/queue/waiting-transitions.ts'
import type { Tx } from '#platform/db/commit.ts'
import { conflict } from '#platform/errors.ts'
import {
  type Broadcast,
  type BroadcastState,
  findBroadcastOfOperation,
  listRestoredBroadcasts,
  type OnTransition,
  stateName,
  transitionBroadcast,
} from './states.ts'

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
