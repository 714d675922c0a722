/**
 * @module Reads webhooks, including those of inbound routes, and opens their secrets. Changes are in `change.ts`,
 * attempts in the dispatcher.
 */
import type { Database } from 'bun:sqlite'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import { newestFirst, prepareStatements, type RowWindow } from '#platform/db/open.ts'
import { conflict } from '#platform/errors.ts'
import { notFoundById } from '#platform/http/schemas.ts'
import { formatUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { type PayloadFormat, payloadFormatName } from '../event-names.ts'
import type { webhooks } from '../tables.ts'

type StoredWebhook = typeof webhooks.$inferSelect

/** `secret` is sealed; empty for the webhook of a route, which has its public id and the account's inbound secret. */
export interface Webhook extends Readonly<Omit<StoredWebhook, 'events' | 'format' | 'noticeSentAt'>> {
  /** Names in WEBHOOK_EVENTS. */
  readonly events: readonly string[]
  readonly format: PayloadFormat
}

interface Row extends Omit<Webhook, 'events' | 'isActive' | 'offByFailures' | 'format'> {
  readonly format: number
  readonly events: string
  readonly isActive: number
  readonly offByFailures: number
}

const COLUMNS = `id, uuid, account_id AS accountId, url, description, events, is_active AS isActive, off_by_failures AS offByFailures, secret,
  secret_rotated_at AS secretRotatedAt, previous_secret AS previousSecret, format, failure_count AS failureCount, failing_since AS failingSince, last_failure_at AS lastFailureAt, last_failure_reason AS lastFailureReason, last_success_at AS lastSuccessAt,
  cursor_seq AS cursorSeq, created_at AS createdAt, updated_at AS updatedAt, deleted_at AS deletedAt, route_id AS routeId`

const sql = prepareStatements((db) => ({
  byId: db.prepare<Row, [number]>(`SELECT ${COLUMNS} FROM webhooks WHERE id = ?`),
  byUuid: db.prepare<Row, [Uint8Array, number]>(
    `SELECT ${COLUMNS} FROM webhooks WHERE uuid = ? AND account_id = ? AND deleted_at IS NULL AND route_id IS NULL`,
  ),
  ofRoute: db.prepare<Row, [number]>(`SELECT ${COLUMNS} FROM webhooks WHERE route_id = ? AND deleted_at IS NULL`),
  byUuidOfAll: db.prepare<Row, [Uint8Array]>(`SELECT ${COLUMNS} FROM webhooks WHERE uuid = ? AND deleted_at IS NULL`),
  active: db.prepare<Row, []>(`SELECT ${COLUMNS} FROM webhooks WHERE is_active = 1 AND deleted_at IS NULL ORDER BY id`),
  list: newestFirst<Row, [number]>(
    db,
    `SELECT ${COLUMNS} FROM webhooks`,
    'webhooks WHERE account_id = ? AND deleted_at IS NULL AND route_id IS NULL',
  ),
  listOfAll: newestFirst<Row, [number | null]>(
    db,
    `SELECT ${COLUMNS} FROM webhooks`,
    'webhooks WHERE account_id = coalesce(?, account_id) AND deleted_at IS NULL',
  ),
  ofAll: db.prepare<{ waiting: number; off_by_failures: number }, []>(
    `SELECT (SELECT COUNT(*) FROM webhook_deliveries WHERE next_at IS NOT NULL) AS waiting,
     (SELECT COUNT(*) FROM webhooks WHERE off_by_failures = 1 AND deleted_at IS NULL) AS off_by_failures`,
  ),
  stats: db.prepare<{ total: number; offByFailures: number; failing: number; maxFailures: number }, [number]>(
    `SELECT count(*) AS total, coalesce(sum(off_by_failures), 0) AS offByFailures,
     coalesce(sum(is_active AND failure_count > 0), 0) AS failing, coalesce(max(failure_count), 0) AS maxFailures
     FROM webhooks WHERE account_id = ? AND deleted_at IS NULL`,
  ),
}))

const NO_WEBHOOKS = { total: 0, offByFailures: 0, failing: 0, maxFailures: 0 }

/** Counts an account's webhooks, including those of its inbound routes, and their failures. */
export const readWebhookStats = (db: Database, accountId: number) => sql(db).stats.get(accountId) ?? NO_WEBHOOKS

/** Of all accounts: deliveries that wait for an attempt, and webhooks deactivated by failures. */
export const countWaitingWebhooks = (db: Database) => sql(db).ofAll.get() ?? { waiting: 0, off_by_failures: 0 }

const toWebhook = (row: Row): Webhook => ({
  ...row,
  events: JSON.parse(row.events) as string[],
  isActive: row.isActive === 1,
  offByFailures: row.offByFailures === 1,
  format: payloadFormatName(row.format),
})

const toFound = (row: Row | null | undefined): Webhook | undefined => (row ? toWebhook(row) : undefined)

/** The webhook of a row id, even if inactive or deleted. */
export const findWebhookById = (db: Database, id: number) => toFound(sql(db).byId.get(id))

/** The webhook of an inbound route; undefined when the route never had a URL. */
export const findRouteWebhook = (db: Database, routeId: number) => toFound(sql(db).ofRoute.get(routeId))

/** The webhook with a public id, of any account, including those of inbound routes; for the operator only. */
export function findWebhook(db: Database, id: string): Webhook | undefined {
  const uuid = parseUuid(id)
  return toFound(uuid && sql(db).byUuidOfAll.get(uuid))
}

/** All active webhooks of all accounts, including those of inbound routes. */
export const listActiveWebhooks = (db: Database): Webhook[] => sql(db).active.all().map(toWebhook)

/** The webhook that the account created; throws 404 when it has none with this id. */
export function getWebhook(db: Database, accountId: number, id: string): Webhook {
  const uuid = parseUuid(id)
  const row = uuid && sql(db).byUuid.get(uuid, accountId)
  if (!row) throw notFoundById('webhook_not_found', 'webhook')
  return toWebhook(row)
}

/** Finds the webhook of an id: `getWebhook`, or a function for route webhooks. Throws 404. */
export type FindWebhook = (db: Database, accountId: number, id: string) => Webhook

/** Webhooks of all accounts or of one, including those of inbound routes, newest first; for the operator only. */
export function listWebhooksOfAll(db: Database, accountId: number | undefined, page: RowWindow) {
  const { rows, total } = sql(db).listOfAll(page, accountId ?? null)
  return { rows: rows.map(toWebhook), total }
}

export function listWebhooks(db: Database, accountId: number, page: RowWindow) {
  const { rows, total } = sql(db).list(page, accountId)
  return { rows: rows.map(toWebhook), total }
}

/** What it is in the audit log. */
export const auditedKindOf = ({ routeId }: Pick<Webhook, 'routeId'>): string =>
  routeId === null ? 'webhook' : 'inbound_route'

/** Throws 409 when the webhook is not the one that the user saw. */
export function requireUnchanged({ updatedAt }: Webhook, expectedUpdatedAt: Millis | undefined): void {
  if (expectedUpdatedAt !== undefined && expectedUpdatedAt !== updatedAt)
    throw conflict(
      'webhook_changed',
      'The webhook was changed since you opened it, so nothing was stored; read it again, then repeat your change.',
    )
}

/** Seal context of a webhook's secret, so that it opens in no other row. */
export const toSealContext = (uuid: UuidBytes): string => `webhook:${formatUuid(uuid)}`

/** The signing secret in clear, `whsec_…`, of a webhook that an account created. Throws for another master key. */
export const openSecret = (keys: KeyRing, webhook: Pick<Webhook, 'secret' | 'uuid'>): string =>
  keys.unsealText(webhook.secret, toSealContext(webhook.uuid))
