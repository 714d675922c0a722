/**
 * @module Reads and claims the mail queue, which is the open rows of `recipients`: finds due lanes, claims recipients
 * for an attempt, and notes why they wait when none can be made. Never decides who may get mail, and never
 * delivers.
 */

import type { Database } from 'bun:sqlite'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { perOwner } from '#platform/per-owner.ts'
import type { Millis } from '#platform/units.ts'
import { IS_HELD, IS_WITHOUT_CONTENT } from './hold-transitions.ts'
import { countBegun, IS_NEVER_ATTEMPTED, recordDue, recordOf, requireEmail, settleEmail } from './settle.ts'
import { OPEN_CODES, statusCode, WAITING_CODES } from './status.ts'
import type { recipients } from './tables.ts'

type DueRow = Pick<typeof recipients.$inferSelect, 'id' | 'emailId' | 'attempts' | 'sendingIp'> & {
  readonly neverTried: number
}

const QUEUED = statusCode('queued')
const PROCESSING = statusCode('processing')

const DUE_COLUMNS = `recipients.id, email_id AS emailId, attempts, ${IS_NEVER_ATTEMPTED} AS neverTried, sending_ip AS sendingIp`

/** Recipients among which `hasSentFrom` searches, newest first; this takes some 20 ms. */
const MAX_HISTORY = 100_000

const sql = prepareStatements((db) => ({
  due: db.prepare<DueRow, [string, number, number]>(
    `SELECT ${DUE_COLUMNS} FROM recipients WHERE lane = ? AND next_at <= ? AND status <> ${PROCESSING} ORDER BY next_at LIMIT ?`,
  ),
  newestDue: db.prepare<DueRow, [string, number, number]>(
    `SELECT ${DUE_COLUMNS} FROM recipients WHERE lane = ? AND next_at <= ? AND status <> ${PROCESSING} ORDER BY next_at DESC, id DESC LIMIT ?`,
  ),
  dueAndOld: db.prepare<DueRow, [string, number, number, number]>(
    `SELECT ${DUE_COLUMNS} FROM recipients JOIN emails ON emails.id = email_id
     WHERE lane = ? AND next_at <= ? AND recipients.status <> ${PROCESSING} AND expires_at IS NULL
     AND coalesce(retry_from, scheduled_at, created_at) <= ? ORDER BY next_at LIMIT ?`,
  ),
  claim: db.prepare(
    `UPDATE recipients SET status = ${PROCESSING}, attempts = attempts + 1, next_at = ? WHERE id = ? AND next_at IS NOT NULL AND status IN ${WAITING_CODES}`,
  ),
  waiting: db.prepare<WaitingRecipient, [string, number, number, number, number]>(
    `SELECT recipients.id, email_id AS emailId, next_at AS nextAt, ${IS_NEVER_ATTEMPTED} AS neverTried, wait_noted_at AS notedAt
     FROM recipients WHERE lane = ? AND next_at <= ? AND (next_at, id) > (?, ?) AND status <> ${PROCESSING} ORDER BY next_at, id LIMIT ?`,
  ),
  noteWait: db.prepare(
    `UPDATE recipients SET status = ${QUEUED}, wait_noted_at = ?, last_error = ? WHERE id = ? AND next_at IS NOT NULL AND status IN ${WAITING_CODES}`,
  ),
  dueCount: db.prepare<{ n: number }, [string, number, number]>(
    `SELECT COUNT(*) AS n FROM (SELECT 1 FROM recipients WHERE lane = ? AND next_at <= ? AND status <> ${PROCESSING} LIMIT ?)`,
  ),
  interrupted: db.prepare<InterruptedRecipient, [string, number, number, string, number, number]>(
    `SELECT id, email_id AS emailId, delivery_started_at AS deliveryStartedAt FROM recipients INDEXED BY recipients_due
     WHERE next_at IS NOT NULL AND (lane, next_at, id) > (?, ?, ?) AND (lane, next_at, id) <= (?, ?, ?) AND status = ${PROCESSING}`,
  ),
  // Reads only the index.
  openLanes: db.prepare<OpenLane, [string, number, number, number]>(
    `SELECT lane, MIN(next_at) AS firstAt, COUNT(*) AS waiting FROM (
       SELECT lane, next_at FROM recipients INDEXED BY recipients_due WHERE next_at IS NOT NULL AND (lane, next_at, id) > (?, ?, ?)
       ORDER BY lane, next_at, id LIMIT ?) GROUP BY lane`,
  ),
  placeAfter: db.prepare<QueuePosition, [string, number, number, number]>(
    `SELECT lane, next_at AS nextAt, id FROM recipients INDEXED BY recipients_due WHERE next_at IS NOT NULL AND (lane, next_at, id) > (?, ?, ?)
     ORDER BY lane, next_at, id LIMIT 1 OFFSET ?`,
  ),
  // Selects the columns of the table row, which the index lacks, only for recipients due after `limitAt`.
  openAfter: db.prepare<
    QueuePosition & { attempts: number | null; isWithoutContent: number | null },
    [number, string, number, number, number]
  >(
    `SELECT id, lane, next_at AS nextAt,
     CASE WHEN next_at > ?1 AND status = ${QUEUED} AND NOT coalesce(${IS_HELD}, 0) THEN attempts END AS attempts,
     CASE WHEN next_at > ?1 THEN ${IS_WITHOUT_CONTENT} END AS isWithoutContent
     FROM recipients INDEXED BY recipients_due WHERE next_at IS NOT NULL AND (lane, next_at, id) > (?2, ?3, ?4)
     ORDER BY lane, next_at, id LIMIT ?5`,
  ),
  makeDue: db.prepare(`UPDATE recipients SET next_at = ? WHERE id = ? AND next_at = ? AND status = ${QUEUED}`),
  openOfStream: db.prepare<{ id: number }, [number, number]>(
    `SELECT id FROM emails WHERE account_id = ? AND status IN ${OPEN_CODES} AND stream_id = ? LIMIT 1`,
  ),
  first: db.prepare<{ nextAt: Millis; sendingIp: string | null; attempts: number }, [string]>(
    `SELECT next_at AS nextAt, sending_ip AS sendingIp, attempts FROM recipients
     WHERE lane = ? AND next_at IS NOT NULL AND status <> ${PROCESSING} ORDER BY next_at LIMIT 1`,
  ),
  sentFrom: db.prepare<{ id: number }, [string, string]>(
    `SELECT id FROM (SELECT id, sending_ip AS ip FROM recipients ORDER BY id DESC LIMIT ${MAX_HISTORY})
     WHERE ip = ? OR (? = '' AND ip IS NOT NULL AND ip NOT LIKE '127.%' AND ip <> '::1') LIMIT 1`,
  ),
}))

