/**
 * @module Stores the attempts that did not end as `sent`, with their dialogues, and reads all attempts of an email. The
 * only writer of `attempts`, except when an account is deleted. Bounded in rows and bytes per recipient.
 */
import type { Database } from 'bun:sqlite'
import { type EventData, type EventType, toEventCode, toEventType } from '#features/core/events/record.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'

/** Attempts stored per recipient; older ones are deleted. */
const MAX_ATTEMPTS = 10
/** The newest attempts of a recipient that keep their dialogue. */
const MAX_DIALOGUES = 3

export interface StoredAttempt {
  readonly recipientId: number
  readonly address: string
  /** From 1; begins again when a dead letter is retried. */
  readonly number: number
  /** delivered, deferred, bounced, failed or uncertain. */
  readonly type: EventType
  readonly at: Millis
  readonly data: EventData
  readonly dialogue: string | null
}

interface Row extends Omit<StoredAttempt, 'type' | 'data'> {
  readonly type: number
  readonly data: string | null
}

const DELIVERED = toEventCode('delivered')

/** All attempts of email ?1. A `delivered` event without a server is no attempt: a DSN confirmed the delivery. */
const ALL_ATTEMPTS = `SELECT recipient_id AS recipientId, number, type, at, data, dialogue FROM attempts WHERE email_id = ?1
  UNION ALL SELECT recipient_id, attempts, type, at, data, NULL FROM events JOIN recipients ON recipients.id = recipient_id
  WHERE events.email_id = ?1 AND type = ${DELIVERED} AND data ->> '$.remote_mta' IS NOT NULL`

const sql = prepareStatements((db) => ({
  insert: db.prepare(
    'INSERT INTO attempts (email_id, recipient_id, number, type, at, data, dialogue) VALUES (?, ?, ?, ?, ?, ?, ?)',
  ),
  dropDialogues: db.prepare(
    `UPDATE attempts SET dialogue = NULL WHERE email_id = ?1 AND recipient_id = ?2 AND dialogue IS NOT NULL AND id NOT IN
     (SELECT id FROM attempts WHERE email_id = ?1 AND recipient_id = ?2 ORDER BY id DESC LIMIT ${MAX_DIALOGUES})`,
  ),
  deleteOld: db.prepare(
    `DELETE FROM attempts WHERE email_id = ?1 AND recipient_id = ?2 AND id NOT IN
     (SELECT id FROM attempts WHERE email_id = ?1 AND recipient_id = ?2 ORDER BY id DESC LIMIT ${MAX_ATTEMPTS})`,
  ),
  deleteOfEmail: db.prepare('DELETE FROM attempts WHERE email_id = ?'),
  page: db.prepare<Row, [number, number, number]>(
    `SELECT found.*, address FROM (${ALL_ATTEMPTS}) AS found JOIN recipients ON recipients.id = recipientId
     ORDER BY at DESC, recipientId DESC, number DESC LIMIT ?2 OFFSET ?3`,
  ),
  count: db.prepare<{ n: number }, [number]>(`SELECT count(*) AS n FROM (${ALL_ATTEMPTS})`),
}))

/** Stores an attempt, and deletes what a recipient has beyond its limits. */
export function storeAttempt(
  tx: Tx,
  at: { readonly emailId: number; readonly recipientId: number; readonly now: Millis },
  attempt: {
    readonly number: number
    readonly type: EventType
    readonly data: EventData
    readonly dialogue: string | undefined
  },
): void {
  const { emailId, recipientId } = at
  const { insert, dropDialogues, deleteOld } = sql(tx.db)
  const { number, type, data, dialogue } = attempt
  insert.run(emailId, recipientId, number, toEventCode(type), at.now, JSON.stringify(data), dialogue ?? null)
  // Not decided by the number of the attempt, which begins again when a dead letter is retried.
  dropDialogues.run(emailId, recipientId)
  deleteOld.run(emailId, recipientId)
}

/** Deletes the attempts of an email. */
export const deleteAttempts = (tx: Tx, emailId: number): void => void sql(tx.db).deleteOfEmail.run(emailId)

/** A page of the attempts of an email, newest first, and how many it has. */
export const listAttempts = (
  db: Database,
  emailId: number,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): { readonly attempts: StoredAttempt[]; readonly total: number } => ({
  attempts: sql(db)
    .page.all(emailId, limit, offset)
    .map((row) => ({
      ...row,
      type: toEventType(row.type),
      data: JSON.parse(row.data ?? '{}') as EventData,
    })),
  total: sql(db).count.get(emailId)?.n ?? 0,
})
