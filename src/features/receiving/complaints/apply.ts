/**
 * @module Applies a feedback report (ARF) inside the caller's transaction: the complaint, its event, the suppression
 * and the counters. The only writer of `complaints`.
 */

import type { App } from '#features/core/app/app.ts'
import { countDaily, domainOfAddress } from '#features/core/events/daily-stats.ts'
import { count } from '#features/core/events/record.ts'
import { countProviderComplaint } from '#features/sending/delivery/providers/daily-outcomes.ts'
import { findEmailLogFields } from '#features/sending/queue/email.ts'
import { recordEngaged } from '#features/sending/queue/settle.ts'
import { countForStream } from '#features/setup/streams/reputation.ts'
import { COMPLAINT } from '#features/setup/suppression-store/check.ts'
import { suppressAfterOutcome } from '#features/setup/suppression-store/suppress.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { insertSql, prepareStatements, type Tx } from '#platform/db/open.ts'
import type { FeedbackReport, FeedbackType } from '#protocols/arf/parse.ts'
import {
  isPossiblyDelivered,
  matchFeedbackReport,
  type ReportedEmail,
  type ReportedRecipient,
  type ReportOrigin,
} from './match.ts'
import type { complaints } from './tables.ts'

/** Outcome of a report. `why` is a sentence. */
export type ComplaintResult =
  /** A recipient complained: event, suppression and counter were written. */
  | { readonly kind: 'applied'; readonly recipientId: number }
  /** The report is about our email but does not identify the recipient: it only counts towards the rate. */
  | { readonly kind: 'counted'; readonly emailId: number }
  /** The report is about our mail but is no complaint, or repeats one. */
  | { readonly kind: 'ignored'; readonly why: string }
  /** The report does not identify an email of ours. */
  | { readonly kind: 'unmatched'; readonly why: string }

/** The recipient marked the mail as wanted: stored, but no complaint. */
export const NOT_SPAM: FeedbackType = 'not-spam'

/** Metric that counts reports of one type; `''` returns the common prefix. */
export const toComplaintMetric = (type: FeedbackType | ''): string => `complaint:${type}`

type ComplaintColumn = 'id' | 'recipientId' | 'feedbackLoop' | 'rawRef' | 'createdAt'

interface ComplaintRow extends Readonly<Pick<typeof complaints.$inferSelect, ComplaintColumn>> {
  readonly feedbackType: FeedbackType
}

