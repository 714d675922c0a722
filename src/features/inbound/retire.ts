/** @module Inbound emails in order of their age, for retention. A webhook that was not told of one by the time it goes is not told. */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import { prepared } from '#platform/db/open.ts'
import type { RemovableInbound } from './inbound-emails.ts'

/** An inbound email as retention needs it. */
export interface OldInbound extends RemovableInbound {
  readonly createdAt: Millis
}

const SELECT = `SELECT id, account_id AS accountId, headers_ref AS headersRef, text_ref AS textRef, html_ref AS htmlRef, attachments, raw_ref AS rawRef,
  created_at AS createdAt FROM inbound_emails`

const sql = prepared((db) => ({
  after: db.prepare<OldInbound, [number, number]>(`${SELECT} WHERE id > ? ORDER BY id LIMIT ?`),
  byId: db.prepare<OldInbound, [number]>(`${SELECT} WHERE id = ?`),
}))

/** Inbound emails after a row id, in order; a row id grows with created_at. */
export const inboundAfter = (db: Database, id: number, limit: number): OldInbound[] => sql(db).after.all(id, limit)

export const oldInbound = (db: Database, id: number): OldInbound | undefined => sql(db).byId.get(id) ?? undefined
