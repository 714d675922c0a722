/**
 * @module The written table of an email's states and moves. Its named functions, and those of `broadcast-moves`, are the only writers of `emails.status`
 * and of the recipients' delivery state; each moves by compare-and-set, with its event and counters, inside the caller's transaction.
 *
 * recipient: scheduled|queued → processing (claim) → sent | bounced | failed | uncertain | queued again (defer, release)
 *            scheduled → cancelled; scheduled|queued → rejected (suppressed; also from the beginning)
 *            scheduled|queued → cancelled (of a broadcast, and never tried)
 *            bounced|failed|uncertain → queued (retry from the dead letters)
 *            sent|uncertain → bounced, uncertain → sent (what a delivery report tells later)
 * email:     that of its recipient; with several the worst once all are final, `processing` while only some are.
 */
import type { Millis } from '#platform/clock.ts'
import { codesOf } from '#platform/db/codes.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { countDaily, type DailyField, domainOfAddress } from '../events/figures.ts'
import { count, type EventData, type EventType, record } from '../events/record.ts'
import { countFigure, type StreamFigure } from '../streams/figures.ts'

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

export const RECIPIENT_KINDS = ['to', 'cc', 'bcc'] as const
export type RecipientKind = (typeof RECIPIENT_KINDS)[number]

const OPEN: ReadonlySet<Status> = new Set<Status>(['queued', 'scheduled', 'processing'])
export const isOpen = (status: Status): boolean => OPEN.has(status)

/** Worst first: the final status of an email with several recipients. */
const WORST_FIRST: readonly Status[] = ['failed', 'uncertain', 'bounced', 'sent', 'cancelled', 'rejected']

/**
 * The status of an email from those of its recipients. Suppressed (rejected) recipients count only when all are.
 */
export function emailStatus(recipients: readonly Status[]): Status {
  if (recipients.length === 1 && recipients[0]) return recipients[0]
  if (recipients.some(isOpen)) {
    if (recipients.every((s) => s === 'scheduled' || s === 'rejected')) return 'scheduled'
    // Also when a deferral made one queued whose others still wait for their time.
    return recipients.every((s) => s === 'queued' || s === 'scheduled' || s === 'rejected') ? 'queued' : 'processing'
  }
  return WORST_FIRST.find((status) => recipients.includes(status)) ?? 'failed'
}

/** What identifies the email of a move. */
export interface EmailRow {
  readonly id: number
  readonly accountId: number
  readonly status: number
  readonly recipientCount: number
  readonly createdAt: Millis
  /** 1: it is captured, and says nothing of the account's reputation. */
  readonly sandbox: number
  readonly streamId: number
  /** Null: it is of no broadcast. */
  readonly broadcastId: number | null
}

/** What is selected from `emails` for an `EmailRow`. */
export const EMAIL_ROW = `id, account_id AS accountId, status, recipient_count AS recipientCount, created_at AS createdAt, sandbox,
  stream_id AS streamId, broadcast_id AS broadcastId`

/** Rows of `recipients` that nothing has happened to yet: neither an attempt nor a hold. */
export const NEVER_TRIED = `recipients.status IN (0, 1) AND attempts = 0 AND recipients.last_error IS NULL`

interface DueRow {
  readonly id: number
  readonly emailId: number
  readonly status: number
  readonly attempts: number
  readonly neverTried: number
}

/** A recipient whose move succeeded. */
interface Moved {
  readonly address: string
}

const DUE = `recipients.id, email_id AS emailId, recipients.status, attempts, ${NEVER_TRIED} AS neverTried`

