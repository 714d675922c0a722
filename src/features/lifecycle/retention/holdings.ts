/**
 * @module Lists the rows of each kind that vary in size, newest first, with the bytes that removing a row and all older
 * ones frees. Reads whole tables, so it runs in a Worker or a command.
 */
import type { Database } from 'bun:sqlite'
import { BROADCAST_STATES, type BroadcastState, stateCode } from '#features/sending/broadcasts/states.ts'
import { isOpen, STATUSES, statusCode } from '#features/sending/queue/status.ts'
import type { Millis } from '#platform/units.ts'
import type { BlobBytes } from './measure.ts'
import type { ScanName } from './scan.ts'

export interface Holding {
  readonly scan: ScanName
  readonly id: number
  readonly accountId: number
  /** Proportional to its bytes in the database. */
  readonly weight: number
  /** Bytes of its parts in the content stores. */
  readonly partBytes: number
  readonly changedAt: Millis
  /** Whether it is never removed for size. */
  readonly isKept: boolean
}

/** The columns that a source selects; omitted references: it has no such parts. */
interface HeldRow {
  readonly id: number
  readonly accountId: number
  readonly weight: number
  /** Position in the order of age. */
  readonly at: Millis
  readonly changedAt: Millis
  readonly isKept: number
  readonly htmlRef?: number | null
  readonly textRef?: number | null
  readonly headersRef?: number | null
  /** JSON. */
  readonly attachments?: string | null
  readonly rawRef?: number | null
}

/** A table, or a part of one. */
interface Source {
  readonly scan: ScanName
  /** Ends with a condition. */
  readonly select: string
  /** Whether `at` is not in the order of the ids; all rows are then read at once, so the table must be short. */
  readonly isUnordered?: true
}

const OPEN_STATUSES = STATUSES.filter(isOpen).map(statusCode).join(', ')
const ENDED_STATES: readonly BroadcastState[] = ['done', 'cancelled', 'failed']
const UNFINISHED_STATES = BROADCAST_STATES.filter((state) => !ENDED_STATES.includes(state))
  .map(stateCode)
  .join(', ')

/** Condition on an email. */
export const HAS_CONTENT = `(html_ref IS NOT NULL OR text_ref IS NOT NULL OR attachments LIKE '%"ref":%')`

const selectEmails = (columns: string, where: string): string =>
  `SELECT id, account_id AS accountId, created_at AS at, updated_at AS changedAt, status IN (${OPEN_STATUSES}) AS isKept, ${columns}
   FROM emails WHERE ${where}`
/** By their last change, because a broadcast is removed after its emails. */
const selectBroadcasts = (columns: string, where: string): string =>
  `SELECT id, account_id AS accountId, updated_at AS at, updated_at AS changedAt, state IN (${UNFINISHED_STATES}) AS isKept, ${columns}
   FROM broadcasts WHERE ${where}`
const RECEIVED_WEIGHT = '1500 + coalesce(octet_length(to_header), 0) + coalesce(octet_length(cc_header), 0)'
const RECEIVED_COLUMNS = `text_ref AS textRef, html_ref AS htmlRef, attachments, raw_ref AS rawRef, created_at AS at`
const selectInbound = (where: string): string =>
  `SELECT id, account_id AS accountId, updated_at AS changedAt, 0 AS isKept, headers_ref AS headersRef, ${RECEIVED_WEIGHT} AS weight, ${RECEIVED_COLUMNS}
   FROM inbound_emails NOT INDEXED WHERE ${where}`
/** With their search index. Unread messages are never removed for size. */
const MESSAGES = `SELECT id, (SELECT account_id FROM agent_mailboxes b WHERE b.id = mailbox_id) AS accountId, created_at AS changedAt,
   email_id IS NULL AND read_at IS NULL AS isKept, stripped_ref AS headersRef,
   ${RECEIVED_WEIGHT} + min(size_bytes, 65536) AS weight, ${RECEIVED_COLUMNS} FROM mailbox_messages NOT INDEXED WHERE TRUE`

/** Kinds whose rows vary in size; events are counted by number. */
export type HeldKind = 'content' | 'inbound' | 'logs'

