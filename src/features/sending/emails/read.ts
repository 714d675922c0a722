/**
 * @module Reads emails: the list with its filters, the detail with recipients and events. Totals are sums of counters;
 * only the emails of one operation, and the two partial hours of a date filter, are counted in the table, by index.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { RecordedEvent } from '#features/core/events/model.ts'
import { type EventType, hourOf, toEventType } from '#features/core/events/record.ts'
import { type TrackingChoice, toTrackingChoice } from '#features/sending/queue/email.ts'
import { findRetryTime } from '#features/sending/queue/queue.ts'
import {
  ENGAGEMENTS,
  type Engagement,
  engagementBit,
  engagementIndex,
  isEngagedSql,
} from '#features/sending/queue/settle.ts'
import {
  RECIPIENT_KINDS,
  type RecipientKind,
  STATUSES,
  type Status,
  statusCode,
  statusName,
} from '#features/sending/queue/status.ts'
import type { emails, recipients } from '#features/sending/queue/tables.ts'
import { belowTimeAndId, prepareStatements, type RowWindow } from '#platform/db/open.ts'
import { MAX_OFFSET, notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { hours, type Millis } from '#platform/units.ts'

export interface StoredEmail
  extends Readonly<
    Pick<
      typeof emails.$inferSelect,
      | ('id' | 'uuid' | 'sandbox' | 'transactional' | 'from' | 'subject' | 'htmlRef' | 'textRef' | 'attachments')
      | ('extra' | 'scheduledAt' | 'deliveredAt' | 'engagement' | 'createdAt' | 'updatedAt')
    >
  > {
  readonly accountUuid: UuidBytes
  readonly domainUuid: UuidBytes | null
  readonly streamUuid: UuidBytes | null
  readonly operationUuid: UuidBytes | null
  readonly templateUuid: UuidBytes | null
  readonly status: Status
  readonly trackingOverride: TrackingChoice | null
  /** Whether the bodies of the email are template sources, which all emails of its broadcast share. */
  readonly isOfBroadcast: boolean
  readonly recipients: readonly StoredRecipient[]
}

export interface StoredRecipient
  extends Readonly<Omit<typeof recipients.$inferSelect, 'kind' | 'status' | 'waitNotedAt'>> {
  readonly kind: RecipientKind
  readonly status: Status
  /** When it is attempted next: `nextAt`, or later while its host or provider is not tried. */
  readonly retryAt: Millis | null
}

type EmailRow = Omit<StoredEmail, 'status' | 'trackingOverride' | 'recipients' | Flags> &
  Record<Flags | 'status', number> & { readonly trackingOverride: number | null }

type Flags = 'sandbox' | 'transactional' | 'isOfBroadcast'

type RecipientRow = Omit<StoredRecipient, 'kind' | 'status' | 'isCaptured' | 'retryAt'> &
  Record<'kind' | 'status' | 'isCaptured', number>

// The data of an erased email is gone, so its bodies cannot be rendered.
const SELECT_EMAIL = `SELECT emails.id, emails.uuid, accounts.uuid AS accountUuid, domains.uuid AS domainUuid, streams.uuid AS streamUuid,
  operations.uuid AS operationUuid, templates.uuid AS templateUuid, emails.status, emails.sandbox, emails.transactional,
  tracking_override AS trackingOverride, from_address AS "from", emails.subject,
  broadcast_id IS NOT NULL AND extra IS NOT NULL AS isOfBroadcast, emails.html_ref AS htmlRef, emails.text_ref AS textRef, emails.attachments, extra,
  scheduled_at AS scheduledAt, delivered_at AS deliveredAt, engagement, emails.created_at AS createdAt, emails.updated_at AS updatedAt
  FROM emails JOIN accounts ON accounts.id = emails.account_id
  LEFT JOIN domains ON domains.id = domain_id LEFT JOIN streams ON streams.id = stream_id LEFT JOIN operations ON operations.id = operation_id
  LEFT JOIN templates ON templates.id = template_id`

/** Row values make SQLite use the index: it finds the page by index alone, then joins. */
const selectPage = (where: string, source = 'emails') =>
  `${SELECT_EMAIL} WHERE emails.id IN (SELECT id FROM ${source} WHERE ${where} AND (created_at, id) < (?6, ?7) ORDER BY created_at DESC, id DESC LIMIT ?4 OFFSET ?5) ORDER BY emails.created_at DESC, emails.id DESC`

