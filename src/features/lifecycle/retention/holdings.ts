/**
 * @module Lists the rows that hold the bytes of each kind, newest first, with the bytes that removing a row and all
 * older ones frees. Reads whole tables, so it belongs with `measure.ts`.
 */
import type { Database } from 'bun:sqlite'
import { BROADCAST_STATES, type BroadcastState, stateCode } from '#features/sending/broadcasts/states.ts'
import { isOpen, STATUSES, statusCode } from '#features/sending/queue/status.ts'
import type { Millis } from '#platform/clock.ts'
import type { BlobBytes } from './blob-bytes.ts'
import type { DatabaseUse } from './measure.ts'
import type { ScanName } from './scan.ts'

export interface Holding {
  readonly scan: ScanName
  readonly id: number
  /** UNOWNED: of no account, such as mail for the operator. */
  readonly accountId: number
  readonly bytes: number
  /** Position in the order of age. */
  readonly at: Millis
  readonly changedAt: Millis
  /** Whether it is never removed for size. */
  readonly isKept: boolean
}

export const UNOWNED = 0

export interface HoldingSources {
  readonly db: Database
  readonly use: DatabaseUse
  readonly content: BlobBytes
  readonly rawMail: BlobBytes
}

/** Kinds whose rows vary in size; events are counted by number. */
export type HeldKind = 'content' | 'inbound' | 'logs'

/**
 * The holdings of a kind, newest first; received mail that matched no route comes last, because it is removed first.
 */
export function listHoldings(kind: HeldKind, sources: HoldingSources): Iterable<Holding> {
  // A blob shared by sent and received mail counts for both.
  sources.content.reset()
  sources.rawMail.reset()
  return { content: listContentHoldings, inbound: listInboundHoldings, logs: listLogHoldings }[kind](sources)
}

const OPEN_STATUSES = STATUSES.filter(isOpen).map(statusCode).join(', ')
const ENDED_STATES: readonly BroadcastState[] = ['done', 'cancelled', 'failed']
const UNFINISHED_STATES = BROADCAST_STATES.filter((state) => !ENDED_STATES.includes(state))
  .map(stateCode)
  .join(', ')

interface Attachments {
  /** JSON. */
  readonly attachments: string | null
}

interface RefRow extends Attachments {
  readonly id: number
  readonly accountId: number
  readonly htmlRef: number | null
  readonly textRef: number | null
  readonly createdAt: Millis
  readonly changedAt: Millis
  readonly isKept: number
}

/** `"ref":123` in JSON that we write. */
const REF = /"ref":(\d+)/g

function countAttachments(parts: BlobBytes, { attachments }: Attachments): number {
  let bytes = 0
  if (attachments !== null) for (const [, ref] of attachments.matchAll(REF)) bytes += parts.countOnce(Number(ref))
  return bytes
}

/** Condition on an email. */
export const HAS_CONTENT = `html_ref IS NOT NULL OR text_ref IS NOT NULL OR attachments LIKE '%"ref":%'`

/**
 * Emails with content, and the sources of broadcasts, which their emails share and which are removed after them.
 * Broadcasts are sorted by another column than the id, so their short rows are all read first: a statement that stays
 * open while emails are scanned would keep the write-ahead log from being truncated.
 */
function listContentHoldings({ db, content }: HoldingSources): Iterable<Holding> {
  const emails = readNewestFirst<RefRow & { ofBroadcast: number }>(
    db,
    `SELECT id, account_id AS accountId, html_ref AS htmlRef, text_ref AS textRef, attachments, created_at AS createdAt, updated_at AS changedAt,
       status IN (${OPEN_STATUSES}) AS isKept, broadcast_id IS NOT NULL AS ofBroadcast FROM emails`,
    HAS_CONTENT,
  )
  const broadcasts = db
    .query<Omit<RefRow, 'attachments'>, []>(
      `SELECT id, account_id AS accountId, html_ref AS htmlRef, text_ref AS textRef, updated_at AS createdAt, updated_at AS changedAt,
         state IN (${UNFINISHED_STATES}) AS isKept
       FROM broadcasts WHERE html_ref IS NOT NULL OR text_ref IS NOT NULL ORDER BY updated_at DESC`,
    )
    .all()
  const take = (row: Omit<RefRow, 'attachments'>): number =>
    content.countOnce(row.htmlRef) + content.countOnce(row.textRef)
  return mergeNewest(
    toHoldings(emails, 'content', (row) => (row.ofBroadcast ? 0 : take(row) + countAttachments(content, row))),
    toHoldings(broadcasts, 'broadcast content', take),
  )
}