const sql = prepared((db) => ({
  email: db.prepare<EmailRow, [number]>(`SELECT ${EMAIL_ROW} FROM emails WHERE id = ?`),
  recipientStatuses: db.prepare<{ status: number }, [number]>('SELECT status FROM recipients WHERE email_id = ?'),
  setEmailStatus: db.prepare('UPDATE emails SET status = ?, updated_at = ? WHERE id = ? AND status = ?'),
  setDelivered: db.prepare('UPDATE emails SET delivered_at = ? WHERE id = ? AND delivered_at IS NULL'),
  setScheduled: db.prepare('UPDATE emails SET scheduled_at = ?, updated_at = ? WHERE id = ?'),
  due: db.prepare<DueRow, [string, number, number]>(
    `SELECT ${DUE} FROM recipients WHERE lane = ? AND next_at <= ? AND status <> 2 ORDER BY next_at LIMIT ?`,
  ),
  dueAndOld: db.prepare<DueRow, [string, number, number, number]>(
    `SELECT ${DUE} FROM recipients JOIN emails ON emails.id = email_id
     WHERE lane = ? AND next_at <= ? AND recipients.status <> 2 AND coalesce(retry_from, scheduled_at, created_at) <= ? ORDER BY next_at LIMIT ?`,
  ),
  claim: db.prepare(
    'UPDATE recipients SET status = ?, attempts = attempts + 1, next_at = ? WHERE id = ? AND next_at IS NOT NULL AND status IN (?, ?)',
  ),
  hold: db.prepare('UPDATE recipients SET status = ?, next_at = ?, last_error = ? WHERE id = ? AND status IN (?, ?)'),
  dueCount: db.prepare<{ n: number }, [string, number, number]>(
    'SELECT COUNT(*) AS n FROM (SELECT 1 FROM recipients WHERE lane = ? AND next_at <= ? AND status <> 2 LIMIT ?)',
  ),
  begin: db.prepare('UPDATE recipients SET delivery_started_at = ? WHERE id = ? AND status = ?'),
  defer: db.prepare(
    `UPDATE recipients SET status = ?, next_at = ?, delivery_started_at = NULL, smtp_response = ?, last_error = ?, sending_ip = ?
     WHERE id = ? AND status = ?`,
  ),
  release: db.prepare<{ neverTried: number }, [number, number, number, number]>(
    `UPDATE recipients SET status = ?, next_at = ?, delivery_started_at = NULL, attempts = attempts - 1 WHERE id = ? AND status = ?
     RETURNING ${NEVER_TRIED} AS neverTried`,
  ),
  neverTried: db.prepare<{ id: number }, [number]>(`SELECT id FROM recipients WHERE id = ? AND ${NEVER_TRIED}`),
  finish: db.prepare<Moved, (string | number | null)[]>(
    `UPDATE recipients SET status = ?, lane = NULL, next_at = NULL, delivery_started_at = ?, delivered_at = ?, smtp_response = ?, last_error = ?,
     sending_ip = ?, bounce_type = ?, bounce_category = ? WHERE id = ? AND status = ? RETURNING address`,
  ),
  reject: db.prepare<Moved, [number, string, number, number, number]>(
    `UPDATE recipients SET status = ?, lane = NULL, next_at = NULL, smtp_response = NULL, last_error = ?, sending_ip = NULL
     WHERE id = ? AND status IN (?, ?) RETURNING address`,
  ),
  cancel: db.prepare<Moved, [number, number, number]>(
    'UPDATE recipients SET status = ?, lane = NULL, next_at = NULL WHERE email_id = ? AND status = ? RETURNING address',
  ),
  retry: db.prepare(
    `UPDATE recipients SET status = ?, lane = ?, next_at = ?, retry_from = ?, attempts = 0, delivery_started_at = NULL, bounce_type = NULL, bounce_category = NULL
     WHERE id = ? AND status = ?`,
  ),
  bounceLate: db.prepare<Moved, (string | number | null)[]>(
    `UPDATE recipients SET status = ?, delivery_started_at = NULL, delivered_at = NULL, smtp_response = ?, last_error = ?, bounce_type = ?,
     bounce_category = ? WHERE id = ? AND status IN (?, ?) RETURNING address`,
  ),
  confirm: db.prepare<Moved, [number, Millis, string | null, number, number]>(
    'UPDATE recipients SET status = ?, delivered_at = ?, smtp_response = ?, last_error = NULL WHERE id = ? AND status = ? RETURNING address',
  ),
  deliveredAt: db.prepare<{ at: number | null }, [number]>('SELECT delivered_at AS at FROM recipients WHERE id = ?'),
  resetDelivered: db.prepare(
    'UPDATE emails SET delivered_at = (SELECT min(delivered_at) FROM recipients WHERE email_id = emails.id) WHERE id = ?',
  ),
  interrupted: db.prepare<{ id: number; emailId: number; lane: string; deliveryStartedAt: number | null }, [number]>(
    `SELECT id, email_id AS emailId, lane, delivery_started_at AS deliveryStartedAt FROM recipients
     WHERE next_at IS NOT NULL AND status = ?`,
  ),
  lanes: db.prepare<{ lane: string; firstAt: number; waiting: number }, []>(
    'SELECT lane, MIN(next_at) AS firstAt, COUNT(*) AS waiting FROM recipients WHERE next_at IS NOT NULL GROUP BY lane',
  ),
  laneFirst: db.prepare<{ firstAt: number | null }, [string]>(
    'SELECT MIN(next_at) AS firstAt FROM recipients WHERE lane = ? AND next_at IS NOT NULL AND status <> 2',
  ),
}))

