/**
 * @module Claims due recipients of a lane for delivery, and ends recipients without an attempt: those that cannot be
 * routed, those whose deadline has come, and those that were claimed when the process died.
 */
import type { Database } from 'bun:sqlite'
import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import { findSendingBlock } from '#features/core/accounts/pause.ts'
import type { App } from '#features/core/app/app.ts'
import { isMailRestored, RESTORED_REASON, readFence } from '#features/core/fence/restored.ts'
import { stateCode } from '#features/sending/broadcasts/states.ts'
import { addDeadLetter } from '#features/sending/dead-letters/dead-letters.ts'
import { findAttemptLogFields } from '#features/sending/queue/email.ts'
import { holdRecipient } from '#features/sending/queue/hold-transitions.ts'
import { suppressedOutcome } from '#features/sending/queue/insert.ts'
import { accountOfLane, domainOfLane } from '#features/sending/queue/lanes.ts'
import { claimDue, findInterruptedRecipients, QUEUE_START, type QueuePosition } from '#features/sending/queue/queue.ts'
import { findEmailHold, findHold } from '#features/sending/queue/queue-rules.ts'
import { hasEmailHolds } from '#features/sending/queue/settle.ts'
import type { emails, recipients } from '#features/sending/queue/tables.ts'
import {
  expireWaitingRecipient,
  findNextExpiry,
  holdWaiting,
  listExpiring,
  rejectRecipient,
} from '#features/sending/queue/waiting-transitions.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import type { routeLane } from '../sites/route.ts'
import { holdBlockedRecipient } from '../verdict/held-mail.ts'
import { computeRetryDelayMs, type Verdict, writeOutcome } from '../verdict/outcome.ts'

export type Unroutable = Exclude<Awaited<ReturnType<typeof routeLane>>, { kind: 'route' | 'pending' }>

interface QueuedRecipient {
  readonly recipientId: number
  readonly emailId: number
}

export interface ClaimedRecipient extends QueuedRecipient {
  /** Number of the attempt, from 1. */
  readonly attempt: number
  readonly mail: ClaimedMail
}

/** What decides whether a recipient may get the email, and which Worker sends it. */
export interface ClaimedMail
  extends Readonly<
    Pick<typeof emails.$inferSelect, 'accountId' | 'streamId' | 'listId' | 'broadcastId' | 'quotaMonth'> &
      Pick<typeof recipients.$inferSelect, 'address' | 'expiresAt'>
  > {
  readonly transactional: number
  /** 1: the email has a large body, and other recipients with the same. */
  readonly sharesLargeBody: number
}

/** Messages up to this size wait for no memory. */
export const SMALL_MESSAGE_BYTES = 64 * 1024

const sql = prepareStatements((db) => ({
  recipient: db.prepare<ClaimedMail, [number]>(
    `SELECT account_id AS accountId, address, transactional, stream_id AS streamId, list_id AS listId, broadcast_id AS broadcastId,
     quota_month AS quotaMonth, expires_at AS expiresAt,
     size_bytes > ${SMALL_MESSAGE_BYTES} AND recipient_count > 1 AND broadcast_id IS NULL AS sharesLargeBody
     FROM recipients JOIN emails ON emails.id = email_id WHERE recipients.id = ?`,
  ),
  broadcastState: db.prepare<{ state: number }, [number]>('SELECT state FROM broadcasts WHERE id = ?'),
}))

/** Unattempted recipients of broadcasts in these states are held. */
export const HELD_BROADCAST_STATES: ReadonlySet<number> = new Set(
  (['paused', 'cancelling', 'failing'] as const).map(stateCode),
)
/** How long such recipients are held. The hold ends earlier when the broadcast is resumed or withdraws them. */
const BROADCAST_HOLD_MS = minutes(5)
const HELD_BY_OPERATOR = 'Held by the operator of the service.'
/** Until the hold of an operator is looked up again; its release ends it earlier. */
const OPERATOR_HOLD_MS = hours(24)
/** Recipients settled in one commit when their lane is unroutable. */
const UNROUTABLE_BATCH_SIZE = 200

/**
 * Claims up to `limit` recipients that are due at `now`, unless an operator holds the lane; with `dueSince`, only those
 * that were first due at or before that time; with `canLeave`, only those for whose last sending address it returns
 * true. Recipients who were suppressed since acceptance, or whose deadline has come, are ended instead, so fewer may be
 * returned although more are due.
 * @param provider of the lane, for holds; only needed while `hasProviderRules`
 */
