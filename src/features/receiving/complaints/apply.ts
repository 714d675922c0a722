/**
 * @module What a feedback report does, inside the caller's transaction: the complaint, its event, the suppression of whoever complained, the counters.
 * The only writer of `complaints`.
 */
import type { App } from '#features/core/app/app.ts'
import { countDaily, domainOfAddress } from '#features/core/events/daily-stats.ts'
import { count, record } from '#features/core/events/record.ts'
import { countForStream } from '#features/setup/streams/reputation.ts'
import { COMPLAINT } from '#features/setup/suppression-store/check.ts'
import { suppressAfterOutcome } from '#features/setup/suppression-store/suppress.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { FeedbackReport, FeedbackType } from '#protocols/arf/report.ts'
import {
  isPossiblyDelivered,
  matchFeedbackReport,
  type ReportContext,
  type ReportedEmail,
  type ReportedRecipient,
} from './match.ts'

/** What became of a report. `why` is a sentence. */
export type ComplaintResult =
  /** A recipient complained: event, suppression, counter. */
  | {
      readonly kind: 'applied'
      readonly accountId: number
      readonly emailId: number
      readonly recipientId: number
      /** Whether the address was put on the suppression list by this. */
      readonly isSuppressed: boolean
    }
  /** It is about an email of ours, but does not say which of its recipients complained: it only counts toward the rate. */
  | { readonly kind: 'counted'; readonly accountId: number; readonly emailId: number }
  /** It is about mail of ours, and nobody complains by it, or has not complained before. */
  | { readonly kind: 'ignored'; readonly why: string }
  /** It does not say which email of ours it is about. */
  | { readonly kind: 'unmatched'; readonly why: string }

/** Where and when a report came in. */
export interface ReportOrigin extends ReportContext {
  /** The report, in the store of raw messages. */
  readonly rawRef: number
  /** Event time. */
  readonly now: Millis
}

/** Says that the mail was wanted: no complaint, only kept. */
export const NOT_SPAM: FeedbackType = 'not-spam'

/** Counter of the reports of one type; of `''` the beginning that all have. */
export const toComplaintMetric = (type: FeedbackType | ''): string => `complaint:${type}`

interface ComplaintRow {
  readonly id: number
  readonly feedbackType: FeedbackType
  readonly recipientId: number | null
  readonly feedbackLoop: string | null
  readonly rawRef: number | null
  readonly createdAt: Millis
}

const sql = prepareStatements((db) => ({
  insert: db.prepare<{ id: number }, (string | number | null)[]>(
    `INSERT INTO complaints (account_id, email_id, recipient_id, feedback_type, feedback_loop, reporter, raw_ref, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id`,
  ),
  prove: db.prepare('UPDATE complaints SET feedback_loop = ? WHERE id = ? AND feedback_loop IS NULL'),
  ofEmail: db.prepare<ComplaintRow, [number]>(
    `SELECT id, feedback_type AS feedbackType, recipient_id AS recipientId, feedback_loop AS feedbackLoop, raw_ref AS rawRef,
     created_at AS createdAt FROM complaints WHERE email_id = ? ORDER BY id`,
  ),
  erasedOf: db.prepare<{ id: number }, [number, string]>(
    'SELECT id FROM recipients WHERE email_id = ? AND address = ? LIMIT 1',
  ),
  delete: db.prepare('DELETE FROM complaints WHERE id = ?'),
}))

/** Writes what a feedback report says. Never throws for what is in it. */
export function applyComplaint(app: App, tx: Tx, report: FeedbackReport, at: ReportOrigin): ComplaintResult {
  const matched = matchFeedbackReport({ db: tx.db, keys: app.keys }, report, at)
  switch (matched.kind) {
    case 'ignored':
    case 'unmatched':
      return matched
    case 'matched': {
      const { email, recipient } = matched
      const refusal = checkReportable(email, isPossiblyDelivered(recipient))
      if (refusal) return refusal
      return report.feedbackType === NOT_SPAM
        ? storeNotSpamReport(tx, { email, recipient, report, at })
        : applyRecipientComplaint(app, tx, email, recipient, report, at)
    }
    case 'email': {
      const { email, recipients } = matched
      return (
        checkReportable(email, recipients.some(isPossiblyDelivered)) ??
        countEmailComplaint(tx, { email, recipient: undefined, report, at })
      )
    }
  }
}

const ignored = (why: string): ComplaintResult => ({ kind: 'ignored', why })

/** Nobody can complain about what nobody got. */
function checkReportable({ sandbox }: ReportedEmail, isPossiblyDelivered: boolean): ComplaintResult | undefined {
  if (sandbox === 1) return ignored('The email was captured in the sandbox and sent to nobody.')
  return isPossiblyDelivered ? undefined : ignored('The email was not delivered to whom it speaks of.')
}

