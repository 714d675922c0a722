/**
 * @module Settles recipients that were claimed when the process crashed. Those whose DATA had begun may have arrived
 * and become `uncertain`; the others return to the queue immediately, without counting an attempt. Runs before any
 * delivery.
 */
import type { App } from '#features/core/app/app.ts'
import { findInterruptedRecipients } from '#features/sending/queue/queue.ts'
import { writeOutcome } from './outcome.ts'

export interface RecoveryResult {
  readonly requeued: number
  readonly uncertain: number
}

/** Recipients settled in one transaction. */
const BATCH_SIZE = 500

export async function recoverInterrupted(app: App): Promise<RecoveryResult> {
  const interrupted = findInterruptedRecipients(app.db)
  let uncertain = 0
  for (let from = 0; from < interrupted.length; from += BATCH_SIZE) {
    const batch = interrupted.slice(from, from + BATCH_SIZE)
    await app.commit.writeFromReserve((tx) => {
      for (const { id, emailId, deliveryStartedAt } of batch) {
        const attempt = { recipientId: id, emailId, attempt: 1, startedAt: deliveryStartedAt ?? undefined }
        if (deliveryStartedAt === null) writeOutcome(app, tx, attempt, { kind: 'released' }, undefined)
        else {
          const reason = 'The service ended while the message was being sent, so the receiver may have it'
          writeOutcome(app, tx, attempt, { kind: 'uncertain', reason }, undefined)
          uncertain++
        }
      }
    })
  }
  return { requeued: interrupted.length - uncertain, uncertain }
}
