/**
 * @module Reads the broadcasts of an account, sent with POST /v1/emails/broadcast or as newsletters: a page of them,
 * one, and what its readers did. Never writes.
 */
import type { Database } from 'bun:sqlite'
import { type EventType, toEventCode, toEventType } from '#features/core/events/record.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { belowId, type RowWindow } from '#platform/db/row-window.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { type BroadcastState, IS_OPEN, stateCode, stateName } from './states.ts'
import type { broadcasts } from './tables.ts'

type Columns = Pick<
  typeof broadcasts.$inferSelect,
  | ('id' | 'from' | 'subject' | 'state' | 'sandbox' | 'total' | 'handedOver' | 'leftOut')
  | ('dueAt' | 'error' | 'createdAt' | 'updatedAt')
>

/** A broadcast as the account sees it. */
export interface ListedBroadcast extends Readonly<Omit<Columns, 'state'>> {
  /** Row id and public id of its operation. */
  readonly operationId: number
  readonly operationUuid: UuidBytes
  readonly listUuid: UuidBytes
  readonly listName: string
  readonly isListDeleted: boolean
  readonly state: BroadcastState
}

type Row = Omit<ListedBroadcast, 'state' | 'sandbox' | 'isListDeleted'> &
  Readonly<Record<'state' | 'sandbox' | 'isListDeleted', number>>

const ENGAGEMENT_TYPES = ['opened', 'clicked', 'complained', 'unsubscribed'] as const satisfies readonly EventType[]

const COLUMNS = `b.id, operations.id AS operationId, operations.uuid AS operationUuid, contact_lists.uuid AS listUuid,
  contact_lists.name AS listName, contact_lists.deleted_at IS NOT NULL AS isListDeleted, b.from_address AS "from", b.subject, b.state, b.sandbox, b.total,
  b.handed_over AS handedOver, b.left_out AS leftOut, b.due_at AS dueAt, b.error, b.created_at AS createdAt, b.updated_at AS updatedAt`
// A list keeps its row when it is deleted.
const JOINED = `broadcasts b JOIN operations ON operations.id = b.operation_id JOIN contact_lists ON contact_lists.id = b.list_id`

const sql = prepareStatements((db) => ({
  page: db.prepare<Row, [number, number, number, number]>(
    `SELECT ${COLUMNS} FROM ${JOINED} WHERE b.id IN (SELECT id FROM broadcasts INDEXED BY broadcasts_account WHERE account_id = ? AND id < ?
     AND operation_id IS NOT NULL ORDER BY id DESC LIMIT ? OFFSET ?) ORDER BY b.id DESC`,
  ),
  count: db.prepare<{ n: number }, [number]>('SELECT COUNT(*) AS n FROM broadcasts WHERE account_id = ?'),
  // Few: their recipients are being copied.
  countHidden: db.prepare<{ n: number }, [number]>(
    `SELECT COUNT(*) AS n FROM broadcasts INDEXED BY broadcasts_open WHERE ${IS_OPEN} AND state = ${stateCode('fixing')} AND account_id = ?`,
  ),
  byUuid: db.prepare<Row, [Uint8Array, number]>(
    `SELECT ${COLUMNS} FROM ${JOINED} WHERE operations.uuid = ? AND b.account_id = ?`,
  ),
  sentAfter: db.prepare<{ last: number | null; n: number }, [number, number, number, number]>(
    `SELECT MAX(id) AS last, COUNT(*) AS n FROM (SELECT id FROM emails INDEXED BY emails_of_operation WHERE operation_id = ? AND status = ? AND id > ?
     ORDER BY id LIMIT ?)`,
  ),
  engaged: db.prepare<{ type: number; n: number }, [number, number, number, number]>(
    `SELECT type, COUNT(DISTINCT email_id) AS n FROM events INDEXED BY events_email WHERE email_id IN (
       SELECT id FROM emails INDEXED BY emails_of_operation WHERE operation_id = ? AND status = ? AND id > ? AND id <= ?)
     AND type IN (${ENGAGEMENT_TYPES.map((type) => toEventCode(type)).join(', ')}) GROUP BY type`,
  ),
}))

const toListed = (row: Row): ListedBroadcast => ({
  ...row,
  state: stateName(row.state),
  sandbox: row.sandbox !== 0,
  isListDeleted: row.isListDeleted !== 0,
})

/** A page of the account's broadcasts, newest first. */
export const listBroadcasts = (
  db: Database,
  accountId: number,
  page: RowWindow,
): { broadcasts: ListedBroadcast[]; total: number } => ({
  broadcasts: sql(db).page.all(accountId, belowId(page), page.limit, page.offset).map(toListed),
  total: (sql(db).count.get(accountId)?.n ?? 0) - (sql(db).countHidden.get(accountId)?.n ?? 0),
})

/** The account's broadcast with the public id of its operation; throws 404. */
export function getBroadcast(db: Database, accountId: number, id: string): ListedBroadcast {
  const row = sql(db).byUuid.get(parseUuidParam(id, 'broadcast_not_found', 'broadcast'), accountId)
  if (!row) throw notFoundById('broadcast_not_found', 'broadcast')
  return toListed(row)
}

/** Emails of a broadcast by what their readers did; each counts once. */
export type Engagement = Readonly<Record<(typeof ENGAGEMENT_TYPES)[number], number>>

/** Emails whose events are counted at a time: about 5 ms. */
const BATCH_SIZE = 1000

/**
 * Counts in batches, between which other requests are served: some seconds for a million emails. Counts what the stored
 * events show, so it becomes less when retention deletes them.
 */
export async function countEngagement(db: Database, { operationId }: ListedBroadcast): Promise<Engagement> {
  const counts: Record<string, number> = Object.fromEntries(ENGAGEMENT_TYPES.map((type) => [type, 0]))
  const sent = statusCode('sent')
  for (let after = 0; ; ) {
    const batch = sql(db).sentAfter.get(operationId, sent, after, BATCH_SIZE)
    if (!batch || batch.last === null) return counts as Engagement
    for (const { type, n } of sql(db).engaged.all(operationId, sent, after, batch.last)) {
      const name = toEventType(type)
      counts[name] = (counts[name] ?? 0) + n
    }
    if (batch.n < BATCH_SIZE) return counts as Engagement
    after = batch.last
    await yieldToEventLoop()
  }
}
