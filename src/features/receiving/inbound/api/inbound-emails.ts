/**
 * @module Inbound emails: lists, reads and deletes them for their account, and removes them for retention, by age, and
 * for privacy, by person. `process/store.ts` writes them on arrival. A removed email is not sent to webhooks that have
 * not received it yet.
 */

import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { count, NO_HOUR, readCounter } from '#features/core/events/record.ts'
import { type AttachmentJson, selectListedAttachments } from '#features/receiving/received/parts.ts'
import {
  type FoundMessages,
  type PersonSearch,
  SCAN_BATCH_SIZE,
  selectOfPerson,
} from '#features/receiving/received/person.ts'
import type { SpamVerdict } from '#features/receiving/received/spam.ts'
import { cancelRecipients, eraseEmailContent } from '#features/sending/queue/erase.ts'
import { belowId, codesOf, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { notFoundById } from '#platform/http/schemas.ts'
import { parseUuid, type UuidBytes } from '#platform/ids.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import type { inboundEmails } from '../tables.ts'

/**
 * received → delivered (the webhook of its route accepted it)
 * no_route, failed (unparseable): final
 *
 * The position is the stored code: append only.
 */
export const INBOUND_STATUSES = ['received', 'delivered', 'failed', 'no_route'] as const
export type InboundStatus = (typeof INBOUND_STATUSES)[number]

const CODES = codesOf<InboundStatus>('inbound status', INBOUND_STATUSES)
export const inboundStatusCode = CODES.codeOf
export const inboundStatusName = CODES.nameOf

type StoredInbound = Readonly<Omit<typeof inboundEmails.$inferSelect, 'domainId' | 'routeId' | 'eventSeq'>>

interface Row extends StoredInbound {
  readonly routeUuid: UuidBytes | null
}

export interface InboundEmail extends Omit<Row, 'rcptTo' | 'toAddresses' | 'attachments' | 'authentication' | 'spam'> {
  readonly rcptTo: readonly string[]
  readonly toAddresses: readonly string[]
  readonly attachments: readonly AttachmentJson[]
  readonly authentication: AuthenticationResult | null
  readonly spam: SpamVerdict | null
}

/** What became of a message that its route forwards. */
export interface ForwardState {
  /** Public id of the email, which has the state of the targets that are not refused. */
  readonly email?: string
  /** Why, by address. */
  readonly refused: Readonly<Record<string, string>>
}

export const readForward = ({ forward }: Pick<StoredInbound, 'forward'>) =>
  JSON.parse(forward ?? '{"refused":{}}') as ForwardState

/** Counts an account's current inbound emails. */
export const INBOUND_METRIC = 'inbound'

const buildSelect = (
  attachments: string,
): string => `SELECT i.id, i.uuid, i.account_id AS accountId, i.domain_uuid AS domainUuid, i.domain, inbound_routes.uuid AS routeUuid, i.status,
  i.mail_from AS mailFrom, i.rcpt_to AS rcptTo, i.source_ip AS sourceIp, i.helo, i.tls, i.from_address AS fromAddress, i.to_addresses AS toAddresses,
  i.from_header AS fromHeader, i.to_header AS toHeader, i.cc_header AS ccHeader, i.subject, i.message_id AS messageId, i.headers_ref AS headersRef,
  i.text_ref AS textRef, i.html_ref AS htmlRef, ${attachments} AS attachments, i.raw_ref AS rawRef, i.size_bytes AS sizeBytes, i.spf_result AS spfResult,
  i.authentication, i.spam, i.forward, i.error_message AS errorMessage, i.webhook_delivered_at AS webhookDeliveredAt, i.received_at AS receivedAt, i.created_at AS createdAt,
  i.updated_at AS updatedAt
  FROM inbound_emails i LEFT JOIN inbound_routes ON inbound_routes.id = i.route_id`
const SELECT = buildSelect('i.attachments')
const SELECT_LISTED = buildSelect(selectListedAttachments('i.attachments'))

/** Limit of the inbound emails that a filtered list reaches and counts. */
export const MAX_FILTERED_EMAILS = 10_000

/** The newest under a condition, and of status ?2 if any. SQLite merges the rows of each status, in id order. */
const selectNewest = (where: string): string => {
  const ofEachStatus = INBOUND_STATUSES.map((status) => inboundStatusCode(status)).map(
    (code) => `SELECT id FROM inbound_emails ${where} AND status = ${code} AND coalesce(?2, ${code}) = ${code}`,
  )
  return `SELECT id FROM (${ofEachStatus.join(' UNION ALL ')} ORDER BY id DESC LIMIT ${MAX_FILTERED_EMAILS})`
}
// `account_id` is missing because the lookup of the route's row id has checked it.
const SELECT_OF_ROUTE = selectNewest('INDEXED BY inbound_emails_route_status WHERE route_id = ?4')
/** Some address of the route was refused; as in the index. */
const IS_REFUSED = "forward ->> '$.refused' <> '{}'"
const matchingAll = (ids: string): string => `SELECT id FROM inbound_emails WHERE id IN (${ids})
   AND status = coalesce(?2, status) AND domain_uuid = coalesce(?3, domain_uuid) AND (?4 IS NULL OR route_id = ?4) AND (?6 IS NULL OR spam ->> '$.verdict' = ?6)
   AND (?7 IS NULL OR ${IS_REFUSED})`

/** By what the newest are found. All have the parameters account, status, domain, row of the route, sender, verdict, and whether refused. */
const FILTERED = {
  status: selectNewest('INDEXED BY inbound_emails_status WHERE account_id = ?1'),
  domain: selectNewest('INDEXED BY inbound_emails_domain WHERE account_id = ?1 AND domain_uuid = ?3'),
  route: SELECT_OF_ROUTE,
  // A route may have belonged to several domains.
  routeAndDomain: matchingAll(SELECT_OF_ROUTE),
  verdict: matchingAll(`SELECT id FROM inbound_emails INDEXED BY inbound_emails_spam
   WHERE account_id = ?1 AND spam IS NOT NULL AND spam ->> '$.verdict' = ?6 ORDER BY id DESC LIMIT ${MAX_FILTERED_EMAILS}`),
  refused: matchingAll(`SELECT id FROM inbound_emails INDEXED BY inbound_emails_refused
   WHERE account_id = ?1 AND ${IS_REFUSED} ORDER BY id DESC LIMIT ${MAX_FILTERED_EMAILS}`),
  sender: matchingAll(`SELECT id FROM inbound_emails INDEXED BY inbound_emails_from
   WHERE account_id = ?1 AND lower(from_address) = lower(?5) ORDER BY id DESC LIMIT ${MAX_FILTERED_EMAILS}`),
}
type SqlValue = number | string | Uint8Array | null

const prepareFiltered = <T>(prepare: (ids: string) => T) =>
  Object.fromEntries(Object.entries(FILTERED).map(([name, ids]) => [name, prepare(ids)])) as Record<
    keyof typeof FILTERED,
    T
  >

const filteredCount = prepareStatements((db) =>
  // Uses ?7, so that all have the same parameters.
  prepareFiltered((ids) =>
    db.prepare<{ n: number }, SqlValue[]>(`SELECT COUNT(*) AS n FROM (${ids}) WHERE ?7 IS NULL OR ?7 <> ''`),
  ),
)
const filteredPage = prepareStatements((db) =>
  prepareFiltered((ids) =>
    db.prepare<Row, SqlValue[]>(
      `${SELECT_LISTED} WHERE i.id IN (SELECT id FROM (${ids}) ORDER BY id DESC LIMIT ?8 OFFSET ?9) ORDER BY i.id DESC`,
    ),
  ),
)

type HeaderRow = Pick<
  StoredInbound,
  'id' | 'mailFrom' | 'rcptTo' | 'fromAddress' | 'toAddresses' | 'fromHeader' | 'toHeader' | 'ccHeader'
>

const sql = prepareStatements((db) => ({
  byId: db.prepare<Row, [number]>(`${SELECT} WHERE i.id = ?`),
  byUuid: db.prepare<Row, [Uint8Array, number]>(`${SELECT} WHERE i.uuid = ? AND i.account_id = ?`),
  // The subquery finds the rows of a page from the index alone; only these rows are joined.
  page: db.prepare<Row, [number, number, number, number]>(
    `${SELECT_LISTED} WHERE i.id IN (SELECT id FROM inbound_emails INDEXED BY inbound_emails_account WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT ? OFFSET ?)
     ORDER BY i.id DESC`,
  ),
  routeId: db.prepare<{ id: number }, [Uint8Array, number]>(
    'SELECT id FROM inbound_routes WHERE uuid = ? AND account_id = ?',
  ),
  // Account by account, because the index groups statuses by account.
  unparsed: db.prepare<Row, [number, number, number]>(
    `${SELECT} WHERE i.id IN (SELECT u.id FROM accounts a CROSS JOIN inbound_emails u INDEXED BY inbound_emails_status ON u.account_id = a.id AND u.status = ?
     WHERE u.id > ? ORDER BY u.id LIMIT ?) ORDER BY i.id`,
  ),
  unparsedByUuid: db.prepare<Row, [Uint8Array, number]>(`${SELECT} WHERE i.uuid = ? AND i.status = ?`),
  ofAccountAfter: db.prepare<HeaderRow, [number, number, number]>(
    `SELECT id, mail_from AS mailFrom, rcpt_to AS rcptTo, from_address AS fromAddress, to_addresses AS toAddresses,
     from_header AS fromHeader, to_header AS toHeader, cc_header AS ccHeader
     FROM inbound_emails INDEXED BY inbound_emails_account WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
  after: db.prepare<Row, [number, number]>(`${SELECT} WHERE i.id > ? ORDER BY i.id LIMIT ?`),
  sent: db.prepare<{ id: number }, [Uint8Array]>('SELECT id FROM emails WHERE uuid = ?'),
  delete: db.prepare('DELETE FROM inbound_emails WHERE id = ?'),
}))

const toInboundEmail = (row: Row): InboundEmail => ({
  ...row,
  rcptTo: JSON.parse(row.rcptTo) as string[],
  toAddresses: JSON.parse(row.toAddresses) as string[],
  attachments: JSON.parse(row.attachments) as AttachmentJson[],
  authentication: row.authentication === null ? null : (JSON.parse(row.authentication) as AuthenticationResult),
  spam: row.spam === null ? null : (JSON.parse(row.spam) as SpamVerdict),
})

const toFound = (row: Row | null | undefined): InboundEmail | undefined => (row ? toInboundEmail(row) : undefined)

export function findInbound(db: Database, accountId: number, id: string): InboundEmail | undefined {
  const uuid = parseUuid(id)
  return toFound(uuid && sql(db).byUuid.get(uuid, accountId))
}

/** The account's inbound email with this public id; throws 404. */
export function getInbound(db: Database, accountId: number, id: string): InboundEmail {
  const found = findInbound(db, accountId, id)
  if (!found) throw notFoundById('inbound_email_not_found', 'inbound email')
  return found
}

/** Absent fields do not filter. */
export interface InboundFilter {
  readonly status?: InboundStatus | undefined
  readonly route_id?: string | undefined
  readonly domain_id?: string | undefined
  readonly from?: string | undefined
  readonly spam?: SpamVerdict['verdict'] | undefined
  readonly forward?: 'refused' | undefined
}

/**
 * A page of an account's inbound emails, newest first. With a filter, pages and total end at the newest
 * MAX_FILTERED_EMAILS. Throws 422 for a malformed id; an unknown id matches nothing.
 */
export function listInbound(db: Database, accountId: number, filter: InboundFilter, page: RowWindow) {
  if (Object.values(filter).some((value) => value !== undefined)) return listFiltered(db, accountId, filter, page)
  const { limit, offset } = page
  const total = readCounter(db, accountId, INBOUND_METRIC, NO_HOUR)
  // No query past the end: SQLite scans every skipped row.
  return {
    emails: offset >= total ? [] : sql(db).page.all(accountId, belowId(page), limit, offset).map(toInboundEmail),
    total,
  }
}

function listFiltered(
  db: Database,
  accountId: number,
  { status, route_id, domain_id, from, spam, forward }: InboundFilter,
  { limit, offset }: RowWindow,
) {
  const domain = parseFilterId('domain_id', domain_id, '/v1/domains')
  const route = parseFilterId('route_id', route_id, '/v1/inbound-routes')
  const routeRow = route && sql(db).routeId.get(route, accountId)
  if (route && !routeRow) return { emails: [], total: 0 }
  const sender = parseSender(from)
  const byPlace = route ? (domain ? 'routeAndDomain' : 'route') : domain ? 'domain' : 'status'
  const name = sender ? 'sender' : spam ? 'verdict' : (forward ?? byPlace)
  const code = status === undefined ? null : inboundStatusCode(status)
  const values = [accountId, code, domain ?? null, routeRow?.id ?? null, sender ?? null, spam ?? null, forward ?? null]
  const total = filteredCount(db)[name].get(...values)?.n ?? 0
  const rows = offset >= total ? [] : filteredPage(db)[name].all(...values, limit, offset)
  return { emails: rows.map(toInboundEmail), total }
}

function parseFilterId(field: string, text: string | undefined, path: string): UuidBytes | undefined {
  if (text === undefined) return undefined
  const uuid = parseUuid(text)
  if (!uuid) throw invalid(field, `${field} must be an id; GET ${path} lists all ids.`)
  return uuid
}

function parseSender(text: string | undefined): string | undefined {
  const address = text?.trim()
  if (address !== undefined && !address.includes('@'))
    throw invalid('from', 'from must be a whole address, such as ada@example.com.')
  return address
}

export const countInbound = (tx: Tx, accountId: number, delta: 1 | -1): void =>
  count(tx, accountId, INBOUND_METRIC, NO_HOUR, delta)

/** Deletes an inbound email; what of it waits to be sent is cancelled. Throws 404, and 409 while it is forwarded. */
export function deleteInbound(app: App, actor: Actor, id: string): Promise<void> {
  return app.commit.writeFromReserve((tx) => {
    const email = getInbound(tx.db, actor.accountId, id)
    if (removeInbound(app, tx, email) !== undefined)
      throw conflict('forward_in_flight', 'It is being sent to an address of its route now; try again in a minute.')
    auditChange(app, tx, actor, 'inbound_email.deleted', email.uuid)
  })
}

/**
 * Deletes an inbound email with its references to content, and what of it is forwarded. Returns the row of the email
 * that forwards it while that is in a session.
 * @param cancels whether what waits to be sent is cancelled; it stays for retention, as all mail that is open
 */
export function removeInbound(
  app: Pick<App, 'contentDropped' | 'eventTime'>,
  tx: Tx,
  email: InboundEmail,
  cancels = true,
): number | undefined {
  const { headersRef, textRef, htmlRef, attachments, rawRef } = email
  const sent = sql(tx.db).sent.get(parseUuid(readForward(email).email ?? '') ?? new Uint8Array())
  if (sent && cancels) cancelRecipients(app, tx, sent.id, () => true)
  const open = sent && !eraseEmailContent(app, tx, sent.id) ? sent.id : undefined
  sql(tx.db).delete.run(email.id)
  countInbound(tx, email.accountId, -1)
  dropContent(app, tx, {
    content: [headersRef, textRef, htmlRef, ...attachments.map(({ ref }) => ref)],
    rawMail: [rawRef],
  })
  return open
}

export const listUnparsedInboundAfter = (db: Database, after: number, limit: number): InboundEmail[] =>
  sql(db).unparsed.all(inboundStatusCode('failed'), after, limit).map(toInboundEmail)

export const findUnparsedInbound = (db: Database, uuid: UuidBytes) =>
  toFound(sql(db).unparsedByUuid.get(uuid, inboundStatusCode('failed')))

export const findInboundById = (db: Database, id: number) => toFound(sql(db).byId.get(id))

/** Scans some inbound emails of an account for those from or to a person. */
export const findInboundOfPerson = (db: Database, search: PersonSearch): FoundMessages =>
  selectOfPerson(sql(db).ofAccountAfter.all(search.accountId, search.after, SCAN_BATCH_SIZE), search)

/** @param onOpen gets the row of each email that still forwards one */
export function eraseInbound(
  app: Pick<App, 'contentDropped' | 'eventTime'>,
  tx: Tx,
  ids: readonly number[],
  onOpen = (_emailId: number): void => {},
): number {
  const emails = ids.flatMap((id) => findInboundById(tx.db, id) ?? [])
  for (const email of emails) {
    const open = removeInbound(app, tx, email)
    if (open !== undefined) onOpen(open)
  }
  return emails.length
}

/** Inbound emails after a row id, in order; row ids ascend with created_at. */
export const listInboundAfter = (db: Database, id: number, limit: number): InboundEmail[] =>
  sql(db).after.all(id, limit).map(toInboundEmail)