type Range = [accountId: number, from: Millis, to: Millis]
type Page = [...Range, limit: number, offset: number, belowTime: number, belowId: number]

/** A statement for each engagement, because its index is used only for its own condition. */
const prepareEngaged = <S>(status: string, prepare: (source: string, where: string) => S): Record<Engagement, S> =>
  Object.fromEntries(
    ENGAGEMENTS.map((engagement) => [
      engagement,
      prepare(
        `emails INDEXED BY ${engagementIndex(engagement)}`,
        `account_id = ?1 AND ${isEngagedSql(engagement)} AND status = coalesce(${status}, status) AND created_at BETWEEN ?2 AND ?3`,
      ),
    ]),
  ) as Record<Engagement, S>

type OfOperation = [Uint8Array, number, status: number | null, from: Millis, to: Millis, bit: number | null]
const OF_OPERATION = `operation_id = (SELECT id FROM operations WHERE uuid = ?1 AND account_id = ?2) AND status = coalesce(?3, status)
  AND created_at BETWEEN ?4 AND ?5 AND (?6 IS NULL OR engagement & ?6 <> 0)`

const engagedPages = prepareStatements((db) =>
  prepareEngaged('?8', (source, where) =>
    db.prepare<EmailRow, [...Page, status: number | null]>(selectPage(where, source)),
  ),
)
/** Limited, because a count in the index takes some 0.1 µs a row. */
const engagedCounts = prepareStatements((db) =>
  prepareEngaged('?5', (source, where) =>
    db.prepare<{ n: number }, [...Range, limit: number, status: number | null]>(
      `SELECT count(*) AS n FROM (SELECT 1 FROM ${source} WHERE ${where} LIMIT ?4)`,
    ),
  ),
)

const sql = prepareStatements((db) => ({
  emailOfRecipient: db.prepare<{ emailId: number; ownerId: number; accountId: number; isOfService: number }, [number]>(
    `SELECT emails.id AS emailId, coalesce(parent_id, accounts.id) AS ownerId, account_id AS accountId,
     coalesce(extra ->> '$.of_service', 0) AS isOfService FROM recipients JOIN emails ON emails.id = email_id
     JOIN accounts ON accounts.id = account_id WHERE recipients.id = ?`,
  ),
  byUuid: db.prepare<EmailRow, [Uint8Array, number]>(`${SELECT_EMAIL} WHERE emails.uuid = ? AND emails.account_id = ?`),
  page: db.prepare<EmailRow, Page>(selectPage('account_id = ?1 AND created_at BETWEEN ?2 AND ?3')),
  pageByStatus: db.prepare<EmailRow, [...Page, status: number]>(
    selectPage('account_id = ?1 AND status = ?8 AND created_at BETWEEN ?2 AND ?3'),
  ),
  pageOfOperation: db.prepare<EmailRow, [...OfOperation, number, number, number]>(
    `${SELECT_EMAIL} WHERE emails.id IN (SELECT id FROM emails WHERE ${OF_OPERATION} AND id < ?9 ORDER BY id DESC LIMIT ?7 OFFSET ?8) ORDER BY emails.id DESC`,
  ),
  countOfOperation: db.prepare<{ n: number }, OfOperation>(`SELECT COUNT(*) AS n FROM emails WHERE ${OF_OPERATION}`),
  newer: db.prepare<EmailRow, [number, number, number, number]>(
    `${SELECT_EMAIL} WHERE emails.id IN (SELECT id FROM emails WHERE account_id = ? AND (created_at, id) > (?, ?) ORDER BY created_at, id LIMIT ?) ORDER BY emails.created_at DESC, emails.id DESC`,
  ),
  betweenUuids: db.prepare<{ id: number }, [Uint8Array, Uint8Array, number]>(
    'SELECT id FROM emails WHERE uuid BETWEEN ? AND ? ORDER BY uuid LIMIT ?',
  ),
  byIds: db.prepare<EmailRow, [string]>(
    `${SELECT_EMAIL} WHERE emails.id IN (SELECT value FROM json_each(?)) ORDER BY emails.id DESC`,
  ),
  recipients: db.prepare<RecipientRow, [number]>(
    `SELECT id, email_id AS emailId, kind, address, mailbox, status, lane, attempts, next_at AS nextAt,
     delivery_started_at AS deliveryStartedAt, delivered_at AS deliveredAt, is_captured AS isCaptured, smtp_response AS smtpResponse,
     last_error AS lastError, sending_ip AS sendingIp, bounce_type AS bounceType, bounce_category AS bounceCategory, expires_at AS expiresAt, retry_from AS retryFrom
     FROM recipients WHERE email_id = ? ORDER BY id`,
  ),
  events: db.prepare<
    { seq: number; type: number; at: number; recipient: string | null; data: string | null; sandbox: number },
    [number, number]
  >(
    `SELECT seq, type, at, recipients.address AS recipient, data, sandbox
     FROM events JOIN emails ON emails.id = events.email_id LEFT JOIN recipients ON recipients.id = recipient_id
     WHERE events.email_id = ? AND events.account_id = ? ORDER BY seq`,
  ),
  lastEvent: db.prepare<{ type: number }, [number, number]>(
    'SELECT type FROM events WHERE email_id = ? AND account_id = ? ORDER BY seq DESC LIMIT 1',
  ),
  countHours: db.prepare<{ n: number | null }, [number, string, number, number]>(
    'SELECT SUM(value) AS n FROM counters WHERE account_id = ? AND metric = ? AND hour BETWEEN ? AND ?',
  ),
  countRows: db.prepare<{ n: number }, [number, number, number, number]>(
    'SELECT COUNT(*) AS n FROM emails WHERE account_id = ? AND status = ? AND created_at BETWEEN ? AND ?',
  ),
}))