/**
 * Relative weight of a row of `emails` with its recipients. Only the proportions matter, because the total size is
 * measured.
 */
const EMAIL_WEIGHT = `200 * (1 + recipient_count) + octet_length(from_address) + octet_length(subject) + coalesce(octet_length(attachments), 0)
  + coalesce(octet_length(extra), 0)`
const BROADCAST_WEIGHT = '400 + octet_length(subject) + octet_length(template_data) + coalesce(octet_length(extra), 0)'

interface LogRow {
  readonly id: number
  readonly accountId: number
  readonly weight: number
  readonly createdAt: Millis
  readonly changedAt: Millis
  readonly isKept: number
}

function* listLogHoldings({ db, use }: HoldingSources): Generator<Holding> {
  const sum =
    db
      .query<{ n: number | null }, []>(
        `SELECT (SELECT total(${EMAIL_WEIGHT}) FROM emails) + (SELECT total(${BROADCAST_WEIGHT}) FROM broadcasts) AS n`,
      )
      .get()?.n ?? 0
  const weigh = ({ weight }: LogRow): number => (use.groups.logs * weight) / sum
  const emails = readNewestFirst<LogRow>(
    db,
    `SELECT id, account_id AS accountId, ${EMAIL_WEIGHT} AS weight, created_at AS createdAt, updated_at AS changedAt, status IN (${OPEN_STATUSES}) AS isKept
     FROM emails`,
  )
  const broadcasts = db
    .query<LogRow, []>(
      `SELECT id, account_id AS accountId, ${BROADCAST_WEIGHT} AS weight, updated_at AS createdAt, updated_at AS changedAt,
         state IN (${UNFINISHED_STATES}) AS isKept
       FROM broadcasts ORDER BY updated_at DESC`,
    )
    .all()
  yield* mergeNewest(toHoldings(emails, 'emails', weigh), toHoldings(broadcasts, 'broadcasts', weigh))
  if (sum === 0) yield unownedHolding(use.groups.logs)
}

interface ReceivedRow extends RefRow {
  readonly headersRef: number | null
  readonly rawRef: number | null
}

const SELECT_INBOUND = `SELECT id, account_id AS accountId, headers_ref AS headersRef, text_ref AS textRef, html_ref AS htmlRef, attachments, raw_ref AS rawRef,
  created_at AS createdAt, updated_at AS changedAt, 0 AS isKept FROM inbound_emails NOT INDEXED`
/** Unread messages are never removed for size. */
const SELECT_MESSAGES = `SELECT id, (SELECT account_id FROM agent_mailboxes b WHERE b.id = mailbox_id) AS accountId, stripped_ref AS headersRef,
  text_ref AS textRef, html_ref AS htmlRef, attachments, raw_ref AS rawRef, created_at AS createdAt, created_at AS changedAt,
  email_id IS NULL AND read_at IS NULL AS isKept FROM mailbox_messages NOT INDEXED`

/** Received data of no account: it counts towards the budget, and has limits of its own. */
const UNOWNED_REFS = [
  ['content', 'SELECT content_ref AS ref FROM received_reports'],
  [
    'rawMail',
    'SELECT raw_ref AS ref FROM operator_mail UNION ALL SELECT raw_ref FROM inbound_receipts UNION ALL SELECT raw_ref FROM complaints',
  ],
] as const