export interface OpenLane {
  readonly lane: string
  readonly firstAt: Millis
  readonly waiting: number
}

/** The place before the first open recipient. */
export const QUEUE_START: QueuePosition = { lane: '', nextAt: 0, id: 0 }
/** Index entries that are counted in one tick of the event loop; this takes some 5 ms. */
export const COUNTED_ENTRIES = 5000

/**
 * Counts up to `limit` open recipients after a place, by lane and in the order of the lanes' names. Returns where to
 * continue, which may be within the last lane; `place` is undefined at the end.
 */
export function countOpen(
  db: Tx['db'],
  after: QueuePosition,
  limit = COUNTED_ENTRIES,
): { lanes: OpenLane[]; place: QueuePosition | undefined } {
  const at = [after.lane, after.nextAt, after.id] as const
  return {
    lanes: sql(db).openLanes.all(...at, limit),
    place: sql(db).placeAfter.get(...at, limit - 1) ?? undefined,
  }
}

/** Adds counted lanes to those counted before; a lane that is in both batches is joined. */
export function joinLanes(found: OpenLane[], lanes: readonly OpenLane[]): void {
  const [first, ...others] = lanes
  const last = found.at(-1)
  if (first && last?.lane === first.lane) found[found.length - 1] = { ...last, waiting: last.waiting + first.waiting }
  else if (first) found.push(first)
  for (const lane of others) found.push(lane)
}

export const hasOpenEmail = (db: Tx['db'], accountId: number, streamId: number): boolean =>
  sql(db).openOfStream.get(accountId, streamId) !== null

