/**
 * @module Deletes ended broadcasts for retention: the sources of a broadcast together with the content of its emails,
 * its row after the last of its emails. Never changes an open broadcast.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { count, readCounter } from '#features/core/events/record.ts'
import { begunMetric } from '#features/sending/queue/settle.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import { stateCode } from './states.ts'
import type { broadcasts } from './tables.ts'

export type RetainedBroadcast = Readonly<
  Pick<
    typeof broadcasts.$inferSelect,
    'id' | 'accountId' | 'operationId' | 'state' | 'htmlRef' | 'textRef' | 'createdAt' | 'updatedAt'
  >
>

const SELECT = `SELECT id, account_id AS accountId, operation_id AS operationId, state, html_ref AS htmlRef, text_ref AS textRef, created_at AS createdAt,
  updated_at AS updatedAt FROM broadcasts`

const sql = prepareStatements((db) => ({
  after: db.prepare<RetainedBroadcast, [number, number]>(`${SELECT} WHERE id > ? ORDER BY id LIMIT ?`),
  byId: db.prepare<RetainedBroadcast, [number]>(`${SELECT} WHERE id = ?`),
  ofOperation: db.prepare<{ id: number }, [number]>('SELECT id FROM broadcasts WHERE operation_id = ?'),
  dropRefs: db.prepare('UPDATE broadcasts SET html_ref = NULL, text_ref = NULL WHERE id = ?'),
  delete: db.prepare('DELETE FROM broadcasts WHERE id = ?'),
}))

/** Broadcasts after a row id, in order; row ids grow with created_at. */
export const listBroadcastsAfter = (db: Database, id: number, limit: number): RetainedBroadcast[] =>
  sql(db).after.all(id, limit)

export const findRetainedBroadcast = (db: Database, id: number): RetainedBroadcast | undefined =>
  sql(db).byId.get(id) ?? undefined

/** Whether the broadcast of an operation still has its row. */
export const hasBroadcast = (db: Database, operationId: number): boolean =>
  sql(db).ofOperation.get(operationId) !== null

export const hasBroadcastEndedBefore = ({ state, updatedAt }: RetainedBroadcast, time: Millis): boolean =>
  state > stateCode('failing') && updatedAt < time

/** Drops the references of a broadcast to its sources; call it after its emails have dropped theirs. */
export function dropBroadcastContent(app: App, tx: Tx, { id, htmlRef, textRef }: RetainedBroadcast): void {
  if (htmlRef === null && textRef === null) return
  sql(tx.db).dropRefs.run(id)
  dropContent(app, tx, { content: [htmlRef, textRef] })
}

/** Deletes a broadcast that has no emails left, and its counter. */
export function deleteBroadcast(app: App, tx: Tx, broadcast: RetainedBroadcast): void {
  const metric = begunMetric(broadcast.id)
  const begun = readCounter(tx.db, broadcast.accountId, metric, 0)
  if (begun !== 0) count(tx, broadcast.accountId, metric, 0, -begun)
  dropContent(app, tx, { content: [broadcast.htmlRef, broadcast.textRef] })
  sql(tx.db).delete.run(broadcast.id)
}
