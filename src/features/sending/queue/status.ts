/**
 * @module The states of emails and recipients, their transitions, and their stored names. Writes nothing. Only the
 * functions of `queue`, `attempt-transitions`, `waiting-transitions`, `hold-transitions` and `erase` change a status: by
 * compare-and-set, inside the caller's transaction, with event and counters, and each calls `settleEmail` at the end.
 *
 * recipient: draft → queued|scheduled (released by a person); draft → cancelled (discarded, too old)
 *            scheduled|queued → processing (claim)
 *            processing → sent | bounced | failed | uncertain | queued (defer, release)
 *            scheduled|queued → queued (hold; no server accepts the connection)
 *            scheduled|queued → bounced (deadline)
 *            draft|scheduled|queued → rejected (suppressed, also at acceptance; erased)
 *            scheduled → cancelled; draft|scheduled|queued → cancelled (erased, account deleted, broadcast never
 *            attempted, dropped by an operator)
 *            scheduled|queued → bounced (by an operator)
 *            bounced|failed|uncertain → queued (retry from the dead letters)
 *            sent|uncertain → bounced, uncertain → sent (after a later DSN)
 * email:     that of its recipient. With several: the worst once all are final; before that `processing`, or
 *            `draft`, `scheduled` or `queued` while all wait. Rejected recipients count only if all are rejected.
 */
import { codesOf } from '#platform/db/open.ts'

/** The position is the stored code, so only append. */
export const STATUSES = [
  'queued',
  'scheduled',
  'processing',
  'sent',
  'bounced',
  'failed',
  'rejected',
  'cancelled',
  'uncertain',
  'draft',
] as const
export type Status = (typeof STATUSES)[number]

export const isStatus = (text: string): text is Status => STATUSES.some((status) => status === text)

const CODES = codesOf<Status>('status', STATUSES)
export const statusCode = CODES.codeOf
/** The status of a stored code; throws for a code that no version has stored. */
export const statusName = CODES.nameOf

/** SQL: the codes of statuses, for `IN (…)`. */
export const statusCodes = (statuses: readonly Status[]): string => statuses.map(statusCode).join(', ')

/** A stored status for display; accepts unknown codes. */
export const formatStatus = (code: string | number | null | undefined): string =>
  STATUSES[Number(code)] ?? `in the unknown status ${code}`

/**
 * SQL: recipients that wait for an attempt, for `status IN …`. A draft has no `next_at`, so that no attempt ever finds
 * it: it leaves this status only by a release.
 */
export const WAITING_CODES = `(${statusCodes(['queued', 'scheduled', 'draft'])})`
/** SQL: open recipients or emails, for `status IN …`. */
export const OPEN_CODES = `(${statusCodes(['queued', 'scheduled', 'processing', 'draft'])})`

/** The kind of notice that tells the owners of an account of its drafts. */
export const DRAFTS_KIND = 'drafts'

/** The position is the stored code, so only append. */
export const RECIPIENT_KINDS = ['to', 'cc', 'bcc'] as const
export type RecipientKind = (typeof RECIPIENT_KINDS)[number]

export const recipientKindCode = codesOf<RecipientKind>('recipient kind', RECIPIENT_KINDS).codeOf

const OPEN_STATUSES: ReadonlySet<Status> = new Set<Status>(['queued', 'scheduled', 'processing', 'draft'])
export const isOpen = (status: Status): boolean => OPEN_STATUSES.has(status)

/** Final statuses of an email with several recipients, worst first. */
const STATUSES_WORST_FIRST: readonly Status[] = ['failed', 'uncertain', 'bounced', 'sent', 'cancelled', 'rejected']

/** From its recipients. Rejected (suppressed) ones count only if all are rejected. */
export function deriveEmailStatus(recipients: readonly Status[]): Status {
  if (recipients.length === 1 && recipients[0]) return recipients[0]
  if (recipients.some(isOpen)) {
    if (recipients.every((s) => s === 'scheduled' || s === 'rejected')) return 'scheduled'
    if (recipients.every((s) => s === 'draft' || s === 'rejected')) return 'draft'
    // Also `queued` if a hold or deferral queued one recipient while others are still scheduled.
    return recipients.every((s) => s === 'queued' || s === 'scheduled' || s === 'rejected') ? 'queued' : 'processing'
  }
  return STATUSES_WORST_FIRST.find((status) => recipients.includes(status)) ?? 'failed'
}
