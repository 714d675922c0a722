/** @module What the statuses of emails mean, for operators. Pure. */
import type { Status } from '#features/sending/queue/status.ts'

const STATUS_MEANINGS: Readonly<Record<Status, string>> = {
  queued: 'waiting for its first attempt or a retry',
  scheduled: 'waiting for its scheduled time',
  processing: 'being sent, or only some recipients are final',
  sent: 'accepted by the receiving server',
  bounced: 'rejected permanently, or not delivered in time',
  failed: 'could not be sent; see the dead letters',
  rejected: 'not sent, because its recipients are suppressed',
  cancelled: 'cancelled before it was sent',
  uncertain: 'the connection broke before the final reply, so the receiver may have it; see the dead letters',
}

/** @param isSandbox whether it was captured or simulated; then no receiving server accepted it */
export const describeStatus = (status: Status, isSandbox: boolean): string =>
  `${status}: ${isSandbox && status === 'sent' ? 'captured or simulated on this machine, not sent' : STATUS_MEANINGS[status]}`