/** The email of a move. Throws `NotProcessing` when it is gone. */
export const emailOf = (tx: Tx, emailId: number): EmailRow => {
  const email = sql(tx.db).email.get(emailId)
  if (!email) throw new NotProcessing(`email ${emailId} does not exist`)
  return email
}

/** An outcome for a recipient that is no longer claimed, or gone: writing it again can never succeed. */
export class NotProcessing extends Error {}

/** Counts an email under a status in the hour it was accepted: the totals of lists, and the books that `tassis check` audits. */
export const countStatus = (
  tx: Tx,
  email: Pick<EmailRow, 'accountId' | 'createdAt'>,
  status: Status,
  delta: number,
): void => count(tx, email.accountId, `email:${status}`, email.createdAt, delta)

/** Adds to a figure of the email's stream, unless the email is only captured. */
export function countOfStream(tx: Tx, email: EmailRow, figure: StreamFigure, at: Millis, delta = 1): void {
  if (email.sandbox === 0) countFigure(tx, email, figure, at, delta)
}

/** Adds to a figure of the day of `at` and the recipient's domain, unless the email is only captured. */
export function countOfDay(
  tx: Tx,
  email: EmailRow,
  { address }: Moved,
  field: DailyField,
  at: Millis,
  delta = 1,
): void {
  if (email.sandbox === 0)
    countDaily(tx, { accountId: email.accountId, domain: domainOfAddress(address), at }, field, delta)
}

/** A recipient whose mail was accepted gets none of it after all. */
export function countUnsent(tx: Tx, email: EmailRow, recipient: Moved): void {
  countOfStream(tx, email, 'sent', email.createdAt, -1)
  countOfDay(tx, email, recipient, 'sent', email.createdAt, -1)
}

/**
 * Total of the recipients of a broadcast that delivery has begun with: tried, held back by their receiver, or over. How many of those handed over still
 * wait is the difference.
 */
export const begunMetric = (broadcastId: number): string => `broadcast:${broadcastId}:begun`

/** Adds to `begunMetric` when the email is of a broadcast. */
export function countBegun(tx: Tx, { accountId, broadcastId }: EmailRow, delta: 1 | -1): void {
  if (broadcastId !== null) count(tx, accountId, begunMetric(broadcastId), 0, delta)
}

/** Moves the email to what its recipients say, of which `changed` is what one of them became. */
export function settleEmail(tx: Tx, email: EmailRow, changed: Status, now: Millis): void {
  const next =
    email.recipientCount === 1
      ? changed
      : emailStatus(
          sql(tx.db)
            .recipientStatuses.all(email.id)
            .map((row) => statusName(row.status)),
        )
  const code = statusCode(next)
  if (code === email.status) return
  const moved = sql(tx.db).setEmailStatus.run(code, now, email.id, email.status)
  if (moved.changes !== 1) throw new Error(`email ${email.id} is not ${statusName(email.status)}`)
  countStatus(tx, email, statusName(email.status), -1)
  countStatus(tx, email, next, 1)
}