const sql = prepareStatements((db) => ({
  insert: db.prepare<{ id: number }, [Record<string, string | number | null>]>(
    `${insertSql('complaints', 'accountId emailId recipientId feedbackType feedbackLoop reporter rawRef createdAt')}
     ON CONFLICT DO NOTHING RETURNING id`,
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

/** Applies a feedback report. Report content never makes it throw. */
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
      const complaint = { email, recipient, report, at }
      return report.feedbackType === NOT_SPAM
        ? storeNotSpamReport(tx, complaint)
        : applyRecipientComplaint(app, tx, complaint)
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

/** A report about mail that was not delivered is ignored. */
function checkReportable({ sandbox }: ReportedEmail, isPossiblyDelivered: boolean): ComplaintResult | undefined {
  if (sandbox === 1) return ignored('The email was captured in the sandbox and never sent.')
  return isPossiblyDelivered ? undefined : ignored('The email was not delivered to the reported recipient.')
}

function applyRecipientComplaint(
  app: App,
  tx: Tx,
  complaint: NewComplaint & { readonly recipient: ReportedRecipient },
): ComplaintResult {
  if (!storeComplaint(tx, complaint)) {
    addProofToEarlier(tx, complaint)
    return ignored('This recipient has already complained about the email.')
  }
  const { email, recipient, report, at } = complaint
  const { address } = recipient
  countProviderComplaint(tx, app.config, recipient, at.now)
  recordEngaged(tx, {
    accountId: email.accountId,
    type: 'complained',
    at: at.now,
    emailId: email.id,
    recipientId: recipient.id,
    data: { complainer: address, feedback_type: report.feedbackType },
  })
  suppressAfterOutcome(app, tx, email, { address, reason: COMPLAINT })
  tx.afterCommit(() =>
    app.log.info(
      { ...findEmailLogFields(app.db, email.id), recipient: recipient.id, type: report.feedbackType },
      'complaint received',
    ),
  )
  return { kind: 'applied', recipientId: recipient.id }
}

interface NewComplaint {
  readonly email: ReportedEmail
  /** Undefined: the report names no recipient. */
  readonly recipient: ReportedRecipient | undefined
  readonly report: FeedbackReport
  readonly at: ReportOrigin
}

/** Anyone who knows the Message-ID can send such reports, so at most one of each kind is stored per recipient. */
function countEmailComplaint(tx: Tx, complaint: NewComplaint): ComplaintResult {
  const { email, report, at } = complaint
  const similar = findSimilarRows(tx, complaint)
  if (similar.some(({ rawRef }) => rawRef === at.rawRef)) return ignored('The report was already counted.')
  if (similar.length >= email.recipientCount) {
    addProofToEarlier(tx, complaint)
    return ignored('The email already has as many reports as recipients.')
  }
  insertComplaint(tx, complaint)
  if (report.feedbackType === NOT_SPAM) return ignored(NOT_SPAM_REASON)
  return { kind: 'counted', emailId: email.id }
}

/** A forged report that arrived first takes over the proof of the provider's report. */
function addProofToEarlier(tx: Tx, complaint: NewComplaint): void {
  const { recipient, at } = complaint
  if (at.feedbackLoop === undefined) return
  const unproven = findSimilarRows(tx, complaint).find(
    ({ recipientId, feedbackLoop }) => feedbackLoop === null && recipientId === (recipient?.id ?? null),
  )
  if (unproven) sql(tx.db).prove.run(at.feedbackLoop, unproven.id)
}

const NOT_SPAM_REASON = 'The report states that the email is not spam; it is stored.'

/** Stored once for each recipient. */
function storeNotSpamReport(tx: Tx, notSpamReport: NewComplaint): ComplaintResult {
  const isStored = findSimilarRows(tx, notSpamReport).some(
    ({ recipientId }) => recipientId === notSpamReport.recipient?.id,
  )
  if (!isStored) storeComplaint(tx, notSpamReport)
  return ignored(NOT_SPAM_REASON)
}

/** Rows of the same email, oldest first: either complaints or not-spam reports. */
const findSimilarRows = (tx: Tx, { email, report }: NewComplaint): ComplaintRow[] =>
  sql(tx.db)
    .ofEmail.all(email.id)
    .filter(({ feedbackType }) => (feedbackType === NOT_SPAM) === (report.feedbackType === NOT_SPAM))

/**
 * Stores the complaint of a known recipient; false when that recipient has complained before. The complaint is always
 * stored: when the email already has as many complaints as recipients, one without a recipient is deleted in exchange.
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

/** Returns false when the recipient has complained before. */
function insertComplaint(tx: Tx, { email, recipient, report, at }: NewComplaint): boolean {
  const { feedbackType, userAgent, reportingMta } = report
  // After a recipient of the email was erased, the raw report is not kept, because it contains the addresses of all
  // recipients.
  const isErased = sql(tx.db).erasedOf.get(email.id, ERASED_ADDRESS) !== null
  const inserted = sql(tx.db).insert.get({
    ...{ accountId: email.accountId, emailId: email.id, recipientId: recipient?.id ?? null, feedbackType },
    ...{ feedbackLoop: at.feedbackLoop ?? null, rawRef: isErased ? null : at.rawRef, createdAt: at.now },
    reporter: (userAgent ?? reportingMta)?.slice(0, MAX_REPORTER_LENGTH) ?? null,
  })
  if (inserted) countReport(tx, email, recipient, { feedbackType, createdAt: at.now }, 1)
  return inserted !== null
}

/** Updates the account's counter of this type, the stats of the email's stream and the stats of the day. */
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
