/**
 * @module Settles recipients that were claimed when the process crashed. Those whose DATA had begun may have arrived
 * and become `uncertain`; the others return to the queue immediately, without counting an attempt. Runs before any
 * delivery.
 */
import type { App } from '#features/core/app/app.ts'
import { findInterruptedRecipients, QUEUE_START, type QueuePosition } from '#features/sending/queue/queue.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { writeOutcome } from '../verdict/outcome.ts'

export interface RecoveryResult {
  readonly requeued: number
  readonly uncertain: number
}

/** Open recipients examined at once; the interrupted ones are settled in one transaction. */
const BATCH_SIZE = 1000

export async function recoverInterrupted(app: App): Promise<RecoveryResult> {
  let requeued = 0
  let uncertain = 0
  let after: QueuePosition | undefined = QUEUE_START
  while (after) {
    const { interrupted, place } = findInterruptedRecipients(app.db, after, BATCH_SIZE)
    if (interrupted.length === 0) await yieldToEventLoop()
    else
      await app.commit.writeFromReserve((tx) => {
        for (const { id, emailId, deliveryStartedAt } of interrupted) {
          const attempt = { recipientId: id, emailId, attempt: 1, startedAt: deliveryStartedAt ?? undefined }
          if (deliveryStartedAt === null) writeOutcome(app, tx, attempt, { kind: 'released' }, undefined)
          else {
            const reason = 'The service ended while the message was being sent, so the receiver may have it'
            writeOutcome(app, tx, attempt, { kind: 'uncertain', reason }, undefined)
          }
        }
      })
    const begun = interrupted.filter(({ deliveryStartedAt }) => deliveryStartedAt !== null).length
    uncertain += begun
    requeued += interrupted.length - begun
    after = place
  }
  return { requeued, uncertain }
}