/** When the earliest of each lane's open recipients is due, and how many wait. Reads the whole index: at the start and for `tassis queue`. */
export const openLanes = (db: Tx['db']): { lane: string; firstAt: Millis; waiting: number }[] => sql(db).lanes.all()

/** When the lane's next recipient is due; undefined when it has none. */
export const laneFirstDue = (db: Tx['db'], lane: string): Millis | undefined =>
  sql(db).laneFirst.get(lane)?.firstAt ?? undefined

/** How many recipients of a lane are due at `now`, counted up to `limit`. */
export const countDue = (db: Tx['db'], lane: string, now: Millis, limit: number): number =>
  sql(db).dueCount.get(lane, now, limit)?.n ?? 0

/**
 * Claims up to `limit` due recipients of a lane: stores the attempt and when it would be due again if the process died now. A scheduled email
 * becomes queued first, with its event. Returns their ids in order of time.
 * @param due.retryAt due time after the given attempt (1 is the first)
 * @param due.dueSince only those that were first due at this time or before
 * @param due.ends asked before each claim; true when it ended the recipient instead
 */
export function claimDue(
  tx: Tx,
  lane: string,
  due: Claim,
): { recipientId: number; emailId: number; attempt: number }[] {
  const claimed: { recipientId: number; emailId: number; attempt: number }[] = []
  // What is ended or put off has left the places of what comes behind it: whoever has much of it must not hold up the rest of the lane.
  for (let looked = 0; ; ) {
    const page = claimPage(tx, lane, { ...due, limit: due.limit - claimed.length })
    claimed.push(...page.claimed)
    looked += page.looked
    if (page.ended === 0 || claimed.length >= due.limit || looked >= MOST_LOOKED_AT) break
  }
  return claimed
}

interface Claim {
  now: Millis
  eventTime: Millis
  limit: number
  retryAt: (attempt: number) => Millis
  dueSince?: Millis
  ends?: (recipient: { recipientId: number; emailId: number }) => boolean
}

/** Recipients looked at in one claim, beyond which it goes on only as far as the limit: some 20 ms. */
const MOST_LOOKED_AT = 200

function claimPage(tx: Tx, lane: string, due: Claim) {
  const statements = sql(tx.db)
  const claimed: { recipientId: number; emailId: number; attempt: number }[] = []
  let ended = 0
  const rows =
    due.dueSince === undefined
      ? statements.due.all(lane, due.now, due.limit)
      : statements.dueAndOld.all(lane, due.now, due.dueSince, due.limit)
  for (const row of rows) {
    const attempt = row.attempts + 1
    const from = statusName(row.status)
    if (from === 'processing') continue // Claimed before and still running: its time of retry came, but it is in hand.
    if (due.ends?.({ recipientId: row.id, emailId: row.emailId })) {
      ended++
      continue
    }
    const { changes } = statements.claim.run(
      statusCode('processing'),
      due.retryAt(attempt),
      row.id,
      statusCode('queued'),
      statusCode('scheduled'),
    )
    if (changes !== 1) continue
    const email = emailOf(tx, row.emailId)
    if (row.neverTried === 1) countBegun(tx, email, 1)
    if (statusName(email.status) === 'scheduled')
      record(tx, { accountId: email.accountId, type: 'queued', at: due.eventTime, emailId: email.id })
    settleEmail(tx, email, 'processing', due.eventTime)
    claimed.push({ recipientId: row.id, emailId: row.emailId, attempt })
  }
  return { claimed, ended, looked: rows.length }
}

/**
 * Puts up to `limit` due recipients of a lane off, because nobody there would let us in: no attempt, but one `deferred` event each, so that what
 * waits long says why and until when. Returns how many were looked at.
 * @param hold.waits asked before each; true when it put the recipient off for another reason instead
 */
