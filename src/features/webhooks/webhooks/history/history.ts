/**
 * @module Reads the history of a webhook: every delivery with its last attempt, and the payload and headers of that
 * attempt. Never writes or sends. Pages and totals cover only the newest deliveries, so that a history of millions
 * costs no more than a short one.
 */

import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { deriveEventUuid, toEventCode } from '#features/core/events/record.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { prepareStatements, type RowWindow } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import { notFoundById } from '#platform/http/schemas.ts'
import { parseUuid, type UuidBytes } from '#platform/ids.ts'
import {
  DELIVERY_STATUSES,
  type DeliveryStatus,
  deliveryStatusCode,
  deliveryStatusName,
  type PayloadFormat,
  requireBodyScopes,
  TEST_EVENT,
  WEBHOOK_EVENTS,
} from '../event-names.ts'
import { openSigningSecrets } from '../manage/secrets.ts'
import { createRequestHeaders } from '../manage/signature.ts'
import { getWebhook, type Webhook } from '../manage/webhooks.ts'
import { buildPayload, readPostedBody, toMessageId } from '../payload/payload.ts'
import type { webhookDeliveries } from '../tables.ts'

/** A row of `webhook_deliveries`, with the public ids of the email and the inbound email that its event refers to. */
export interface Delivery extends Readonly<Omit<typeof webhookDeliveries.$inferSelect, 'webhookId' | 'status'>> {
  readonly status: DeliveryStatus
  readonly emailUuid: UuidBytes | null
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

/** By conditions that exclude each other: SQLite merges the rows of each, in id order. */
const selectIds = (conditions: readonly string[]): string =>
  conditions
    .map((condition) => `SELECT id FROM webhook_deliveries WHERE webhook_id = ?2 ${condition}`)
    .join(' UNION ALL ')

const CONDITIONS = {
  all: [''],
  byEvent: DELIVERY_STATUSES.map((_, code) => `AND event = ?5 AND status = ${code}`),
  byStatus: HISTORY_EVENTS.map((event) => `AND event = '${event}' AND status = ?5`),
  byBoth: ['AND event = ?5 AND status = ?6'],
}

const prepareEach = <T>(prepare: (ids: string) => T) =>
  Object.fromEntries(
    Object.entries(CONDITIONS).map(([name, conditions]) => [name, prepare(selectIds(conditions))]),
  ) as Record<keyof typeof CONDITIONS, T>

const pages = prepareStatements((db) =>
  prepareEach((ids) =>
    db.prepare<Row, (number | string)[]>(
      `${SELECT} WHERE d.id IN (SELECT id FROM (${ids} ORDER BY id DESC LIMIT ?3 OFFSET ?4)) ORDER BY d.id DESC`,
    ),
  ),
)
/** Uses ?1 and ?4 for one reason: both queries have the same parameters. */
const counts = prepareStatements((db) =>
  prepareEach((ids) =>
    db.prepare<{ n: number }, (number | string)[]>(
      `SELECT COUNT(*) AS n FROM (${ids} LIMIT ?3) WHERE ?1 IS NOT NULL AND ?4 IS NOT NULL`,
    ),
  ),
)

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<Row, [number, number, Uint8Array]>(`${SELECT} WHERE d.webhook_id = ?2 AND d.uuid = ?3`),
}))

const toDelivery = (row: Row): Delivery => ({ ...row, status: deliveryStatusName(row.status) })

export interface DeliveryFilter {
  readonly status?: DeliveryStatus | undefined
  readonly event?: string | undefined
}

/** A page of a webhook's deliveries, newest first; page and total cover only the newest MAX_LISTED. */
export function listDeliveries(
  db: Database,
  { id, accountId }: Pick<Webhook, 'id' | 'accountId'>,
  { status, event }: DeliveryFilter,
  { limit, offset }: RowWindow,
) {
  const code = status === undefined ? [] : [deliveryStatusCode(status)]
  const values = event === undefined ? code : [event, ...code]
  const byStatus = event === undefined ? 'byStatus' : 'byBoth'
  const filter = status === undefined ? (event === undefined ? 'all' : 'byEvent') : byStatus
  const total = counts(db)[filter].get(accountId, id, MAX_LISTED, offset, ...values)?.n ?? 0
  const pageSize = Math.min(limit, total - offset)
  const rows = pageSize <= 0 ? [] : pages(db)[filter].all(accountId, id, pageSize, offset, ...values)
  return { rows: rows.map(toDelivery), total }
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

/**
 * A delivery with its request: the body as it is sent, null when the event is no longer kept, and the headers of the
 * last attempt. Throws 404, and 403 when the actor may not read the mail that it carries.
 */
export function readDeliveryRequest(app: App, actor: Actor, id: string, deliveryId: string) {
  const webhook = getWebhook(app.db, actor.accountId, id)
  const delivery = getDelivery(app.db, webhook, deliveryId)
  requireBodyScopes(actor, [delivery.event])
  const payload = readPostedBody(app, webhook, delivery) ?? null
  const headers = payload === null ? null : toHeaders(app, actor, webhook, delivery, payload)
  return { webhook, delivery, payload, headers }
}

/** Null: there was no attempt. Without signatures when the secret was replaced since then. */
function toHeaders(
  app: App,
  actor: Actor,
  webhook: Webhook,
  delivery: Delivery,
  payload: string,
): Record<string, string> | null {
  const { event, attempts, attemptedAt } = delivery
  if (attemptedAt === null || attempts === 0) return null
  const isOldSecret = webhook.secretRotatedAt !== null && attemptedAt <= webhook.secretRotatedAt
  // A fresh signature lets its holder send the request once more; actors who may not change webhooks do not need it.
  const isHidden = isOldSecret || !hasScope(actor.scopes, 'webhooks:write')
  const id = toMessageId(app.keys, webhook.accountId, delivery)
  return createRequestHeaders(
    { id, event, attempt: attempts, at: attemptedAt, body: payload },
    isHidden ? undefined : openSigningSecrets(app, webhook),
    app.config.compatHeaderPrefixes,
  )
}

/**
 * The payload of an event of the feed, as a webhook of this format gets it. Throws 404 when there is no such event, or
 * none that the format has, and 403 when the actor may not read the mail that it carries.
 * @param seq position in the feed, as text
 */
export function readEventPayload(
  app: App,
  actor: Actor,
  seq: string,
  format: PayloadFormat = 'tassis',
): { readonly event: string; readonly event_id: string; readonly payload: string } {
  const { accountId } = actor
  const position = /^\d{1,15}$/.test(seq) ? Number(seq) : 0
  const built = buildPayload(app, accountId, position, format)
  if (!built) throw notFound('event_not_found', 'There is no event at this position that has a payload in this format.')
  requireBodyScopes(actor, [built.event])
  return {
    event: built.event,
    event_id: deriveEventUuid(app.keys, accountId, position),
    payload: JSON.stringify(built.body),
  }
}
