/**
 * @module Takes due recipients of a lane out of the queue: claims them for an attempt, or settles them in one commit
 * when no attempt is made. Never decides how many messages a site may have in delivery.
 */
import type { Database } from 'bun:sqlite'
import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import { findSendingBlock } from '#features/core/accounts/pause.ts'
import type { App } from '#features/core/app/app.ts'
import { stateCode } from '#features/sending/broadcasts/states.ts'
import { holdWaiting } from '#features/sending/queue/broadcast-transitions.ts'
import { findLogId } from '#features/sending/queue/names.ts'
import { claimDue, deferDue } from '#features/sending/queue/queue.ts'
import { suppressedOutcome } from '#features/sending/queue/suppressed.ts'
import { rejectRecipient } from '#features/sending/queue/waiting-transitions.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { hours, minutes } from '#platform/units.ts'
import { endAtDeadline } from './deadlines.ts'
import { holdBlockedRecipient } from './held-mail.ts'
import { type Verdict, writeOutcome } from './outcome.ts'
import { computeRetryDelayMs, isRetryScheduleExhausted } from './retry-schedule.ts'
import type { routeLane } from './route.ts'

/** Why a lane has no route. */
export type Unroutable = Exclude<Awaited<ReturnType<typeof routeLane>>, { kind: 'route' }>

export type ClaimedRecipients = ReturnType<typeof claimDue>

interface Recipient {
  readonly accountId: number
  readonly address: string
  readonly transactional: number
  readonly streamId: number
  readonly listId: number | null
  readonly broadcastId: number | null
  readonly quotaMonth: number | null
  readonly expiresAt: Millis | null
}

const sql = prepareStatements((db) => ({
  recipient: db.prepare<Recipient, [number]>(
    `SELECT account_id AS accountId, address, transactional, stream_id AS streamId, list_id AS listId, broadcast_id AS broadcastId,
     quota_month AS quotaMonth, expires_at AS expiresAt FROM recipients JOIN emails ON emails.id = email_id WHERE recipients.id = ?`,
  ),
  broadcastState: db.prepare<{ state: number }, [number]>('SELECT state FROM broadcasts WHERE id = ?'),
}))

/** Unattempted recipients of broadcasts in these states are held. */
export const HELD_BROADCAST_STATES: ReadonlySet<number> = new Set(
  (['paused', 'cancelling', 'failing'] as const).map(stateCode),
)
/** How long such recipients are held. The hold ends earlier when the broadcast is resumed or withdraws them. */
const BROADCAST_HOLD_MS = minutes(5)
const HELD_BATCH_SIZE = 200
/** Recipients settled in one commit when their lane is unroutable. */
const UNROUTABLE_BATCH_SIZE = 200

/**
 * Claims up to `limit` recipients that are due at `now`; with `dueSince`, only those that were first due at or before
 * that time. Recipients who were suppressed since acceptance are rejected instead, so fewer may be returned although
 * more are due.
 */
export function claimLane(
  app: App,
  tx: Tx,
  lane: string,
  { limit, now, dueSince }: { limit: number; now: Millis; dueSince?: Millis },
): ClaimedRecipients {
  const sendingBlocks = new Map<number, string | undefined>()
  return claimDue(tx, lane, {
    now,
    eventTime: app.eventTime(),
    limit,
    retryAt: (attempt) => now + computeRetryDelayMs(attempt, 0),
    tryEnd: (recipient) => holdOrReject(app, tx, recipient, sendingBlocks),
    ...(dueSince !== undefined && { dueSince }),
  })
}

/**
 * Ends a recipient whose deadline has come. Holds a waiting recipient whose account is blocked, or who was never attempted and belongs to a paused or ending
 * broadcast. Rejects a recipient who was suppressed since acceptance. False when the recipient may be claimed.
 * @param sendingBlocks cache: why each account checked so far may not send; undefined if it may
 */
function holdOrReject(
  app: App,
  tx: Tx,
  at: { recipientId: number; emailId: number },
  sendingBlocks: Map<number, string | undefined>,
): boolean {
  const recipient = sql(tx.db).recipient.get(at.recipientId)
  if (!recipient) return false
  const { accountId, quotaMonth, broadcastId } = recipient
  if (hasExpired(app, recipient)) {
    endAtDeadline(app, tx, at)
    return true
  }
  if (holdForAccountBlock(app, tx, at, recipient, sendingBlocks)) return true
  if (broadcastId !== null && HELD_BROADCAST_STATES.has(sql(tx.db).broadcastState.get(broadcastId)?.state ?? 0)) {
    const until = app.clock.now() + BROADCAST_HOLD_MS
    if (holdWaiting(tx, { recipientId: at.recipientId, until })) return true
  }
  const found = findSuppression(tx.db, recipient)
  if (!found) return false
  rejectRecipient(tx, { ...at, now: app.eventTime() }, suppressedOutcome(found.reason))
  if (quotaMonth !== null) giveQuotaBack(tx, accountId, quotaMonth, 1)
  return true
}