/** When the earliest waiting recipient of a lane is due, how often it was attempted, and last from which address. */
export const findFirstWaiting = (db: Tx['db'], lane: string) => sql(db).first.get(lane) ?? undefined

/** Whether mail has left from an address of ours; an empty one stands for any but loopback. */
export const hasSentFrom = (db: Tx['db'], ip: string): boolean => sql(db).sentFrom.get(ip, ip) !== null

/** Counts the recipients of a lane that are due at `now`, up to `limit`. */
export const countDue = (db: Tx['db'], lane: string, now: Millis, limit: number): number =>
  sql(db).dueCount.get(lane, now, limit)?.n ?? 0

/** A recipient that was claimed when the process ended. */
export type InterruptedRecipient = Pick<typeof recipients.$inferSelect, 'id' | 'emailId' | 'deliveryStartedAt'>

/**
 * Examines up to `limit` open recipients after a place for those that were claimed when the process ended. Valid only
 * before delivery starts. `place` is undefined at the end.
 */
export function findInterruptedRecipients(
  db: Tx['db'],
  after: QueuePosition,
  limit: number,
): { interrupted: InterruptedRecipient[]; place: QueuePosition | undefined } {
  const at = [after.lane, after.nextAt, after.id] as const
  const place = sql(db).placeAfter.get(...at, limit - 1) ?? undefined
  const end = place ?? QUEUE_END
  return { interrupted: sql(db).interrupted.all(...at, end.lane, end.nextAt, end.id), place }
}

/** After every lane: names of lanes are ASCII, or begin with such a character. */
const QUEUE_END: QueuePosition = { lane: '\u{10ffff}', nextAt: 0, id: 0 }

/**
 * Claims up to `limit` due recipients of a lane. For each, counts the attempt and stores when the recipient is due
 * again if the process dies. A scheduled email becomes queued first, with its event. Returns the recipients in the
 * order of their due times.
 * @param options.retryAt returns when a recipient is due again after the attempt with the given number, from 1
 * @param options.isNewestFirst whether those that became due last are claimed, instead of those that became due first
 * @param options.dueSince only recipients without a deadline that were first due at or before this time
 * @param options.canLeave whether a recipient may be claimed now, by the address from which it was last attempted
 * @param options.tryEnd called before each claim; returns true if it ended or held the recipient
 */
export function claimDue(
  tx: Tx,
  lane: string,
  options: ClaimOptions,
): { recipientId: number; emailId: number; attempt: number }[] {
  const claimed: { recipientId: number; emailId: number; attempt: number }[] = []
  // Recipients that `tryEnd` ended or held do not count towards the limit. The loop continues after them, so that many
  // such recipients do not delay the rest of the lane.
  for (let examined = 0; ; ) {
    const batch = claimBatch(tx, lane, { ...options, limit: options.limit - claimed.length })
    claimed.push(...batch.claimed)
    examined += batch.examined
    if (batch.ended === 0 || claimed.length >= options.limit || examined >= MAX_EXAMINED) break
  }
  return claimed
}

interface ClaimOptions {
  now: Millis
  eventTime: Millis
  limit: number
  retryAt: (attempt: number) => Millis
  isNewestFirst?: boolean
  dueSince?: Millis
  canLeave?: (lastSendingIp: string | null) => boolean
  tryEnd?: (recipient: { recipientId: number; emailId: number }) => boolean
}

/** A claim stops after examining this many recipients, which takes some 20 ms, even if it has not reached its limit. */
const MAX_EXAMINED = 200

