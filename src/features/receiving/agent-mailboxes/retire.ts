/** @module Removes messages of mailboxes that are too old: read or not, leased or not, their age alone counts. */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { type RemovableMessage, removeMessage } from './messages.ts'

/** A message as retention needs it. */
export interface OldMessage extends RemovableMessage {
  readonly createdAt: Millis
  /** 1: its mailbox is deleted, and takes it along. */
  readonly isOfDeleted: number
}

const SELECT = `SELECT m.id, mailbox_id AS mailboxId, thread_id AS threadId, email_id AS emailId, read_at AS readAt, size_bytes AS sizeBytes, from_address AS fromAddress,
  text_ref AS textRef, stripped_ref AS strippedRef, html_ref AS htmlRef, attachments, raw_ref AS rawRef, m.created_at AS createdAt,
  deleted_at IS NOT NULL AS isOfDeleted
  FROM mailbox_messages m JOIN agent_mailboxes b ON b.id = mailbox_id`

interface Row extends Omit<OldMessage, 'attachments'> {
  /** JSON. */
  readonly attachments: string
}

const sql = prepared((db) => ({
  after: db.prepare<Row, [number, number]>(`${SELECT} WHERE m.id > ? ORDER BY m.id LIMIT ?`),
  byId: db.prepare<Row, [number]>(`${SELECT} WHERE m.id = ?`),
}))

/** Messages after a row id, in order; a row id grows with created_at. */
export const messagesAfter = (db: Database, id: number, limit: number): OldMessage[] =>
  sql(db).after.all(id, limit).map(parsed)

export function oldMessage(db: Database, id: number): OldMessage | undefined {
  const row = sql(db).byId.get(id)
  return row ? parsed(row) : undefined
}

const parsed = (row: Row): OldMessage => ({
  ...row,
  attachments: JSON.parse(row.attachments) as OldMessage['attachments'],
})

/** Removes a message; its thread and its contact go with the last of theirs. */
export function retireMessage(app: App, tx: Tx, message: OldMessage): void {
  if (message.isOfDeleted === 0) removeMessage(app, tx, message)
}