/**
 * The email of a recipient, and its accounts: the owner, which is the parent of a sub-account, and the one that sent it
 * and may read it; undefined for system mail, which only its recipient may read.
 */
export function findEmailOfRecipient(db: Database, recipientId: number) {
  const found = sql(db).emailOfRecipient.get(recipientId)
  if (!found) return undefined
  const { emailId, ownerId, accountId, isOfService } = found
  return { emailId, ownerId, accountId: isOfService ? undefined : accountId }
}

export interface EmailFilter {
  readonly status: Status | undefined
  readonly engagement?: Engagement | undefined
  /** Inclusive limits of created_at. */
  readonly from: Millis
  readonly to: Millis
  /** Only emails of the operation with this public id; none if the operation is not the account's. */
  readonly operation?: UuidBytes | undefined
}

/** A page of an account's emails, newest first, and the total number of emails that match the filter. */
export function listEmails(
  db: Database,
  accountId: number,
  filter: EmailFilter,
  page: RowWindow,
): { emails: StoredEmail[]; total: number } {
  const { status, engagement, from, to, operation } = filter
  if (operation) return listEmailsOfOperation(db, accountId, { operation, status, engagement, from, to }, page)
  const below = belowTimeAndId(page)
  // SQLite uses only one upper limit to enter the index. So `until` must not be later than the time of the position.
  const until = Math.min(to, below[0])
  const window = [accountId, from, until, page.limit, page.offset, ...below] as const
  const code = status === undefined ? null : statusCode(status)
  if (engagement)
    return {
      emails: toStoredEmails(db, engagedPages(db)[engagement].all(...window, code)),
      total: engagedCounts(db)[engagement].get(accountId, from, to, MAX_COUNTED, code)?.n ?? 0,
    }
  const statuses: readonly Status[] = status === undefined ? STATUSES : [status]
  return {
    emails: toStoredEmails(db, code === null ? sql(db).page.all(...window) : sql(db).pageByStatus.all(...window, code)),
    total: statuses.reduce((sum, s) => sum + countEmails(db, accountId, s, from, to), 0),
  }
}

/** Totals of searches, and of emails with an engagement, end here: page numbers cannot reach more. */
export const MAX_COUNTED = MAX_OFFSET + 1

/** Emails of one operation; an index finds them, so no others are read. */
function listEmailsOfOperation(
  db: Database,
  accountId: number,
  { operation, status, engagement, from, to }: EmailFilter & { readonly operation: UuidBytes },
  page: RowWindow,
): { emails: StoredEmail[]; total: number } {
  const [, id] = belowTimeAndId(page)
  const code = status === undefined ? null : statusCode(status)
  const bit = engagement === undefined ? null : engagementBit(engagement)
  const parameters = [operation, accountId, code, from, to, bit] as const
  return {
    emails: toStoredEmails(db, sql(db).pageOfOperation.all(...parameters, page.limit, page.offset, id)),
    total: sql(db).countOfOperation.get(...parameters)?.n ?? 0,
  }
}

