/**
 * @module Applies DSNs (RFC 3464) to recipients: late bounces correct a status, other reports resolve an uncertain one.
 * A report changes one recipient at most once, however often it arrives.
 */
import type { App } from '#features/core/app/app.ts'
import { resolveDeadLetter } from '#features/sending/dead-letters/resolve.ts'
import { suppressRecipient } from '#features/sending/delivery/verdict/outcome.ts'
import { bounceLate, confirmUncertain } from '#features/sending/queue/late-transitions.ts'
import { findEmailLogFields } from '#features/sending/queue/names.ts'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import type { Tx } from '#platform/db/commit.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { Dsn, DsnRecipient } from '#protocols/dsn/report.ts'
import { classifyFailure } from './classify-failure.ts'
import { type MatchedRecipient, matchDeliveryReport } from './match.ts'

export type BounceResult =
  | { readonly kind: 'applied'; readonly recipient: ChangedRecipient }
  /** The report is about our mail and changes nothing. `why` is a sentence. */
  | { readonly kind: 'ignored'; readonly why: string }
  /** Nothing changes yet: our session with the receiver has not ended. A later attempt may succeed. */
  | { readonly kind: 'early'; readonly why: string }
  /** The report names no email, or one that it may not change. */
  | { readonly kind: 'unmatched'; readonly why: string }

export interface ChangedRecipient {
  readonly recipientId: number
  readonly emailId: number
  readonly accountId: number
  readonly status: 'bounced' | 'sent'
}

export interface BounceContext {
  /** Proven by the MAC of the return path that received the report. */
  readonly recipientId?: number | undefined
  /** Account whose address received the report: only its emails may change. */
  readonly accountId?: number | undefined
  /** Event time. */
  readonly now: Millis
}

/** Applies a report inside the caller's transaction. Report content never makes it throw. */
export function applyBounce(app: App, tx: Tx, report: Dsn, at: BounceContext): BounceResult {
  const matched = matchDeliveryReport({ db: tx.db, keys: app.keys }, report, at)
  if (matched.kind !== 'matched') return matched
  if (isEarly(matched.recipient, matched.reported)) return { kind: 'early', why: EARLY_REASON }
  const result = applyToRecipient(app, tx, matched.recipient, matched.reported, at.now)
  if (typeof result === 'string') return { kind: 'ignored', why: result }
  const { emailId, recipientId, status } = result
  tx.afterCommit(() =>
    app.log.info(
      { ...findEmailLogFields(app.db, emailId), recipient: recipientId, status, reply: matched.reported.diagnostic },
      'delivery report applied',
    ),
  )
  return { kind: 'applied', recipient: result }
}

const EARLY_REASON = 'The receiver has the message, and our session with it has not ended yet.'

/** A receiver may forward the message and learn of the failure before its 250 reaches us; the 250 may never arrive. */
const isEarly = ({ sandbox, status, startedAt }: MatchedRecipient, { action }: DsnRecipient): boolean =>
  sandbox === 0 &&
  statusName(status) === 'processing' &&
  startedAt !== null &&
  action !== 'delayed' &&
  action !== 'none'

/** Returns what changed, or a sentence that says why nothing did. */
function applyToRecipient(
  app: App,
  tx: Tx,
  recipient: MatchedRecipient,
  reported: DsnRecipient,
  now: Millis,
): ChangedRecipient | string {
  if (recipient.sandbox === 1) return 'The report is about sandbox mail, which was never sent.'
  const status = statusName(recipient.status)
  switch (reported.action) {
    case 'delayed':
      return 'The report announces a delay only.'
    case 'none':
      return 'The report states neither failure nor delivery.'
    case 'failed':
      return applyFailure(app, tx, recipient, reported, now)
        ? toChangedRecipient(recipient, 'bounced')
        : describeSettled(status)
    case 'delivered':
    case 'relayed':
    case 'expanded':
      return confirmDelivery(tx, recipient, reported, now)
        ? toChangedRecipient(recipient, 'sent')
        : describeSettled(status)
  }
}

const describeSettled = (status: Status): string => `The recipient is already ${status}.`

const toChangedRecipient = (
  { recipientId, emailId, accountId }: MatchedRecipient,
  status: 'bounced' | 'sent',
): ChangedRecipient => ({ recipientId, emailId, accountId, status })

function applyFailure(app: App, tx: Tx, recipient: MatchedRecipient, reported: DsnRecipient, now: Millis): boolean {
  const { recipientId, emailId } = recipient
  const { diagnostic } = reported
  const { bounceType, bounceCategory, rule, isPermanentlyInvalid } = classifyFailure(reported)
  const reason = `The receiver reported later that delivery failed: ${diagnostic ?? reported.status ?? 'no reason given'}`
  const isBounced = bounceLate(
    tx,
    { recipientId, emailId, now },
    {
      bounceType,
      bounceCategory,
      ...(!isErased(recipient) && { lastError: reason, smtpResponse: diagnostic ?? undefined }),
      data: {
        ...(!isErased(recipient) && { ...toEventData(reported), reason }),
        bounce_type: bounceType,
        bounce_category: bounceCategory,
        rule,
        ...(isPermanentlyInvalid && { suppressed: true }),
      },
    },
  )
  if (!isBounced) return false
  resolveDeadLetter(tx, recipientId)
  if (isPermanentlyInvalid) suppressRecipient(app, tx, recipient)
  return true
}

function confirmDelivery(tx: Tx, recipient: MatchedRecipient, reported: DsnRecipient, now: Millis): boolean {
  const { recipientId, emailId } = recipient
  const facts = isErased(recipient)
    ? {}
    : { smtpResponse: reported.diagnostic ?? undefined, data: toEventData(reported) }
  if (!confirmUncertain(tx, { recipientId, emailId, now }, facts)) return false
  resolveDeadLetter(tx, recipientId)
  return true
}

/** Diagnostic texts nearly always contain the address. */
const isErased = ({ address }: MatchedRecipient): boolean => address === ERASED_ADDRESS

const toEventData = ({ diagnostic, remoteMta }: DsnRecipient) => ({
  smtp_response: diagnostic,
  remote_mta: remoteMta,
  diagnostic_code: diagnostic === null ? null : `${SMTP_REPLY.test(diagnostic) ? 'smtp' : 'unknown'}; ${diagnostic}`,
})

const SMTP_REPLY = /^[245]\d\d[ -]/
