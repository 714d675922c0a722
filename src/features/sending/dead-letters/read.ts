/** @module Reads the dead letters of an account with data of their emails and recipients. */
import type { Database } from 'bun:sqlite'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { DeadLetterReason } from './write.ts'

export interface DeadLetter {
  readonly id: number
  /** Row id of its account. */
  readonly accountId: number
  readonly reason: DeadLetterReason
  readonly lastError: string | null
  readonly failedAt: Millis
  readonly recipientId: number
  readonly emailId: number
  readonly emailUuid: UuidBytes
  readonly from: string
  /** Message-ID that the client set; null: derived. */
  readonly messageId: string | null
  readonly subject: string
  readonly sandbox: boolean
  readonly isBulk: boolean
  readonly scheduledAt: Millis | null
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
/** ?1: an account, or null for all; ?2: reasons as JSON. */
const IS_SELECTED = '(?1 IS NULL OR dead_letters.account_id = ?1) AND reason IN (SELECT value FROM json_each(?2))'

const sql = prepareStatements((db) => ({
  newest: db.prepare<Row, [number, number]>(`${SELECT_LETTER} ${OF_ACCOUNT} ORDER BY dead_letters.id DESC LIMIT ?`),
  byId: db.prepare<Row, [number, number]>(`${SELECT_LETTER} ${OF_ACCOUNT} AND dead_letters.id = ?`),
  count: db.prepare<{ n: number }, [number]>('SELECT COUNT(*) AS n FROM dead_letters WHERE account_id = ?'),
  owner: db.prepare<{ accountId: number }, [number]>('SELECT account_id AS accountId FROM dead_letters WHERE id = ?'),
  selected: db.prepare<Row, [number | null, string, number, number]>(
    `${SELECT_LETTER} WHERE ${IS_SELECTED} AND dead_letters.id < ?3 ORDER BY dead_letters.id DESC LIMIT ?4`,
  ),
  countSelected: db.prepare<{ n: number }, [number | null, string]>(
    `SELECT COUNT(*) AS n FROM dead_letters WHERE ${IS_SELECTED}`,
  ),
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
  readonly accountId?: number | undefined
  readonly reasons: readonly DeadLetterReason[]
}

/** The newest selected dead letters, and their total. @param before only letters with a lower id */
export function selectDeadLetters(
  db: Database,
  { accountId, reasons }: DeadLetterFilter,
  { before = Number.MAX_SAFE_INTEGER, limit }: { readonly before?: number | undefined; readonly limit: number },
): { letters: DeadLetter[]; total: number } {
  const selector = [accountId ?? null, JSON.stringify(reasons)] as const
  return {
    letters: sql(db)
      .selected.all(...selector, before, limit)
      .map(toDeadLetter),
    total: sql(db).countSelected.get(...selector)?.n ?? 0,
  }
}

export const listDeadLettersOfEmail = (db: Database, emailId: number): DeadLetter[] =>
  sql(db).ofEmail.all(emailId).map(toDeadLetter)

/** Row id of the account of a dead letter; throws a 404 if there is none. */
export function findDeadLetterOwner(db: Database, id: string): number {
  const row = LETTER_ID.test(id) ? sql(db).owner.get(Number(id)) : null
  if (!row) throw deadLetterNotFound()
  return row.accountId
}

const deadLetterNotFound = () => notFound('dead_letter_not_found', 'Dead letter not found.')

/** The account's dead letter with the id from the API; throws a 404 if there is none. */
export function getDeadLetter(db: Database, accountId: number, id: string): DeadLetter {
  const row = LETTER_ID.test(id) ? sql(db).byId.get(accountId, Number(id)) : null
  if (!row) throw deadLetterNotFound()
  return toDeadLetter(row)
}

const LETTER_ID = /^[1-9]\d{0,14}$/