/** The emails of an account that were accepted right after one, up to `limit`, newest first. */
export const listEmailsAbove = (
  db: Database,
  accountId: number,
  { createdAt, id }: Pick<StoredEmail, 'createdAt' | 'id'>,
  limit: number,
): StoredEmail[] => toStoredEmails(db, sql(db).newer.all(accountId, createdAt, id, limit))

export function countEmails(db: Database, accountId: number, status: Status, from: Millis, to: Millis): number {
  const countInHours = (first: number, last: number) =>
    first > last ? 0 : (sql(db).countHours.get(accountId, `email:${status}`, first, last)?.n ?? 0)
  const countInRows = (first: Millis, last: Millis) =>
    first > last ? 0 : (sql(db).countRows.get(accountId, statusCode(status), first, last)?.n ?? 0)
  const firstWhole = Math.ceil(from / HOUR_MS)
  const lastWhole = hourOf(to + 1) - 1
  if (firstWhole > lastWhole) return countInRows(from, to)
  return (
    countInRows(from, firstWhole * HOUR_MS - 1) +
    countInHours(firstWhole, lastWhole) +
    countInRows((lastWhole + 1) * HOUR_MS, to)
  )
}

const HOUR_MS = hours(1)

/** Row ids of emails of any account whose public ids lie between two ids. */
export const findEmailIdsBetween = (db: Database, first: Uint8Array, last: Uint8Array, limit: number): number[] =>
  sql(db)
    .betweenUuids.all(first, last, limit)
    .map(({ id }) => id)

/** Emails by row id, newest first. */
export const readEmailsByIds = (db: Database, ids: readonly number[]): StoredEmail[] =>
  toStoredEmails(db, sql(db).byIds.all(JSON.stringify(ids)))

/** An account's email by public id, with its recipients; undefined if there is none. */
export function findEmail(db: Database, accountId: number, uuid: UuidBytes): StoredEmail | undefined {
  const row = sql(db).byUuid.get(uuid, accountId)
  return row ? toStoredEmail(db, row) : undefined
}

/** Like `findEmail`, for the id in a path; throws a 404 if there is none. */
export function getEmail(db: Database, accountId: number, id: string): StoredEmail {
  const email = findEmail(db, accountId, parseUuidParam(id, 'email_not_found', 'email'))
  if (!email) throw notFoundById('email_not_found', 'email')
  return email
}

export const readEmailEvents = (app: Pick<App, 'db'>, accountId: number, emailId: number): RecordedEvent[] =>
  sql(app.db)
    .events.all(emailId, accountId)
    .map(({ sandbox, ...row }) => ({ ...row, type: toEventType(row.type), isSandbox: sandbox === 1 }))

/** The type of an email's last event; undefined when its events were deleted because of their age. */
export function readLastEventType(db: Database, accountId: number, emailId: number): EventType | undefined {
  const row = sql(db).lastEvent.get(emailId, accountId)
  return row ? toEventType(row.type) : undefined
}

const toStoredEmails = (db: Database, rows: readonly EmailRow[]): StoredEmail[] =>
  rows.map((row) => toStoredEmail(db, row))

const toStoredEmail = (db: Database, row: EmailRow): StoredEmail => ({
  ...row,
  status: statusName(row.status),
  sandbox: row.sandbox === 1,
  transactional: row.transactional === 1,
  trackingOverride: row.trackingOverride === null ? null : toTrackingChoice(row.trackingOverride),
  isOfBroadcast: row.isOfBroadcast === 1,
  recipients: sql(db)
    .recipients.all(row.id)
    .map((recipient) => toStoredRecipient(db, recipient)),
})

const toStoredRecipient = (db: Database, row: RecipientRow): StoredRecipient => ({
  ...row,
  kind: RECIPIENT_KINDS[row.kind] ?? 'to',
  status: statusName(row.status),
  retryAt: row.lane === null || row.nextAt === null ? row.nextAt : findRetryTime(db, row.lane, row.nextAt),
  isCaptured: row.isCaptured === 1,
})
