/**
 * @module Applies delivery reports (RFC 3464) to the recipient that each is about: late bounces correct the status, and reports settle what was
 * uncertain. Each report changes a recipient at most once, however often it comes.
 */
import type { App } from '#features/core/app/app.ts'
import { resolveDeadLetter } from '#features/sending/dead-letters/resolve.ts'
import { suppressRecipient } from '#features/sending/delivery/outcome.ts'
import { bounceLate, confirmUncertain } from '#features/sending/queue/late-transitions.ts'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import type { Dsn, DsnRecipient } from '#protocols/dsn/report.ts'
import { classifyFailure } from './classify-failure.ts'
import { type MatchedRecipient, matchDeliveryReport } from './match.ts'

export type BounceResult =
  | { readonly kind: 'applied'; readonly recipient: ChangedRecipient }
  /** It is about mail of ours and changes nothing. `why` is a sentence. */
  | { readonly kind: 'ignored'; readonly why: string }
  /** It changes nothing now: our own session with the receiver has not ended. Tried again after that, it may. */
  | { readonly kind: 'early'; readonly why: string }
  /** It does not say which email it is about, or one that it must not be about. */
  | { readonly kind: 'unmatched'; readonly why: string }

export interface ChangedRecipient {
  readonly recipientId: number
  readonly emailId: number
  readonly accountId: number
  readonly status: 'bounced' | 'sent'
}

export interface BounceContext {
  /** By the MAC of the return path that it came to. */
  readonly recipientId?: number | undefined
  /** It came to an address of this account: only its emails. */
  readonly accountId?: number | undefined
  /** Event time. */
  readonly now: Millis
}

/** Applies a report inside the caller's transaction. Never throws for what the report says. */
export function applyBounce(app: App, tx: Tx, report: Dsn, at: BounceContext): BounceResult {
  const matched = matchDeliveryReport({ db: tx.db, keys: app.keys }, report, at)
  if (matched.kind !== 'matched') return matched
  if (isEarly(matched.recipient, matched.reported)) return { kind: 'early', why: EARLY_REASON }
  const result = applyToRecipient(app, tx, matched.recipient, matched.reported, at.now)
  return typeof result === 'string' ? { kind: 'ignored', why: result } : { kind: 'applied', recipient: result }
}

const EARLY_REASON = 'The receiver has its message, and the end of our session with it is not known yet.'

/** A receiver may pass a message on, and hear that it cannot be delivered, before its 250 has come to us; and we may never get that. */
const isEarly = ({ sandbox, status, startedAt }: MatchedRecipient, { action }: DsnRecipient): boolean =>
  sandbox === 0 &&
  statusName(status) === 'processing' &&
  startedAt !== null &&
  action !== 'delayed' &&
  action !== 'none'

/** What changed, or a sentence that says why nothing did. */
function applyToRecipient(
  app: App,
  tx: Tx,
  recipient: MatchedRecipient,
  reported: DsnRecipient,
  now: Millis,
): ChangedRecipient | string {
  if (recipient.sandbox === 1) return 'It is about sandbox mail, which nobody outside has seen.'
  const status = statusName(recipient.status)
  switch (reported.action) {
    case 'delayed':
      return 'It tells of a delay only.'
    case 'none':
      return 'It tells neither that it failed nor that it arrived.'
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

const describeSettled = (status: Status): string => `The recipient is ${status} already.`

const toChangedRecipient = (
  { recipientId, emailId, accountId }: MatchedRecipient,
  status: 'bounced' | 'sent',
): ChangedRecipient => ({ recipientId, emailId, accountId, status })

function applyFailure(app: App, tx: Tx, recipient: MatchedRecipient, reported: DsnRecipient, now: Millis): boolean {
  const { recipientId, emailId } = recipient
  const { diagnostic } = reported
  const { bounceType, bounceCategory, isPermanentlyInvalid: isAddressDead } = classifyFailure(reported)
  const reason = `The receiver reported later that it was not delivered: ${diagnostic ?? reported.status ?? 'it gave no reason'}`
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
      },
    },
  )
  if (!isBounced) return false
  resolveDeadLetter(tx, recipientId)
  if (isAddressDead) suppressRecipient(app, tx, recipient)
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

/** What a receiver writes names the address nearly always. */
const isErased = ({ address }: MatchedRecipient): boolean => address === ERASED_ADDRESS

const toEventData = ({ diagnostic, remoteMta }: DsnRecipient) => ({
  smtp_response: diagnostic,
  remote_mta: remoteMta,
  diagnostic_code: diagnostic === null ? null : `${SMTP_REPLY.test(diagnostic) ? 'smtp' : 'unknown'}; ${diagnostic}`,
})

const SMTP_REPLY = /^[245]\d\d[ -]/