function* listInboundHoldings({ db, use, content, rawMail }: HoldingSources): Generator<Holding> {
  /** Bytes of an average row in the database, and of all rows. */
  const measureTable = (
    table: string,
    ...others: readonly string[]
  ): { readonly ofRow: number; readonly bytes: number } => {
    const count = db.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n ?? 0
    const bytes = count === 0 ? 0 : use.bytesOf(table, ...others)
    return { ofRow: bytes / Math.max(1, count), bytes }
  }
  const inbound = measureTable('inbound_emails')
  const messages = measureTable('mailbox_messages', 'mailbox_threads', 'mailbox_contacts', 'mailbox_search')
  const take = (row: ReceivedRow): number =>
    content.countOnce(row.headersRef) +
    content.countOnce(row.textRef) +
    content.countOnce(row.htmlRef) +
    countAttachments(content, row) +
    rawMail.countOnce(row.rawRef)
  const inboundRows = (where: string): Iterable<Holding> =>
    toHoldings(readNewestFirst<ReceivedRow>(db, SELECT_INBOUND, where), 'inbound', (row) => inbound.ofRow + take(row))
  const messageRows = toHoldings(
    readNewestFirst<ReceivedRow>(db, SELECT_MESSAGES),
    'mailboxes',
    (row) => messages.ofRow + take(row),
  )
  yield* mergeNewest(inboundRows('route_id IS NOT NULL'), messageRows)
  yield* inboundRows('route_id IS NULL')
  let bytes = Math.max(0, use.groups.inbound - inbound.bytes - messages.bytes)
  for (const [store, sql] of UNOWNED_REFS)
    for (const { ref } of db.query<{ ref: number | null }, []>(sql).all())
      bytes += { content, rawMail }[store].countOnce(ref)
  yield unownedHolding(bytes)
}

const unownedHolding = (bytes: number): Holding => ({
  scan: 'inbound',
  id: 0,
  accountId: UNOWNED,
  bytes,
  at: 0,
  changedAt: 0,
  isKept: true,
})

type HoldingRow = Pick<RefRow, 'id' | 'accountId' | 'createdAt' | 'changedAt' | 'isKept'>

function* toHoldings<Row extends HoldingRow>(
  rows: Iterable<Row>,
  scan: ScanName,
  bytesOf: (row: Row) => number,
): Generator<Holding> {
  for (const row of rows) {
    const { id, accountId, createdAt: at, changedAt } = row
    yield { scan: scan, id, accountId, bytes: bytesOf(row), at, changedAt, isKept: row.isKept === 1 }
  }
}

const BATCH_SIZE = 10_000

/**
 * Rows by descending id, in batches with one statement each: a long read would keep the write-ahead log from being
 * truncated.
 */
function* readNewestFirst<Row extends { readonly id: number }>(
  db: Database,
  select: string,
  where = 'TRUE',
): Generator<Row> {
  const batch = db.query<Row, [number]>(`${select} WHERE id < ? AND (${where}) ORDER BY id DESC LIMIT ${BATCH_SIZE}`)
  for (let before: number | undefined = Number.MAX_SAFE_INTEGER; before !== undefined; ) {
    const rows: Row[] = batch.all(before)
    yield* rows
    before = rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id
  }
}

/** Merges two sequences, newest first. */
function* mergeNewest(a: Iterable<Holding>, b: Iterable<Holding>): Generator<Holding> {
  const [iteratorA, iteratorB] = [a[Symbol.iterator](), b[Symbol.iterator]()]
  let [nextA, nextB] = [iteratorA.next(), iteratorB.next()]
  while (!nextA.done || !nextB.done) {
    if (nextB.done || (!nextA.done && nextA.value.at > nextB.value.at)) {
      if (!nextA.done) yield nextA.value
      nextA = iteratorA.next()
    } else {
      yield nextB.value
      nextB = iteratorB.next()
    }
  }
}