export function holdDue(
  tx: Tx,
  lane: string,
  hold: {
    now: Millis
    eventTime: Millis
    until: Millis
    reason: string
    limit: number
    waits?: (recipient: { recipientId: number; emailId: number }) => boolean
  },
): number {
  const statements = sql(tx.db)
  const rows = statements.due.all(lane, hold.now, hold.limit)
  for (const row of rows) {
    if (hold.waits?.({ recipientId: row.id, emailId: row.emailId })) continue
    statements.hold.run(
      statusCode('queued'),
      hold.until,
      hold.reason,
      row.id,
      statusCode('queued'),
      statusCode('scheduled'),
    )
    const email = emailOf(tx, row.emailId)
    if (row.neverTried === 1) countBegun(tx, email, 1)
    const at = { accountId: email.accountId, at: hold.eventTime, emailId: email.id }
    if (statusName(email.status) === 'scheduled') record(tx, { ...at, type: 'queued' })
    record(tx, {
      ...at,
      type: 'deferred',
      recipientId: row.id,
      data: { reason: hold.reason, next_retry_at: hold.until },
    })
    settleEmail(tx, email, 'queued', hold.eventTime)
  }
  return rows.length
}

/**
 * Notes that the DATA phase begins: from the commit of this on, a crash leaves the recipient `uncertain`. Again within an attempt when a session
 * ended before any octet and the next host is at its 354. False when the recipient is not claimed.
 */
export function beginDelivery(tx: Tx, recipientId: number, now: Millis): boolean {
  return sql(tx.db).begin.run(now, recipientId, statusCode('processing')).changes === 1
}

export interface AttemptFacts {
  readonly smtpResponse?: string | undefined
  readonly lastError?: string | undefined
  readonly sendingIp?: string | undefined
  readonly data?: EventData | undefined
}

/** A claimed recipient that was not accepted and will be tried again at `nextAt`: one `deferred` event. */
export function deferRecipient(
  tx: Tx,
  at: { recipientId: number; emailId: number; nextAt: Millis; now: Millis; reason: string },
  facts: AttemptFacts,
): void {
  const email = emailOf(tx, at.emailId)
  const { changes } = sql(tx.db).defer.run(
    statusCode('queued'),
    at.nextAt,
    facts.smtpResponse ?? null,
    facts.lastError ?? null,
    facts.sendingIp ?? null,
    at.recipientId,
    statusCode('processing'),
  )
  if (changes !== 1) throw new NotProcessing(`recipient ${at.recipientId} is not processing`)
  record(tx, {
    accountId: email.accountId,
    type: 'deferred',
    at: at.now,
    emailId: email.id,
    recipientId: at.recipientId,
    data: { ...facts.data, reason: at.reason, next_retry_at: at.nextAt },
  })
  settleEmail(tx, email, 'queued', at.now)
}

/**
 * Gives a claimed recipient back as if it had never been claimed: its attempt did not happen, and what the one before ended with stays. No
 * event.
 */
export function releaseRecipient(tx: Tx, recipientId: number, emailId: number, nextAt: Millis, now: Millis): void {
  const released = sql(tx.db).release.get(statusCode('queued'), nextAt, recipientId, statusCode('processing'))
  if (!released) return
  const email = emailOf(tx, emailId)
  if (released.neverTried === 1) countBegun(tx, email, -1)
  settleEmail(tx, email, 'queued', now)
}

export interface FinalOutcome extends AttemptFacts {
  readonly status: 'sent' | 'bounced' | 'failed' | 'rejected' | 'uncertain'
  /** Kept for `sent` and `uncertain`; any definite non-acceptance sets it to null in the same transaction. */
  readonly deliveryStartedAt?: Millis | undefined
  readonly bounceType?: 'hard' | 'soft' | undefined
  readonly bounceCategory?: string | undefined
}

/** Counter of those `delivered` that were only captured: figures of reputation leave them out. */
export const SANDBOX_DELIVERED_METRIC = 'sandbox:delivered'