/** The sources of each kind; those of one group are merged by age, and the last group is removed first. */
const SOURCES: Readonly<Record<HeldKind, readonly (readonly Source[])[]>> = {
  content: [
    [
      {
        scan: 'broadcast content',
        select: selectBroadcasts(
          '0 AS weight, html_ref AS htmlRef, text_ref AS textRef',
          '(html_ref IS NOT NULL OR text_ref IS NOT NULL)',
        ),
        isUnordered: true,
      },
      {
        scan: 'content',
        // The emails of a broadcast share its sources, which are removed after them.
        select: selectEmails(
          '0 AS weight, iif(broadcast_id IS NULL, html_ref, 0) AS htmlRef, iif(broadcast_id IS NULL, text_ref, 0) AS textRef, attachments',
          HAS_CONTENT,
        ),
      },
    ],
  ],
  inbound: [
    [
      { scan: 'inbound', select: selectInbound('route_id IS NOT NULL') },
      { scan: 'mailboxes', select: MESSAGES },
    ],
    [{ scan: 'inbound', select: selectInbound('route_id IS NULL') }],
  ],
  logs: [
    [
      {
        scan: 'broadcasts',
        select: selectBroadcasts(
          '400 + octet_length(subject) + octet_length(template_data) + coalesce(octet_length(extra), 0) AS weight',
          'TRUE',
        ),
        isUnordered: true,
      },
      {
        scan: 'emails',
        select: selectEmails(
          `200 * (1 + recipient_count) + octet_length(from_address) + octet_length(subject)
             + coalesce(octet_length(attachments), 0) + coalesce(octet_length(extra), 0) AS weight`,
          'TRUE',
        ),
      },
    ],
  ],
}

/** The stores of parts. A blob that several rows share counts for the newest. */
export interface Parts {
  readonly content: BlobBytes
  readonly rawMail: BlobBytes
}

/** The holdings of a kind, newest first; received mail that matched no route comes last, because it is removed first. */
export function* listHoldings(db: Database, kind: HeldKind, { content, rawMail }: Parts): Generator<Holding> {
  // A blob shared by sent and received mail counts for both.
  content.reset()
  rawMail.reset()
  for (const sources of SOURCES[kind])
    for (const [scan, row] of mergeNewest(sources.map((source) => readNewestFirst(db, source)))) {
      let partBytes = rawMail.countOnce(row.rawRef)
      for (const ref of [row.htmlRef, row.textRef, row.headersRef, ...listRefs(row.attachments)])
        partBytes += content.countOnce(ref)
      const { id, accountId, weight, changedAt } = row
      yield { scan, id, accountId, weight, partBytes, changedAt, isKept: row.isKept === 1 }
    }
}

/** `"ref":123` in JSON that we write. */
const REF = /"ref":(\d+)/g

const listRefs = (attachments: string | null | undefined): readonly number[] =>
  attachments ? Array.from(attachments.matchAll(REF), ([, ref]) => Number(ref)) : []

type ScannedRow = readonly [ScanName, HeldRow]

const BATCH_SIZE = 10_000

/** In batches with one statement each: a long read would keep the write-ahead log from being truncated. */
function* readNewestFirst(db: Database, { scan, select, isUnordered }: Source): Generator<ScannedRow, undefined> {
  if (isUnordered) {
    for (const row of db.query<HeldRow, []>(`${select} ORDER BY at DESC`).all()) yield [scan, row]
    return
  }
  const batch = db.query<HeldRow, [number]>(`${select} AND id < ? ORDER BY id DESC LIMIT ${BATCH_SIZE}`)
  for (let before: number | undefined = Number.MAX_SAFE_INTEGER; before !== undefined; ) {
    const rows: HeldRow[] = batch.all(before)
    for (const row of rows) yield [scan, row]
    before = rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id
  }
}

/** Rows of the same time come in the order of the sources. */
function* mergeNewest(sources: readonly Iterator<ScannedRow, undefined>[]): Generator<ScannedRow> {
  const heads = sources.map((source) => ({ source, next: source.next().value }))
  for (;;) {
    const at = Math.max(...heads.map(({ next }) => next?.[1].at ?? Number.NEGATIVE_INFINITY))
    const head = heads.find(({ next }) => next?.[1].at === at)
    if (!head?.next) return
    yield head.next
    head.next = head.source.next().value
  }
}
