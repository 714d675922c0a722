/**
 * @module Reads the history of a webhook: every delivery with its last attempt. Never writes. Pages and totals cover
 * only the newest deliveries, so that a history of millions costs no more than a short one.
 */
import type { Database, Statement } from 'bun:sqlite'
import { toEventCode } from '#features/core/events/record.ts'
import { type Preparer, prepareStatements } from '#platform/db/open.ts'
import { notFoundById } from '#platform/http/schemas.ts'
import { parseUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import {
  DELIVERY_STATUSES,
  type DeliveryStatus,
  deliveryStatusCode,
  deliveryStatusName,
  TEST_EVENT,
  WEBHOOK_EVENTS,
} from '../event-names.ts'
import type { Webhook } from '../manage/webhooks.ts'

/** A delivery with the objects that its event refers to. */
export interface Delivery {
  readonly id: number
  readonly uuid: UuidBytes
  readonly seq: number | null
  readonly event: string
  /** JSON of the body; null when it is built from the event. */
  readonly payload: string | null
  readonly status: DeliveryStatus
  readonly attempts: number
  readonly nextAt: Millis | null
  readonly attemptedAt: Millis | null
  readonly durationMs: number | null
  readonly statusCode: number | null
  readonly response: string | null
  readonly error: string | null
  readonly createdAt: Millis
  readonly emailUuid: UuidBytes | null
  /** Public id of the event's inbound email; null when it has none. */
  readonly inboundEmailId: string | null
}

interface Row extends Omit<Delivery, 'status'> {
  readonly status: number
}

/** Values that `?event=` accepts. */
export const HISTORY_EVENTS = [...WEBHOOK_EVENTS, TEST_EVENT] as const

/** Deliveries that lists and totals cover, per filter. */
export const MAX_LISTED = 10_000

const SELECT = `SELECT d.id, d.uuid, d.seq, d.event, d.payload, d.status, attempts, next_at AS nextAt, attempted_at AS attemptedAt,
  duration_ms AS durationMs, status_code AS statusCode, response, error, d.created_at AS createdAt, emails.uuid AS emailUuid,
  CASE WHEN events.type = ${toEventCode('email.inbound')} AND json_valid(events.data) THEN events.data ->> 'inbound_email_id' END AS inboundEmailId
  FROM webhook_deliveries d LEFT JOIN events ON events.account_id = ?1 AND events.seq = d.seq LEFT JOIN emails ON emails.id = events.email_id`

/**
 * Builds a query from one condition, or from several that exclude each other. The rows of each condition are read from
 * an index in id order, and SQLite merges them.
 */
const selectIds = (conditions: readonly string[]): string =>
  conditions
    .map((condition) => `SELECT id FROM webhook_deliveries WHERE webhook_id = ?2 ${condition}`)
    .join(' UNION ALL ')

const preparePage = (db: Preparer, conditions: readonly string[]): Statement<Row, (number | string)[]> =>
  db.prepare(
    `${SELECT} WHERE d.id IN (SELECT id FROM (${selectIds(conditions)} ORDER BY id DESC LIMIT ?3 OFFSET ?4)) ORDER BY d.id DESC`,
  )

/** Uses ?1 for one reason: the parameters that it shares with the page query keep their numbers. */
const prepareCount = (db: Preparer, conditions: readonly string[]): Statement<{ n: number }, (number | string)[]> =>
  db.prepare(`SELECT COUNT(*) AS n FROM (${selectIds(conditions)} LIMIT ?3) WHERE ?1 IS NOT NULL`)

const ALL = ['']
const BY_EVENT = DELIVERY_STATUSES.map((_, code) => `AND event = ?5 AND status = ${code}`)
const BY_STATUS = HISTORY_EVENTS.map((event) => `AND event = '${event}' AND status = ?5`)
const BY_BOTH = ['AND event = ?5 AND status = ?6']
/** Renumbers the parameters of conditions for the count query, which has no parameter for the offset. */
const withoutPageParameters = (conditions: readonly string[]): string[] =>
  conditions.map((condition) => condition.replace('?5', '?4').replace('?6', '?5'))

const sql = prepareStatements((db) => ({
  all: preparePage(db, ALL),
  byEvent: preparePage(db, BY_EVENT),
  byStatus: preparePage(db, BY_STATUS),
  byBoth: preparePage(db, BY_BOTH),
  countAll: prepareCount(db, ALL),
  countByEvent: prepareCount(db, withoutPageParameters(BY_EVENT)),
  countByStatus: prepareCount(db, withoutPageParameters(BY_STATUS)),
  countByBoth: prepareCount(db, withoutPageParameters(BY_BOTH)),
  byUuid: db.prepare<Row, [number, number, Uint8Array]>(`${SELECT} WHERE d.webhook_id = ?2 AND d.uuid = ?3`),
}))

const toDelivery = (row: Row): Delivery => ({ ...row, status: deliveryStatusName(row.status) })

export interface DeliveryFilter {
  readonly status?: DeliveryStatus | undefined
  readonly event?: string | undefined
}

/**
 * A page of a webhook's deliveries, newest first. Pages and total cover only the newest MAX_LISTED under the filter.
 */
export function listDeliveries(
  db: Database,
  { id, accountId }: Pick<Webhook, 'id' | 'accountId'>,
  { status, event }: DeliveryFilter,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): { deliveries: Delivery[]; total: number } {
  const statements = sql(db)
  const [rows, totals, filter] =
    event !== undefined && status !== undefined
      ? ([statements.byBoth, statements.countByBoth, [event, deliveryStatusCode(status)]] as const)
      : event !== undefined
        ? ([statements.byEvent, statements.countByEvent, [event]] as const)
        : status !== undefined
          ? ([statements.byStatus, statements.countByStatus, [deliveryStatusCode(status)]] as const)
          : ([statements.all, statements.countAll, []] as const)
  const total = totals.get(accountId, id, MAX_LISTED, ...filter)?.n ?? 0
  const pageSize = Math.min(limit, total - offset)
  return {
    deliveries: pageSize <= 0 ? [] : rows.all(accountId, id, pageSize, offset, ...filter).map(toDelivery),
    total,
  }
}

/** A webhook's delivery; throws 404 when it has none with this id. */
export function getDelivery(
  db: Database,
  webhook: Pick<Webhook, 'id' | 'accountId'>,
  deliveryId: string | UuidBytes,
): Delivery {
  const uuid = typeof deliveryId === 'string' ? parseUuid(deliveryId) : deliveryId
  const row = uuid && sql(db).byUuid.get(webhook.accountId, webhook.id, uuid)
  if (!row) throw notFoundById('delivery_not_found', 'delivery')
  return toDelivery(row)
}
