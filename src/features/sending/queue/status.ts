/**
 * @module The states of emails and recipients, how they change, and their names as stored. Writes nothing. Only the
 * functions of `queue`, `attempt-moves`, `waiting-moves`, `late-moves`, `broadcast-moves`, `account-moves`,
 * `content-moves`, `end-mail` and `erase` change a status: by compare-and-set, inside the caller's transaction, with
 * event and counters, and each calls `settleEmail` at the end.
 *
 * recipient: scheduled|queued → processing (claim) → sent | bounced | failed | uncertain | queued again (defer, release)
 *            scheduled → cancelled; scheduled|queued → rejected (suppressed; also from the beginning)
 *            scheduled|queued → cancelled (of a broadcast, and never tried)
 *            bounced|failed|uncertain → queued (retry from the dead letters)
 *            sent|uncertain → bounced, uncertain → sent (what a delivery report tells later)
 * email:     that of its recipient; with several the worst once all are final, `processing` while only some are.
 */
import { codesOf } from '#platform/db/codes.ts'

/** Position = the stored code: only ever append. */
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
] as const
export type Status = (typeof STATUSES)[number]

export const isStatus = (text: string): text is Status => STATUSES.some((status) => status === text)

const CODES = codesOf<Status>('status', STATUSES)
/** The stored code of a status. */
export const statusCode = CODES.codeOf
/** The status of a stored code; throws for one that no version of ours has stored. */
export const statusName = CODES.nameOf

/** SQL: the codes of statuses, for `IN (…)`. */
export const statusCodes = (statuses: readonly Status[]): string => statuses.map(statusCode).join(', ')

/** A stored status in words, also of a code that no version has stored. */
export const formatStatus = (code: string | number | null | undefined): string =>
  STATUSES[Number(code)] ?? `in the unknown status ${code}`

/** SQL: recipients that wait for an attempt, for `status IN …`. */
export const WAITING_CODES = `(${statusCodes(['queued', 'scheduled'])})`
/** SQL: what is not over, for `status IN …`. */
export const OPEN_CODES = `(${statusCodes(['queued', 'scheduled', 'processing'])})`

/** Position = the stored code: only ever append. */
export const RECIPIENT_KINDS = ['to', 'cc', 'bcc'] as const
export type RecipientKind = (typeof RECIPIENT_KINDS)[number]

/** The stored code of a recipient's kind. */
export const recipientKindCode = codesOf<RecipientKind>('recipient kind', RECIPIENT_KINDS).codeOf

const OPEN_STATUSES: ReadonlySet<Status> = new Set<Status>(['queued', 'scheduled', 'processing'])
export const isOpen = (status: Status): boolean => OPEN_STATUSES.has(status)

/** Worst first: the final status of an email with several recipients. */
const STATUSES_WORST_FIRST: readonly Status[] = ['failed', 'uncertain', 'bounced', 'sent', 'cancelled', 'rejected']

/**
 * The status of an email from those of its recipients. Suppressed (rejected) recipients count only when all are.
 */
export function deriveEmailStatus(recipients: readonly Status[]): Status {
  if (recipients.length === 1 && recipients[0]) return recipients[0]
  if (recipients.some(isOpen)) {
    if (recipients.every((s) => s === 'scheduled' || s === 'rejected')) return 'scheduled'
    // Also when a deferral made one queued whose others still wait for their time.
    return recipients.every((s) => s === 'queued' || s === 'scheduled' || s === 'rejected') ? 'queued' : 'processing'
  }
  return STATUSES_WORST_FIRST.find((status) => recipients.includes(status)) ?? 'failed'
}
