/**
 * @module Ends recipients at their deadline (`expires_in`), whatever they wait for: a retry, a site, a blocked account,
 * missing content. Never ends an attempt in progress.
 */
import type { App } from '#features/core/app/app.ts'
import { addDeadLetter } from '#features/sending/dead-letters/add.ts'
import { expireWaitingRecipient, findNextExpiry, listExpiring } from '#features/sending/queue/waiting-transitions.ts'
import type { Tx } from '#platform/db/commit.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { seconds } from '#platform/units.ts'

/** Recipients ended in one transaction. */
const BATCH_SIZE = 200
/**
 * Interval at which new deadlines are looked up. Shorter than the shortest `expires_in`, so that each deadline is known
 * before it comes.
 */
const LOOKUP_INTERVAL_MS = seconds(30)

/** Ends a waiting recipient whose deadline has come, with a dead letter. */
export function endAtDeadline(app: App, tx: Tx, at: { readonly recipientId: number; readonly emailId: number }): void {
  const now = app.eventTime()
  const lastError = expireWaitingRecipient(tx, { ...at, now })
  if (lastError !== undefined) addDeadLetter(tx, { ...at, reason: 'expired', lastError, at: now })
}

export function startDeadlineLoop(app: App): DueLoop {
  const { clock, log } = app
  return startDueLoop({
    name: 'deadlines',
    clock,
    log,
    async step() {
      const now = clock.now()
      const expiring = listExpiring(app.db, now, BATCH_SIZE)
      if (expiring.length > 0)
        await app.commit.writeFromReserve((tx) => {
          for (const recipient of expiring) endAtDeadline(app, tx, recipient)
        })
      if (expiring.length === BATCH_SIZE) return now
      return Math.min(findNextExpiry(app.db, now) ?? Infinity, now + LOOKUP_INTERVAL_MS)
    },
  })
}