const EVENTS_OF: Record<FinalOutcome['status'], readonly EventType[]> = {
  sent: ['sent', 'delivered'],
  bounced: ['bounced'],
  failed: ['failed'],
  rejected: ['rejected'],
  uncertain: ['uncertain'],
}

/** Ends a claimed recipient: its final status, the event or events of it, the email's status. */
export function finishRecipient(
  tx: Tx,
  at: { recipientId: number; emailId: number; now: Millis },
  outcome: FinalOutcome,
): void {
  const email = emailOf(tx, at.emailId)
  const isSent = outcome.status === 'sent'
  const keepsStart = isSent || outcome.status === 'uncertain'
  const moved = sql(tx.db).finish.get(
    statusCode(outcome.status),
    keepsStart ? (outcome.deliveryStartedAt ?? null) : null,
    isSent ? at.now : null,
    outcome.smtpResponse ?? null,
    outcome.lastError ?? null,
    outcome.sendingIp ?? null,
    outcome.bounceType ?? null,
    outcome.bounceCategory ?? null,
    at.recipientId,
    statusCode('processing'),
  )
  if (!moved) throw new NotProcessing(`recipient ${at.recipientId} is not processing`)
  for (const type of EVENTS_OF[outcome.status]) {
    // `sent` says only that the session accepted it; what the receiver answered is told by `delivered`.
    const data = type === 'sent' ? undefined : outcome.data
    record(tx, {
      accountId: email.accountId,
      type,
      at: at.now,
      emailId: email.id,
      recipientId: at.recipientId,
      ...(data && { data }),
    })
  }
  if (isSent) sql(tx.db).setDelivered.run(at.now, email.id)
  if (isSent && email.sandbox === 1) count(tx, email.accountId, SANDBOX_DELIVERED_METRIC, at.now, 1)
  if (isSent) countDelivered(tx, email, moved, at.now)
  if (outcome.status === 'bounced') countBounced(tx, email, moved, at.now, outcome.bounceType === 'hard')
  if (outcome.status === 'rejected') countUnsent(tx, email, moved)
  settleEmail(tx, email, outcome.status, at.now)
}

function countDelivered(tx: Tx, email: EmailRow, recipient: Moved, at: Millis, delta: 1 | -1 = 1): void {
  countOfStream(tx, email, 'delivered', at, delta)
  countOfDay(tx, email, recipient, 'delivered', at, delta)
}

function countBounced(tx: Tx, email: EmailRow, recipient: Moved, at: Millis, isHard: boolean): void {
  if (isHard) countOfStream(tx, email, 'bounced', at)
  countOfDay(tx, email, recipient, 'bounced', at)
}

/** Ends a waiting recipient without an attempt: one `rejected` event. */
export function rejectRecipient(
  tx: Tx,
  at: { recipientId: number; emailId: number; now: Millis },
  { lastError, data }: { lastError: string; data: EventData },
): void {
  const email = emailOf(tx, at.emailId)
  if (email.broadcastId !== null && sql(tx.db).neverTried.get(at.recipientId)) countBegun(tx, email, 1)
  const moved = sql(tx.db).reject.get(
    statusCode('rejected'),
    lastError,
    at.recipientId,
    statusCode('queued'),
    statusCode('scheduled'),
  )
  if (!moved) throw new Error(`recipient ${at.recipientId} is not waiting`)
  record(tx, {
    accountId: email.accountId,
    type: 'rejected',
    at: at.now,
    emailId: email.id,
    recipientId: at.recipientId,
    data,
  })
  countUnsent(tx, email, moved)
  settleEmail(tx, email, 'rejected', at.now)
}

/** Cancels a scheduled email. Returns how many recipients that were; 0 when it is not (or no longer) scheduled. */
export function cancelScheduled(tx: Tx, email: EmailRow, now: Millis): number {
  if (statusName(email.status) !== 'scheduled') return 0
  const moved = sql(tx.db).cancel.all(statusCode('cancelled'), email.id, statusCode('scheduled'))
  if (moved.length === 0) return 0
  record(tx, { accountId: email.accountId, type: 'cancelled', at: now, emailId: email.id })
  for (const recipient of moved) countUnsent(tx, email, recipient)
  settleEmail(tx, email, 'cancelled', now)
  return moved.length
}

