/**
 * @module Writes the rows of inbound routes. Never validates them: `webhooks/inbound-routes` does, and maintains a
 * webhook for each.
 */

import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { type MatchType, matchTypeCode } from './match.ts'

const sql = prepareStatements((db) => ({
  insert: db.prepare<{ id: number }, [UuidBytes, number, ...(string | number | null)[]]>(
    `INSERT INTO inbound_routes (uuid, account_id, domain_id, pattern, given_pattern, match_type, priority, webhook_url,
     is_active, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
  ),
  update: db.prepare(
    `UPDATE inbound_routes SET domain_id = ?, pattern = ?, given_pattern = ?, match_type = ?, priority = ?, webhook_url = ?,
     is_active = ?, updated_at = ? WHERE id = ?`,
  ),
  delete: db.prepare('DELETE FROM inbound_routes WHERE id = ?'),
}))

/** Columns that the account sets. */
export interface RouteFields {
  readonly domainId: number
  /** As `toRouteKey` returns it; `''` for catch_all. */
  readonly pattern: string
  /** As the account wrote it. */
  readonly givenPattern: string
  readonly matchType: MatchType
  readonly priority: number
  readonly webhookUrl: string | null
  readonly isActive: boolean
}

const toColumns = ({ domainId, pattern, givenPattern, matchType, priority, webhookUrl, isActive }: RouteFields) =>
  [domainId, pattern, givenPattern, matchTypeCode(matchType), priority, webhookUrl, isActive ? 1 : 0] as const

/** Returns the row id. */
export function insertRoute(
  tx: Tx,
  { uuid, accountId, ...fields }: RouteFields & { readonly uuid: UuidBytes; readonly accountId: number },
  now: Millis,
): number {
  const inserted = sql(tx.db).insert.get(uuid, accountId, ...toColumns(fields), now, now)
  if (!inserted) throw new Error('the inbound route was not stored')
  return inserted.id
}

export const updateRoute = (tx: Tx, id: number, fields: RouteFields, now: Millis): void =>
  void sql(tx.db).update.run(...toColumns(fields), now, id)

export const deleteRouteRow = (tx: Tx, id: number): void => void sql(tx.db).delete.run(id)
