/** @module Reads stored events and webhooks over a read-only connection, beside the service or after its death. */
import type { Database } from 'bun:sqlite'
import { type EventType, toEventType } from '#features/core/events/record.ts'
import { type DeliveryStatus, deliveryStatusName } from '#features/webhooks/webhooks/event-names.ts'

export interface StoredEvent {
  readonly seq: number
  readonly type: EventType
}

export interface StoredDelivery {
  readonly seq: number
  readonly status: DeliveryStatus
  readonly attempts: number
}

export interface StoredWebhook {
  readonly isActive: boolean
  readonly cursorSeq: number
  readonly deliveries: ReadonlyMap<number, StoredDelivery>
  /** Events that have more than one delivery. */
  readonly twice: readonly number[]
}

/** Reads the events of the only account after the sequence number `after`. */
export const readStoredEvents = (db: Database, after: number): StoredEvent[] =>
  db
    .query<{ seq: number; type: number }, [number]>('SELECT seq, type FROM events WHERE seq > ? ORDER BY seq')
    .all(after)
    .map(({ seq, type }) => ({ seq, type: toEventType(type) }))

/** Reads the webhook with this URL and its history. */
export function readStoredWebhook(db: Database, url: string): StoredWebhook {
  const row = db
    .query<{ id: number; isActive: number; cursorSeq: number }, [string]>(
      'SELECT id, is_active AS isActive, cursor_seq AS cursorSeq FROM webhooks WHERE url = ?',
    )
    .get(url)
  if (!row) throw new Error(`there is no webhook for ${url}`)
  const rows = db
    .query<{ seq: number; status: number; attempts: number }, [number]>(
      'SELECT seq, status, attempts FROM webhook_deliveries WHERE webhook_id = ? ORDER BY id',
    )
    .all(row.id)
  const deliveries = new Map<number, StoredDelivery>()
  const twice: number[] = []
  for (const { seq, status, attempts } of rows) {
    if (deliveries.has(seq)) twice.push(seq)
    deliveries.set(seq, { seq, status: deliveryStatusName(status), attempts })
  }
  return { isActive: row.isActive === 1, cursorSeq: row.cursorSeq, deliveries, twice }
}