function claimBatch(tx: Tx, lane: string, options: ClaimOptions) {
  const statements = sql(tx.db)
  const claimed: { recipientId: number; emailId: number; attempt: number }[] = []
  let ended = 0
  const { now, limit, dueSince, isNewestFirst } = options
  const rows =
    dueSince === undefined
      ? statements[isNewestFirst ? 'newestDue' : 'due'].all(lane, now, limit)
      : statements.dueAndOld.all(lane, now, dueSince, limit)
  // Mail that is claimed together is sent in the order in which it became due.
  if (isNewestFirst) rows.reverse()
  for (const row of rows) {
    const attempt = row.attempts + 1
    if (options.canLeave?.(row.sendingIp) === false) continue
    if (options.tryEnd?.({ recipientId: row.id, emailId: row.emailId })) {
      ended++
      continue
    }
    if (statements.claim.run(options.retryAt(attempt), row.id).changes !== 1) continue
    const email = requireEmail(tx, row.emailId)
    if (row.neverTried === 1) countBegun(tx, email, 1)
    recordDue(tx, email, options.eventTime)
    settleEmail(tx, email, 'processing', options.eventTime)
    claimed.push({ recipientId: row.id, emailId: row.emailId, attempt })
  }
  return { claimed, ended, examined: rows.length }
}

/** A due recipient that waits for its provider or its site. */
export interface WaitingRecipient {
  readonly id: number
  readonly emailId: number
  readonly nextAt: Millis
  readonly neverTried: number
  /** When a `deferred` event said that it waits; null: never. */
  readonly notedAt: Millis | null
}

/** Reads up to `limit` recipients of a lane that are due at `dueBy` or earlier, after a position. */
export const readWaiting = (
  db: Tx['db'],
  lane: string,
  { dueBy, after, limit }: { dueBy: Millis; after: Omit<QueuePosition, 'lane'>; limit: number },
): WaitingRecipient[] => sql(db).waiting.all(lane, dueBy, after.nextAt, after.id, limit)

/**
 * Tells the sender of a due recipient why it waits: stores the reason and records a `deferred` event. Counts no attempt
 * and leaves the due time, so the recipient is attempted as soon as that is possible.
 */
export function noteWaiting(
  tx: Tx,
  row: WaitingRecipient,
  note: { now: Millis; eventTime: Millis; until: Millis; reason: string; rule: string; category: string },
): void {
  if (sql(tx.db).noteWait.run(note.now, note.reason, row.id).changes !== 1) return
  const email = requireEmail(tx, row.emailId)
  if (row.neverTried === 1) countBegun(tx, email, 1)
  recordDue(tx, email, note.eventTime)
  recordOf(tx, email, { recipientId: row.id, now: note.eventTime }, 'deferred', {
    reason: note.reason,
    next_retry_at: note.until,
    bounce_category: note.category,
    rule: note.rule,
  })
  settleEmail(tx, email, 'queued', note.eventTime)
}

export interface QueuePosition {
  readonly lane: string
  readonly nextAt: Millis
  readonly id: number
}

export interface DistantRecipient extends QueuePosition {
  readonly attempts: number
  /** Whether the recipient is held until the content of its email is available again. */
  readonly isWithoutContent: boolean
}

/**
 * Reads up to `limit` open recipients after a position. Returns those that are queued, due after `limitAt` and not held
 * for their account, and where to continue; `place` is undefined at the end.
 */
export function readDistant(
  db: Tx['db'],
  { limitAt, place, limit }: { limitAt: Millis; place: QueuePosition; limit: number },
): { late: DistantRecipient[]; place: QueuePosition | undefined } {
  const rows = sql(db).openAfter.all(limitAt, place.lane, place.nextAt, place.id, limit)
  const late = rows.flatMap(({ attempts, isWithoutContent, ...row }) =>
    attempts === null ? [] : [{ ...row, attempts, isWithoutContent: isWithoutContent === 1 }],
  )
  return { late, place: rows.length < limit ? undefined : rows.at(-1) }
}

/** Makes recipients due that are still queued, and due as when they were read; returns how many. */
export function makeDue(tx: Tx, recipients: readonly QueuePosition[], now: Millis): number {
  let count = 0
  for (const { id, nextAt } of recipients) count += sql(tx.db).makeDue.run(now, id, nextAt).changes
  return count
}

type FindRetryTime = (lane: string, due: Millis) => Millis

const finderOf = perOwner((_: Database): { find: FindRetryTime } => ({ find: (_lane, due) => due }))

/** Tells the readers of a database what delivery knows. */
export function setRetryTimes(db: Database, find: FindRetryTime): void {
  finderOf(db).find = find
}

export const findRetryTime = (db: Database, lane: string, due: Millis): Millis => finderOf(db).find(lane, due)
