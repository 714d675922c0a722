/** @module Inbound emails in order of their age, for retention. A webhook that was not told of one by the time it goes is not told. */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { ContentRef } from '#platform/content/store.ts'
import { prepared } from '#platform/db/open.ts'
import type { RemovableInbound } from './inbound-emails.ts'

/** An inbound email as retention needs it. */
export interface OldInbound extends RemovableInbound {
  readonly createdAt: Millis
}

const SELECT = `SELECT id, account_id AS accountId, headers_ref AS headersRef, text_ref AS textRef, html_ref AS htmlRef, attachments, raw_ref AS rawRef,
  created_at AS createdAt FROM inbound_emails`

interface Row extends Omit<OldInbound, 'attachments'> {
  /** JSON. */
  readonly attachments: string
}

const sql = prepared((db) => ({
  after: db.prepare<Row, [number, number]>(`${SELECT} WHERE id > ? ORDER BY id LIMIT ?`),
  byId: db.prepare<Row, [number]>(`${SELECT} WHERE id = ?`),
  waiting: db.prepare<{ ref: ContentRef | null }, []>('SELECT min(raw_ref) AS ref FROM inbound_receipts'),
}))

/** Inbound emails after a row id, in order; a row id grows with created_at. */
export const inboundAfter = (db: Database, id: number, limit: number): OldInbound[] =>
  sql(db).after.all(id, limit).map(parsed)

export function oldInbound(db: Database, id: number): OldInbound | undefined {
  const row = sql(db).byId.get(id)
  return row ? parsed(row) : undefined
}

/** The oldest raw message that is still to be processed; undefined: none is. */
export const oldestWaitingRef = (db: Database): ContentRef | undefined => sql(db).waiting.get()?.ref ?? undefined

const parsed = (row: Row): OldInbound => ({
  ...row,
  attachments: JSON.parse(row.attachments) as OldInbound['attachments'],
})
