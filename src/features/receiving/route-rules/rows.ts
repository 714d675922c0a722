/**
 * @module The rows of inbound routes, and which of them an address matches. Never validates them:
 * `webhooks/inbound-routes` does, and maintains a webhook for each.
 */

import type { Database } from 'bun:sqlite'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { codesOf, insertSql, prepareStatements, setSql, type Tx } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { listLocalPartKeys, type Mailbox, normaliseAddress } from '#protocols/address/parse.ts'
import type { inboundRoutes } from './tables.ts'

/** How a pattern is compared. The position is the stored code, and the earlier wins: append only. */
export const MATCH_TYPES = ['exact', 'prefix', 'catch_all'] as const

export type MatchType = (typeof MATCH_TYPES)[number]

const CODES = codesOf<MatchType>('match type', MATCH_TYPES)
export const matchTypeCode = CODES.codeOf
export const matchTypeName = CODES.nameOf

type StoredRoute = Readonly<typeof inboundRoutes.$inferSelect>

export interface RouteRule
  extends Omit<StoredRoute, 'matchType' | 'givenPattern' | 'isActive' | 'createdAt' | 'updatedAt'> {
  readonly matchType: MatchType
}

interface Row extends Omit<RouteRule, 'matchType'> {
  readonly matchType: number
}

const ACTIVE = `SELECT id, uuid, account_id AS accountId, domain_id AS domainId, pattern, match_type AS matchType, priority, webhook_url AS webhookUrl, forward_to AS forwardTo
  FROM inbound_routes WHERE domain_id = ?1 AND is_active = 1`

type Columns = Record<string, string | number | null | Uint8Array>
const COLUMNS = 'domainId pattern givenPattern matchType priority webhookUrl forwardTo isActive updatedAt'

const sql = prepareStatements((db) => ({
  // A domain may have many routes: an index finds the few candidates.
  candidates: db.prepare<Row, [number, string, string, string]>(
    `${ACTIVE} AND match_type = ${matchTypeCode('exact')} AND pattern IN (?2, ?3)
     UNION ALL ${ACTIVE} AND match_type = ${matchTypeCode('prefix')} AND pattern IN (SELECT value FROM json_each(?4))
     UNION ALL ${ACTIVE} AND match_type = ${matchTypeCode('catch_all')}`,
  ),
  insert: db.prepare<{ id: number }, [Columns]>(
    `${insertSql('inbound_routes', `uuid accountId createdAt ${COLUMNS}`)} RETURNING id`,
  ),
  update: db.prepare<unknown, [Columns]>(`UPDATE inbound_routes SET ${setSql(COLUMNS)} WHERE id = $id`),
  user: db.prepare<{ id: number }, [number, string]>(
    'SELECT users.id FROM members JOIN users ON users.id = user_id WHERE account_id = ? AND email = ?',
  ),
  forwarding: db.prepare(
    'SELECT 1 FROM inbound_routes WHERE account_id = ? AND is_active = 1 AND forward_to IS NOT NULL LIMIT 1',
  ),
  delete: db.prepare('DELETE FROM inbound_routes WHERE id = ?'),
}))

const toRouteRule = (row: Row): RouteRule => ({ ...row, matchType: matchTypeName(row.matchType) })

/** Maximum pattern length: a local part has 64 octets (RFC 5321 §4.5.3.1.1). */
const MAX_PATTERN_LENGTH = 64

/** The active route of a domain that a local part matches, chosen by `matchRoute`; undefined: none. */
export function findRoute(db: Database, domainId: number, localPart: string): RouteRule | undefined {
  const [key, withoutDetail = key] = listLocalPartKeys(localPart)
  const characters = [...key].slice(0, MAX_PATTERN_LENGTH)
  const prefixes = characters.map((_, index) => characters.slice(0, index + 1).join(''))
  return matchRoute(
    sql(db).candidates.all(domainId, key, withoutDetail, JSON.stringify(prefixes)).map(toRouteRule),
    localPart,
  )
}

/** Normalises a local part for comparison: lower case, composed Unicode, no needless quotes. */
export const toRouteKey = (localPart: string): string => listLocalPartKeys(localPart)[0]

/**
 * The route that a local part matches; undefined: none. Order: lower priority number, then exact before prefix before
 * catch_all, then the whole local part before the one without its `+detail` (RFC 5233), then the older route.
 */
export function matchRoute(routes: readonly RouteRule[], localPart: string): RouteRule | undefined {
  const [key, withoutDetail = key] = listLocalPartKeys(localPart)
  /** 0: the pattern matches the local part; 1: it matches without the detail; undefined: no match. */
  const distance = ({ pattern, matchType }: RouteRule): number | undefined => {
    if (matchType === 'catch_all') return 0
    if (matchType === 'prefix') return key.startsWith(pattern) ? 0 : undefined
    return pattern === key ? 0 : pattern === withoutDetail ? 1 : undefined
  }
  const candidates = routes.flatMap((route) => {
    const measured = distance(route)
    return measured === undefined ? [] : [{ route, distance: measured }]
  })
  return candidates.sort(compareCandidates)[0]?.route
}

type Candidate = { readonly route: RouteRule; readonly distance: number }

const compareCandidates = (a: Candidate, b: Candidate): number =>
  a.route.priority - b.route.priority ||
  matchTypeCode(a.route.matchType) - matchTypeCode(b.route.matchType) ||
  a.distance - b.distance ||
  a.route.id - b.route.id

export interface RouteFields
  extends Omit<StoredRoute, 'id' | 'uuid' | 'accountId' | 'matchType' | 'createdAt' | 'updatedAt'> {
  readonly matchType: MatchType
}

const toColumns = (fields: RouteFields, now: Millis): Columns => {
  const codes = { matchType: matchTypeCode(fields.matchType), isActive: fields.isActive ? 1 : 0 }
  return { ...fields, ...codes, updatedAt: now }
}

/** Returns the row id. */
export function insertRoute(
  tx: Tx,
  fields: RouteFields & { readonly uuid: UuidBytes; readonly accountId: number },
  now: Millis,
): number {
  const inserted = sql(tx.db).insert.get({ ...toColumns(fields, now), createdAt: now })
  if (!inserted) throw new Error('the inbound route was not stored')
  return inserted.id
}

export const updateRoute = (tx: Tx, id: number, fields: RouteFields, now: Millis): void =>
  void sql(tx.db).update.run({ ...toColumns(fields, now), id })

/**
 * Whether mail may be forwarded to an address: one at a verified domain of the account, or of a user of its team, who
 * proved it by the link of an invitation, or was named by the operator or the parent account. Otherwise an account could
 * flood an address that never agreed.
 */
export const isForwardTarget = (db: Database, accountId: number, { address, domain }: Mailbox): boolean =>
  findSendingDomain(db, accountId, domain)?.isVerified === true ||
  sql(db).user.get(accountId, normaliseAddress(address)) !== null

export const isForwarding = (db: Database, accountId: number): boolean => sql(db).forwarding.get(accountId) !== null

export const deleteRouteRow = (tx: Tx, id: number): void => void sql(tx.db).delete.run(id)
