/** @module The status of an email or recipient as the reader sees it. Pure. */
import type { EmailDetail, EmailRecipient, EmailRow } from '#features/sending/emails/model.ts'
import { isCaptured } from './sentence.ts'

const WAITING: readonly string[] = ['queued', 'processing']

/** A recipient that waits for another attempt was deferred; a captured email was not delivered. */
export function toShownRecipientStatus(email: Pick<EmailDetail, 'sandbox'>, recipient: EmailRecipient): string {
  const { status, attempts, smtp_response: reply } = recipient
  if (status === 'queued' && attempts > 0) return 'deferred'
  return status === 'sent' && isCaptured(email, reply) ? 'captured' : status
}

type StatusFields = Pick<EmailRow, 'sandbox' | 'status' | 'attempts' | 'next_retry_at' | 'smtp_response'>

/** As the status of its recipients; of several, one that waits for another attempt decides. */
export function toShownStatus(email: StatusFields): string {
  const { status, attempts, next_retry_at: next, smtp_response: reply } = email
  if (WAITING.includes(status) && attempts > 0 && next) return 'deferred'
  return status === 'sent' && isCaptured(email, reply) ? 'captured' : status
}