/** Whether a claimed recipient must not get its message any more: it was suppressed, or its deadline has come. */
export function isUnwanted(app: App, db: Database, recipientId: number): boolean {
  const recipient = sql(db).recipient.get(recipientId)
  return recipient !== null && (hasExpired(app, recipient) || findSuppression(db, recipient) !== undefined)
}

const hasExpired = ({ clock }: App, { expiresAt }: Recipient): boolean => expiresAt !== null && expiresAt <= clock.now()

const findSuppression = (db: Database, recipient: Recipient): { reason: string } | undefined =>
  suppressionOf(db, {
    ...recipient,
    transactional: recipient.transactional === 1,
    listId: recipient.listId ?? undefined,
  })

/**
 * Holds a recipient whose account is blocked. False when the account may send, or when the recipient is not waiting.
 */
function holdForAccountBlock(
  app: App,
  tx: Tx,
  at: { recipientId: number; emailId: number },
  { accountId, quotaMonth }: { readonly accountId: number; readonly quotaMonth: number | null },
  sendingBlocks: Map<number, string | undefined>,
): boolean {
  if (!sendingBlocks.has(accountId)) sendingBlocks.set(accountId, findSendingBlock(tx.db, accountId))
  const sendingBlock = sendingBlocks.get(accountId)
  // A sending block does not apply to mail that counts in no quota: captured mail, which never leaves this machine, and
  // service mail such as the notice of the pause.
  return (
    sendingBlock !== undefined &&
    quotaMonth !== null &&
    holdBlockedRecipient(app, tx, { ...at, accountId }, sendingBlock)
  )
}

/** Settles a batch of due recipients of an unroutable lane: they bounce or are deferred without a session. */
export async function settleUnroutable(app: App, lane: string, unroutable: Unroutable): Promise<void> {
  const verdict: Verdict =
    unroutable.kind === 'undeliverable'
      ? {
          kind: 'bounced',
          bounceType: 'hard',
          category: unroutable.category,
          reply: unroutable.text,
          // Only for a null MX: the domain declares that it accepts no mail (RFC 7505 §3). A domain that does not
          // exist now may exist tomorrow.
          isAddressDead: unroutable.category === 'invalid_recipient',
        }
      : { kind: 'deferred', category: unroutable.category, reason: unroutable.text, reply: undefined }
  // Claim and outcome are one commit, because no connection is opened between them. A claim whose outcome is missing
  // would stay in delivery until the next start.
  const settled = await app.commit.writeFromReserve((tx) => {
    const claimed = claimLane(app, tx, lane, { limit: UNROUTABLE_BATCH_SIZE, now: app.clock.now() })
    for (const recipient of claimed) writeOutcome(app, tx, { ...recipient, startedAt: undefined }, verdict, undefined)
    return claimed
  })
  for (const { recipientId, emailId } of settled)
    app.log.info({ email: findLogId(app.db, emailId), recipient: recipientId, lane, ...verdict }, verdict.kind)
}

/** Holds a batch of due recipients of a lane until the backoff of the lane's site ends. Records an event for each. */
export async function holdLane(
  app: App,
  lane: string,
  { now, until, reason, siteFailures }: { now: Millis; until: Millis; reason: string; siteFailures: number },
): Promise<void> {
  const held = await app.commit.writeFromReserve((tx) => {
    expireHeld(app, tx, lane, { now, reason, siteFailures })
    const sendingBlocks = new Map<number, string | undefined>()
    const tryHold = (at: { recipientId: number; emailId: number }): boolean => {
      const recipient = sql(tx.db).recipient.get(at.recipientId)
      return recipient !== null && holdForAccountBlock(app, tx, at, recipient, sendingBlocks)
    }
    return deferDue(tx, lane, {
      now,
      eventTime: app.eventTime(),
      until,
      reason,
      limit: HELD_BATCH_SIZE,
      tryHold: tryHold,
    })
  })
  if (held > 0) app.log.info({ lane, recipients: held, reason, until: new Date(until).toISOString() }, 'held')
}

/**
 * Expires mail that is too old. The failures of a site count as attempts for all recipients that wait for the site. If
 * only the attempts of a recipient counted, recipients at a dead site would outlive their expiry by days.
 */
function expireHeld(
  app: App,
  tx: Tx,
  lane: string,
  { now, reason, siteFailures }: { now: Millis; reason: string; siteFailures: number },
): void {
  // A fast clock makes all mail look old. Therefore mail expires only when the site has failed as often as the retry
  // schedule has attempts.
  if (!isRetryScheduleExhausted(siteFailures, app.config.retryExpiryHours)) return
  const dueSince = now - hours(app.config.retryExpiryHours)
  const verdict: Verdict = { kind: 'deferred', category: 'connection_failure', reason, reply: undefined, siteFailures }
  for (const claimed of claimLane(app, tx, lane, { limit: HELD_BATCH_SIZE, now, dueSince }))
    writeOutcome(app, tx, { ...claimed, startedAt: undefined }, verdict, undefined)
}