/**
 * Puts a finished recipient back into the queue, with a new time until expiry: the explicit decision behind a dead letter's retry. False when it
 * is not in `from`.
 */
export function requeueFinished(
  tx: Tx,
  at: { recipientId: number; emailId: number; lane: string; nextAt: Millis; now: Millis; from: Status },
): boolean {
  const { changes } = sql(tx.db).retry.run(
    statusCode('queued'),
    at.lane,
    at.nextAt,
    at.nextAt,
    at.recipientId,
    statusCode(at.from),
  )
  if (changes !== 1) return false
  const email = emailOf(tx, at.emailId)
  record(tx, { accountId: email.accountId, type: 'queued', at: at.now, emailId: email.id, recipientId: at.recipientId })
  settleEmail(tx, email, 'queued', at.now)
  return true
}

/**
 * A receiver that had taken a message, or may have, reports that it will not be delivered: one `bounced` event, and the delivery that was noted is
 * taken back. False when the recipient is neither sent nor uncertain (any more); then nothing changes.
 */
export function bounceLate(
  tx: Tx,
  at: { recipientId: number; emailId: number; now: Millis },
  outcome: Omit<AttemptFacts, 'sendingIp'> & { readonly bounceType: 'hard' | 'soft'; readonly bounceCategory: string },
): boolean {
  const deliveredAt = sql(tx.db).deliveredAt.get(at.recipientId)?.at
  const moved = sql(tx.db).bounceLate.get(
    statusCode('bounced'),
    outcome.smtpResponse ?? null,
    outcome.lastError ?? null,
    outcome.bounceType,
    outcome.bounceCategory,
    at.recipientId,
    statusCode('sent'),
    statusCode('uncertain'),
  )
  if (!moved) return false
  const email = emailOf(tx, at.emailId)
  record(tx, {
    accountId: email.accountId,
    type: 'bounced',
    at: at.now,
    emailId: email.id,
    recipientId: at.recipientId,
    ...(outcome.data && { data: outcome.data }),
  })
  sql(tx.db).resetDelivered.run(email.id)
  // Uncertain mail had not been counted as delivered.
  if (typeof deliveredAt === 'number') countDelivered(tx, email, moved, deliveredAt, -1)
  countBounced(tx, email, moved, at.now, outcome.bounceType === 'hard')
  settleEmail(tx, email, 'bounced', at.now)
  return true
}

/** A receiver reports that it has an uncertain message: the events of a delivery. False when the recipient is not uncertain (any more). */
export function confirmUncertain(
  tx: Tx,
  at: { recipientId: number; emailId: number; now: Millis },
  facts: Pick<AttemptFacts, 'smtpResponse' | 'data'>,
): boolean {
  const moved = sql(tx.db).confirm.get(
    statusCode('sent'),
    at.now,
    facts.smtpResponse ?? null,
    at.recipientId,
    statusCode('uncertain'),
  )
  if (!moved) return false
  const email = emailOf(tx, at.emailId)
  const event = { accountId: email.accountId, at: at.now, emailId: email.id, recipientId: at.recipientId }
  record(tx, { ...event, type: 'sent' })
  record(tx, { ...event, type: 'delivered', ...(facts.data && { data: facts.data }) })
  sql(tx.db).setDelivered.run(at.now, email.id)
  countDelivered(tx, email, moved, at.now)
  settleEmail(tx, email, 'sent', at.now)
  return true
}

/** Recipients that were claimed when the process ended. Only meaningful before delivery starts. */
export const interruptedRecipients = (
  db: Tx['db'],
): { id: number; emailId: number; lane: string; deliveryStartedAt: Millis | null }[] =>
  sql(db).interrupted.all(statusCode('processing'))