function applyRecipientComplaint(
  app: App,
  tx: Tx,
  email: ReportedEmail,
  recipient: ReportedRecipient,
  report: FeedbackReport,
  at: ReportOrigin,
): ComplaintResult {
  if (!storeComplaint(tx, { email, recipient, report, at })) {
    addProofToEarlier(tx, { email, recipient, report, at })
    return ignored('This recipient has complained about the email before.')
  }
  const { accountId } = email
  const { address } = recipient
  record(tx, {
    accountId,
    type: 'complained',
    at: at.now,
    emailId: email.id,
    recipientId: recipient.id,
    data: { complainer: address, feedback_type: report.feedbackType },
  })
  const isSuppressed = suppressAfterOutcome(app, tx, email, { address, reason: COMPLAINT })
  return { kind: 'applied', accountId, emailId: email.id, recipientId: recipient.id, isSuppressed }
}

interface NewComplaint {
  readonly email: ReportedEmail
  /** Undefined: the report does not say. */
  readonly recipient: ReportedRecipient | undefined
  readonly report: FeedbackReport
  readonly at: ReportOrigin
}

/** Whoever knows the Message-ID can send such a report again and again: an email has no more of each kind than it has recipients. */
function countEmailComplaint(tx: Tx, complaint: NewComplaint): ComplaintResult {
  const { email, report, at } = complaint
  const similar = findSimilarRows(tx, complaint)
  if (similar.some(({ rawRef }) => rawRef === at.rawRef)) return ignored('The report was counted before.')
  if (similar.length >= email.recipientCount) {
    addProofToEarlier(tx, complaint)
    return ignored('As many reports were counted as the email has recipients.')
  }
  insertComplaint(tx, complaint)
  if (report.feedbackType === NOT_SPAM) return ignored(NOT_SPAM_REASON)
  return { kind: 'counted', accountId: email.accountId, emailId: email.id }
}

/** What anybody can make up must not keep out the report of a provider: it lends its proof to one that was stored without. */
function addProofToEarlier(tx: Tx, complaint: NewComplaint): void {
  const { recipient, at } = complaint
  if (at.feedbackLoop === undefined) return
  const unproven = findSimilarRows(tx, complaint).find(
    ({ recipientId, feedbackLoop }) => feedbackLoop === null && recipientId === (recipient?.id ?? null),
  )
  if (unproven) sql(tx.db).prove.run(at.feedbackLoop, unproven.id)
}

const NOT_SPAM_REASON = 'It says that the email is not spam, which is kept.'

/** Once a recipient. */
function storeNotSpamReport(tx: Tx, notSpamReport: NewComplaint): ComplaintResult {
  const isStored = findSimilarRows(tx, notSpamReport).some(
    ({ recipientId }) => recipientId === notSpamReport.recipient?.id,
  )
  if (!isStored) storeComplaint(tx, notSpamReport)
  return ignored(NOT_SPAM_REASON)
}

/** What was stored of the email before: complaints of all types for a complaint, praise for praise. Oldest first. */
const findSimilarRows = (tx: Tx, { email, report }: NewComplaint): ComplaintRow[] =>
  sql(tx.db)
    .ofEmail.all(email.id)
    .filter(({ feedbackType }) => (feedbackType === NOT_SPAM) === (report.feedbackType === NOT_SPAM))

/**
 * Stores what is known of one recipient; false when he has complained before. It is told whatever was counted before it, so when there is no place for it,
 * one that names nobody gives way.
 */
function storeComplaint(tx: Tx, complaint: NewComplaint): boolean {
  const earlier = findSimilarRows(tx, complaint)
  if (!insertComplaint(tx, complaint)) return false
  const anonymous = earlier
    .filter(({ recipientId }) => recipientId === null)
    .sort((a, b) => Number(a.feedbackLoop !== null) - Number(b.feedbackLoop !== null))[0]
  if (earlier.length >= complaint.email.recipientCount && anonymous) {
    sql(tx.db).delete.run(anonymous.id)
    countReport(tx, complaint.email, undefined, anonymous, -1)
  }
  return true
}

const MAX_REPORTER_LENGTH = 200

/** False when the recipient has complained before. */
function insertComplaint(tx: Tx, { email, recipient, report, at }: NewComplaint): boolean {
  const { feedbackType, userAgent, reportingMta } = report
  // The report returns the email, with the address of everybody who got it.
  const isErased = sql(tx.db).erasedOf.get(email.id, ERASED_ADDRESS) !== null
  const inserted = sql(tx.db).insert.get(
    email.accountId,
    email.id,
    recipient?.id ?? null,
    feedbackType,
    at.feedbackLoop ?? null,
    (userAgent ?? reportingMta)?.slice(0, MAX_REPORTER_LENGTH) ?? null,
    isErased ? null : at.rawRef,
    at.now,
  )
  if (inserted) countReport(tx, email, recipient, { feedbackType, createdAt: at.now }, 1)
  return inserted !== null
}

/** In the account's counter of the type, in the figures of the email's stream, and in those of the day. */
function countReport(
  tx: Tx,
  email: ReportedEmail,
  recipient: ReportedRecipient | undefined,
  { feedbackType, createdAt }: Pick<ComplaintRow, 'feedbackType' | 'createdAt'>,
  delta: 1 | -1,
): void {
  count(tx, email.accountId, toComplaintMetric(feedbackType), createdAt, delta)
  if (feedbackType === NOT_SPAM) return
  countForStream(tx, email, 'complained', createdAt, delta)
  const domain = recipient && domainOfAddress(recipient.address)
  countDaily(tx, { accountId: email.accountId, domain, at: createdAt }, 'complaints', delta)
}
