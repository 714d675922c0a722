/** @module Received mail as its account works with it: look, read its parts, delete. Written by `store.ts` when it comes in. */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/app.ts'
import type { StoredAttachment } from '#features/received.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { noSuch } from '#platform/http/schemas.ts'
import { formatUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { listedAttachments } from '../agent-mailboxes/attachments.ts'
import { audit } from '../audit-logs/audit.ts'
import { count } from '../events/record.ts'

export interface InboundEmail {
  readonly id: number
  readonly uuid: UuidBytes
  readonly accountId: number
  readonly domainUuid: UuidBytes
  readonly domain: string
  readonly routeUuid: UuidBytes | null
  /** Stored code. */
  readonly status: number
  /** `''`: the null reverse-path. */
  readonly mailFrom: string
  readonly rcptTo: readonly string[]
  readonly sourceIp: string
  readonly helo: string
  readonly tls: string | null
  readonly fromAddress: string | null
  readonly toAddresses: readonly string[]
  readonly fromHeader: string | null
  readonly toHeader: string | null
  readonly ccHeader: string | null
  readonly subject: string
  readonly messageId: string | null
  readonly headersRef: number | null
  readonly textRef: number | null
  readonly htmlRef: number | null
  readonly attachments: readonly StoredAttachment[]
  readonly rawRef: number
  readonly sizeBytes: number
  readonly spfResult: string | null
  readonly authentication: AuthenticationResult | null
  readonly errorMessage: string | null
  readonly webhookDeliveredAt: Millis | null
  readonly createdAt: Millis
  readonly updatedAt: Millis
}

interface Row extends Omit<InboundEmail, 'rcptTo' | 'toAddresses' | 'attachments' | 'authentication'> {
  readonly rcptTo: string
  readonly toAddresses: string
  readonly attachments: string
  readonly authentication: string | null
}

/** Counter of the inbound emails that an account has now. */
export const INBOUND_METRIC = 'inbound'
const NO_HOUR: Millis = 0

const selectWith = (
  attachments: string,
): string => `SELECT i.id, i.uuid, i.account_id AS accountId, i.domain_uuid AS domainUuid, i.domain, inbound_routes.uuid AS routeUuid, i.status,
  i.mail_from AS mailFrom, i.rcpt_to AS rcptTo, i.source_ip AS sourceIp, i.helo, i.tls, i.from_address AS fromAddress, i.to_addresses AS toAddresses,
  i.from_header AS fromHeader, i.to_header AS toHeader, i.cc_header AS ccHeader, i.subject, i.message_id AS messageId, i.headers_ref AS headersRef,
  i.text_ref AS textRef, i.html_ref AS htmlRef, ${attachments} AS attachments, i.raw_ref AS rawRef, i.size_bytes AS sizeBytes, i.spf_result AS spfResult,
  i.authentication, i.error_message AS errorMessage, i.webhook_delivered_at AS webhookDeliveredAt, i.created_at AS createdAt,
  i.updated_at AS updatedAt
  FROM inbound_emails i LEFT JOIN inbound_routes ON inbound_routes.id = i.route_id`
const SELECT = selectWith('i.attachments')
const SELECT_LISTED = selectWith(listedAttachments('i.attachments'))

const sql = prepared((db) => ({
  byUuid: db.prepare<Row, [Uint8Array, number]>(`${SELECT} WHERE i.uuid = ? AND i.account_id = ?`),
  // The page is found by index alone, then joined.
  page: db.prepare<Row, [number, number, number]>(
    `${SELECT_LISTED} WHERE i.id IN (SELECT id FROM inbound_emails INDEXED BY inbound_emails_account WHERE account_id = ? ORDER BY id DESC LIMIT ? OFFSET ?)
     ORDER BY i.id DESC`,
  ),
  total: db.prepare<{ value: number }, [number, string]>(
    'SELECT value FROM counters WHERE account_id = ? AND metric = ? AND hour = 0',
  ),
  delete: db.prepare('DELETE FROM inbound_emails WHERE id = ?'),
}))

const inboundOf = (row: Row): InboundEmail => ({
  ...row,
  rcptTo: JSON.parse(row.rcptTo) as string[],
  toAddresses: JSON.parse(row.toAddresses) as string[],
  attachments: JSON.parse(row.attachments) as StoredAttachment[],
  authentication: row.authentication === null ? null : (JSON.parse(row.authentication) as AuthenticationResult),
})

/** The account's inbound email with this public id, if it has one. */
export function findInbound(db: Database, accountId: number, id: string): InboundEmail | undefined {
  const uuid = parseUuid(id)
  const row = uuid && sql(db).byUuid.get(uuid, accountId)
  return row ? inboundOf(row) : undefined
}

/** The account's inbound email; 404 when it has none with this id. */
export function getInbound(db: Database, accountId: number, id: string): InboundEmail {
  const found = findInbound(db, accountId, id)
  if (!found) throw noSuch('inbound_email_not_found', 'inbound email')
  return found
}

/** A page of an account's inbound emails, newest first. */
export function listInbound(
  db: Database,
  accountId: number,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): { emails: InboundEmail[]; total: number } {
  const total = sql(db).total.get(accountId, INBOUND_METRIC)?.value ?? 0
  // Past the end nothing is looked for: an offset is walked.
  return { emails: offset >= total ? [] : sql(db).page.all(accountId, limit, offset).map(inboundOf), total }
}

/** Counts inbound emails that came or went. */
export const countInbound = (tx: Tx, accountId: number, delta: 1 | -1): void =>
  count(tx, accountId, INBOUND_METRIC, NO_HOUR, delta)

/** Deletes an inbound email: nobody can read it any more, and a webhook that was not told yet is not told. Throws 404. */
export function deleteInbound(app: App, actor: Actor, id: string): Promise<void> {
  return app.commit.write((tx) => {
    const email = getInbound(tx.db, actor.accountId, id)
    sql(tx.db).delete.run(email.id)
    countInbound(tx, actor.accountId, -1)
    audit(app, tx, actor, {
      action: 'inbound_email.deleted',
      resourceType: 'inbound_email',
      resourceId: formatUuid(email.uuid),
    })
  })
}

/** The text of a stored body; null when there is none. Throws when it is no longer kept. */
export const bodyText = ({ content }: Pick<App, 'content'>, ref: number | null): string | null =>
  ref === null ? null : Buffer.from(content.get(ref)).toString('utf8')
