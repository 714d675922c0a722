/** @module Reads dead letters with data of their emails and recipients. */
import type { Database } from 'bun:sqlite'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import type { emails } from '#features/sending/queue/tables.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { belowId, type RowWindow } from '#platform/db/row-window.ts'
import { notFound } from '#platform/errors.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { deadLetters } from './tables.ts'
import type { DeadLetterReason } from './write.ts'

export interface DeadLetter
  extends Readonly<
    Omit<typeof deadLetters.$inferSelect, 'reason'> &
      Pick<typeof emails.$inferSelect, 'from' | 'subject' | 'sandbox' | 'scheduledAt'>
  > {
  readonly reason: DeadLetterReason
  readonly emailUuid: UuidBytes
  /** Message-ID that the client set; null: derived. */
  readonly messageId: string | null
  readonly isBulk: boolean
  readonly acceptedAt: Millis
  readonly to: string
  readonly status: Status
  readonly attempts: number
  readonly stream: string | null
  /** Code of the priority of its stream. */
  readonly priority: number
  /** Row id of its stream if that has a pool of outgoing addresses. */
  readonly pooledStreamId: number | null
}

interface Row extends Omit<DeadLetter, 'sandbox' | 'isBulk' | 'status'> {
  readonly sandbox: number
  readonly isBulk: number
  readonly status: number
}

const SELECT_LETTER = `SELECT dead_letters.id, dead_letters.account_id AS accountId, reason, dead_letters.last_error AS lastError, failed_at AS failedAt, recipient_id AS recipientId,
  dead_letters.email_id AS emailId, emails.uuid AS emailUuid, from_address AS "from", subject, sandbox,
  extra ->> '$.message_id' AS messageId, broadcast_id IS NOT NULL AS isBulk, scheduled_at AS scheduledAt, emails.created_at AS acceptedAt, address AS "to", recipients.status, attempts,
  streams.slug AS stream, coalesce(streams.priority, 0) AS priority,
  iif(streams.pool IS NULL, NULL, streams.id) AS pooledStreamId
  FROM dead_letters JOIN emails ON emails.id = dead_letters.email_id JOIN recipients ON recipients.id = recipient_id
  LEFT JOIN streams ON streams.id = stream_id`
const OF_ACCOUNT = 'WHERE dead_letters.account_id = ?'
/** ?1: an account, ?2: a reason, ?3: public id of an email; each null for all. */
const IS_SELECTED = `(?1 IS NULL OR dead_letters.account_id = ?1) AND (?2 IS NULL OR reason = ?2)
  AND (?3 IS NULL OR recipient_id IN (SELECT r.id FROM recipients r JOIN emails e ON e.id = r.email_id WHERE e.uuid = ?3))`

type Selection = [accountId: number | null, reason: string | null, email: Uint8Array | null]

const sql = prepareStatements((db) => ({
  newest: db.prepare<Row, [number, number]>(`${SELECT_LETTER} ${OF_ACCOUNT} ORDER BY dead_letters.id DESC LIMIT ?`),
  byId: db.prepare<Row, [number | null, number]>(
    `${SELECT_LETTER} WHERE dead_letters.account_id = coalesce(?, dead_letters.account_id) AND dead_letters.id = ?`,
  ),
  count: db.prepare<{ n: number }, [number]>('SELECT COUNT(*) AS n FROM dead_letters WHERE account_id = ?'),
  selected: db.prepare<Row, [...Selection, number, number, number]>(
    `${SELECT_LETTER} WHERE ${IS_SELECTED} AND dead_letters.id < ?4 ORDER BY dead_letters.id DESC LIMIT ?5 OFFSET ?6`,
  ),
  countSelected: db.prepare<{ n: number }, Selection>(`SELECT COUNT(*) AS n FROM dead_letters WHERE ${IS_SELECTED}`),
  ofEmail: db.prepare<Row, [number]>(
    `${SELECT_LETTER} WHERE recipient_id IN (SELECT id FROM recipients WHERE email_id = ?) ORDER BY dead_letters.id DESC`,
  ),
}))

const toDeadLetter = (row: Row): DeadLetter => ({
  ...row,
  sandbox: row.sandbox === 1,
  isBulk: row.isBulk === 1,
  status: statusName(row.status),
})

/** The newest dead letters of an account, and their total, counted in the index. */
export const listDeadLetters = (
  db: Database,
  accountId: number,
  limit: number,
): { letters: DeadLetter[]; total: number } => ({
  letters: sql(db).newest.all(accountId, limit).map(toDeadLetter),
  total: sql(db).count.get(accountId)?.n ?? 0,
})

export interface DeadLetterFilter {
  /** Undefined: all accounts. */
  readonly accountId: number | undefined
  readonly reason: DeadLetterReason | undefined
  /** Public id. */
  readonly email: UuidBytes | undefined
}

/** A page of the selected dead letters, newest first, and their total. */
export function selectDeadLetters(
  db: Database,
  { accountId, reason, email }: DeadLetterFilter,
  page: RowWindow,
): { letters: DeadLetter[]; total: number } {
  const selection = [accountId ?? null, reason ?? null, email ?? null] as const
  return {
    letters: sql(db)
      .selected.all(...selection, belowId(page), page.limit, page.offset)
      .map(toDeadLetter),
    total: sql(db).countSelected.get(...selection)?.n ?? 0,
  }
}

export const listDeadLettersOfEmail = (db: Database, emailId: number): DeadLetter[] =>
  sql(db).ofEmail.all(emailId).map(toDeadLetter)

/** The dead letter with the id from the API, of the account, if one is given; throws a 404 if there is none. */
export function getDeadLetter(db: Database, accountId: number | undefined, id: string): DeadLetter {
  const row = LETTER_ID.test(id) ? sql(db).byId.get(accountId ?? null, Number(id)) : null
  if (!row) throw notFound('dead_letter_not_found', 'Dead letter not found.')
  return toDeadLetter(row)
}

const LETTER_ID = /^[1-9]\d{0,14}$/