export function claimLane(
  app: App,
  tx: Tx,
  lane: string,
  {
    limit,
    now,
    dueSince,
    canLeave,
    isNewestFirst = false,
    provider,
  }: Pick<Parameters<typeof claimDue>[2], 'limit' | 'now' | 'dueSince' | 'canLeave' | 'isNewestFirst'> & {
    readonly provider?: string | undefined
  },
): ClaimedRecipient[] {
  if (findHold(tx.db, lane, provider)) return []
  const fence = readFence(tx.db)
  const [accountId, domain] = [accountOfLane(lane), domainOfLane(lane)]
  const hasHeldEmails = hasEmailHolds(tx.db)
  const sendingBlocks = new Map<number, string | undefined>()
  const mailOf = new Map<number, ClaimedMail>()
  const claimed = claimDue(tx, lane, {
    now,
    eventTime: app.eventTime(),
    limit,
    isNewestFirst,
    retryAt: (attempt) => now + computeRetryDelayMs(attempt, 0),
    tryEnd: (recipient) => {
      const isRestored = fence && isMailRestored(fence, { ...recipient, accountId, domain })
      if (isRestored && tryHold(app, tx, recipient, RESTORED_REASON)) return true
      const isHeld = hasHeldEmails && findEmailHold(tx.db, recipient.emailId)
      if (isHeld && tryHold(app, tx, recipient, HELD_BY_OPERATOR)) return true
      const mail = sql(tx.db).recipient.get(recipient.recipientId)
      if (!mail) return false
      mailOf.set(recipient.recipientId, mail)
      return holdOrReject(app, tx, recipient, mail, sendingBlocks)
    },
    ...(dueSince !== undefined && { dueSince }),
    ...(canLeave && { canLeave }),
  })
  return claimed.flatMap((recipient) => {
    const mail = mailOf.get(recipient.recipientId)
    return mail ? [{ ...recipient, mail }] : []
  })
}

/**
 * Ends a recipient whose deadline has come. Holds a waiting recipient whose account is blocked, or who was never
 * attempted and belongs to a paused or ending broadcast. Rejects a recipient who was suppressed since acceptance. False
 * when the recipient may be claimed.
 * @param sendingBlocks cache: why each account checked so far may not send; undefined if it may
 */
