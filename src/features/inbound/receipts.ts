/**
 * @module The queue of what the listener took: a receipt a message, which `receive` writes, with the attempts at it. Gone with the
 * transaction that applied the message.
 */
import type { Database } from 'bun:sqlite'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'

export interface Receipt {
  readonly id: number
  readonly mailFrom: string
  readonly destinations: string
  readonly sourceIp: string
  readonly helo: string
  readonly tls: string | null
  readonly rawRef: number
  readonly sizeBytes: number
  readonly attempts: number
  readonly receivedAt: number
}

/** What decides when a message is processed. */
export type WaitingReceipt = Pick<Receipt, 'id' | 'destinations' | 'sourceIp' | 'sizeBytes' | 'attempts'>

const sql = prepared((db) => ({
  after: db.prepare<WaitingReceipt, [number, number]>(
    `SELECT id, destinations, source_ip AS sourceIp, size_bytes AS sizeBytes, attempts
     FROM inbound_receipts WHERE id > ? ORDER BY id LIMIT ?`,
  ),
  byId: db.prepare<Receipt, [number]>(
    `SELECT id, mail_from AS mailFrom, destinations, source_ip AS sourceIp, helo, tls, raw_ref AS rawRef, size_bytes AS sizeBytes, attempts,
     received_at AS receivedAt FROM inbound_receipts WHERE id = ?`,
  ),
  begin: db.prepare('UPDATE inbound_receipts SET attempts = attempts + 1 WHERE id = ?'),
  takeBack: db.prepare('UPDATE inbound_receipts SET attempts = attempts - 1 WHERE id = ?'),
  end: db.prepare('DELETE FROM inbound_receipts WHERE id = ?'),
  waiting: db.prepare<{ n: number }, []>('SELECT COUNT(*) AS n FROM inbound_receipts'),
}))

/** Messages that wait to be processed, or are being processed. */
export const countWaiting = (db: Database): number => sql(db).waiting.get()?.n ?? 0

/** The oldest receipts above an id. */
export const receiptsAfter = (db: Database, id: number, limit: number): WaitingReceipt[] => sql(db).after.all(id, limit)

export const findReceipt = (db: Database, id: number): Receipt | undefined => sql(db).byId.get(id) ?? undefined

/** Counts an attempt. */
export function beginReceipt(tx: Tx, id: number): void {
  sql(tx.db).begin.run(id)
}

/** An attempt that was none. */
export function takeBackReceipt(tx: Tx, id: number): void {
  sql(tx.db).takeBack.run(id)
}

/** Takes a message that was processed out of the queue; throws when it is not there. */
export function endReceipt(tx: Tx, receiptId: number): void {
  if (sql(tx.db).end.run(receiptId).changes !== 1) throw new Error(`receipt ${receiptId} is not in the queue`)
}