function holdOrReject(
  app: App,
  tx: Tx,
  at: QueuedRecipient,
  recipient: ClaimedMail,
  sendingBlocks: Map<number, string | undefined>,
): boolean {
  const { accountId, quotaMonth, broadcastId } = recipient
  if (hasExpired(app, recipient)) {
    endAtDeadline(app, tx, at)
    return true
  }
  if (tryHoldForAccount(app, tx, at, sendingBlocks, recipient)) return true
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
export const isUnwanted = (app: App, db: Database, mail: ClaimedMail): boolean =>
  hasExpired(app, mail) || findSuppression(db, mail) !== undefined

const hasExpired = ({ clock }: App, { expiresAt }: ClaimedMail): boolean =>
  expiresAt !== null && expiresAt <= clock.now()

const findSuppression = (db: Database, recipient: ClaimedMail): { reason: string } | undefined =>
  suppressionOf(db, {
    ...recipient,
    transactional: recipient.transactional === 1,
    listId: recipient.listId ?? undefined,
  })

/** Holds a waiting recipient whose account is blocked; else false. @param sendingBlocks cache of one transaction */
export function tryHoldForAccount(
  app: App,
  tx: Tx,
  at: QueuedRecipient,
  sendingBlocks: Map<number, string | undefined>,
  recipient: ClaimedMail | null = sql(tx.db).recipient.get(at.recipientId),
): boolean {
  // A sending block does not apply to mail that counts in no quota: captured mail, which never leaves this machine, and
  // service mail such as the notice of the pause.
  if (recipient?.quotaMonth == null) return false
  const { accountId } = recipient
  if (!sendingBlocks.has(accountId)) sendingBlocks.set(accountId, findSendingBlock(tx.db, accountId))
  const sendingBlock = sendingBlocks.get(accountId)
  return sendingBlock !== undefined && holdBlockedRecipient(app, tx, { ...at, accountId }, sendingBlock)
}

/** Holds a recipient until the cause is looked up again. False when the recipient is not waiting. */
const tryHold = (app: App, tx: Tx, at: QueuedRecipient, why: string): boolean =>
  holdRecipient(tx, { ...at, until: app.clock.now() + OPERATOR_HOLD_MS, now: app.eventTime() }, why, why)

/** Settles a batch of due recipients of an unroutable lane: they bounce or are deferred without a session. */
export async function settleUnroutable(app: App, lane: string, unroutable: Unroutable): Promise<void> {
  const verdict: Verdict =
    unroutable.kind === 'undeliverable'
      ? {
          kind: 'bounced',
          bounceType: 'hard',
          category: unroutable.category,
          rule: 'no-route',
          reply: unroutable.text,
          // Only for a null MX: the domain declares that it accepts no mail (RFC 7505 §3). A domain that does not
          // exist now may exist tomorrow.
          isAddressDead: unroutable.category === 'invalid_recipient',
        }
      : { kind: 'deferred', category: unroutable.category, rule: 'no-route', reason: unroutable.text, reply: undefined }
  // Claim and outcome are one commit, because no connection is opened between them. A claim whose outcome is missing
  // would stay in delivery until the next start.
  const settled = await app.commit.writeFromReserve((tx) => {
    const claimed = claimLane(app, tx, lane, { limit: UNROUTABLE_BATCH_SIZE, now: app.clock.now() })
    for (const recipient of claimed) writeOutcome(app, tx, { ...recipient, startedAt: undefined }, verdict, undefined)
    return claimed
  })
  for (const recipient of settled)
    app.log.info({ ...findAttemptLogFields(app.db, recipient), lane, ...verdict }, verdict.kind)
}

const EXPIRED_BATCH_SIZE = 200
/** Shorter than the shortest `expires_in`, so that each deadline is known before it comes. */
const LOOKUP_INTERVAL_MS = seconds(30)

/** Ends a waiting recipient whose deadline has come, with a dead letter. */
function endAtDeadline(app: App, tx: Tx, at: QueuedRecipient): void {
  const now = app.eventTime()
  const lastError = expireWaitingRecipient(tx, { ...at, now })
  if (lastError !== undefined) addDeadLetter(tx, { ...at, reason: 'expired', lastError, at: now })
}

export function startDeadlineLoop(app: App): DueLoop {
  const { clock, log } = app
  return startDueLoop({
    name: 'deadlines',
    clock,
    log,
    async step() {
      const now = clock.now()
      const expiring = listExpiring(app.db, now, EXPIRED_BATCH_SIZE)
      if (expiring.length > 0)
        await app.commit.writeFromReserve((tx) => {
          for (const recipient of expiring) endAtDeadline(app, tx, recipient)
        })
      if (expiring.length === EXPIRED_BATCH_SIZE) return now
      return Math.min(findNextExpiry(app.db, now) ?? Infinity, now + LOOKUP_INTERVAL_MS)
    },
  })
}

/** Open recipients examined at once; the interrupted ones are settled in one transaction. */
const RECOVERED_BATCH_SIZE = 1000

const INTERRUPTED: Verdict = {
  kind: 'uncertain',
  reason: 'The service ended while the message was being sent, so the receiver may have it',
}

export async function recoverInterrupted(app: App): Promise<{ requeued: number; uncertain: number }> {
  let requeued = 0
  let uncertain = 0
  let after: QueuePosition | undefined = QUEUE_START
  while (after) {
    const { interrupted, place } = findInterruptedRecipients(app.db, after, RECOVERED_BATCH_SIZE)
    if (interrupted.length === 0) await yieldToEventLoop()
    else
      await app.commit.writeFromReserve((tx) => {
        for (const { id, emailId, deliveryStartedAt } of interrupted) {
          const attempt = { recipientId: id, emailId, attempt: 1, startedAt: deliveryStartedAt ?? undefined }
          writeOutcome(app, tx, attempt, deliveryStartedAt === null ? { kind: 'released' } : INTERRUPTED, undefined)
        }
      })
    const begun = interrupted.filter(({ deliveryStartedAt }) => deliveryStartedAt !== null).length
    uncertain += begun
    requeued += interrupted.length - begun
    after = place
  }
  return { requeued, uncertain }
}
