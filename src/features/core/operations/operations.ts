/**
 * @module Creates, updates and reads operations: long-running and bulk work as the API shows it. The only writer of
 * `operations`. Has the routes of /v1/operations.
 */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { insertSql, newestFirst, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import { dataBody, pageById, toWire } from '#platform/http/envelope.ts'
import { DataBody, Nullable, PageBody, PageQuery, parsePage, Text, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid, newUuid, parseUuid } from '#platform/ids.ts'
import { days, type Millis } from '#platform/units.ts'
import type { operations } from './tables.ts'

export type OperationStatus = 'pending' | 'processing' | 'completed' | 'failed'

export interface NewOperation {
  readonly type: 'batch' | 'broadcast' | 'newsletter_send' | 'bulk_import' | 'account_deletion' | 'gdpr_erase'
  readonly status: OperationStatus
  readonly total: number
  readonly completed?: number
  readonly failed?: number
  readonly errorSummary?: string | null
  readonly metadata?: Readonly<Record<string, unknown>>
}

/** Progress of an operation; omitted fields, also those of the metadata, keep their value. */
export type OperationProgress = Partial<Omit<NewOperation, 'type'>>

export type Operation = Readonly<Omit<typeof operations.$inferSelect, 'accountId' | 'operationType'>> & {
  readonly type: string
}

const COLUMNS = `id, uuid, operation_type AS type, status, total_items AS totalItems, completed_items AS completedItems, failed_items AS failedItems,
  error_summary AS errorSummary, metadata, created_at AS createdAt, updated_at AS updatedAt, completed_at AS completedAt, expires_at AS expiresAt`

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<Operation, [Uint8Array, number]>(
    `SELECT ${COLUMNS} FROM operations WHERE uuid = ? AND account_id = ?`,
  ),
  list: newestFirst<Operation, [number]>(db, `SELECT ${COLUMNS} FROM operations`, 'operations WHERE account_id = ?'),
  removeAll: db.prepare('DELETE FROM operations WHERE account_id = ?'),
  insert: db.prepare<{ id: number }, [Omit<typeof operations.$inferSelect, 'id'>]>(
    `${insertSql('operations', 'uuid accountId operationType status totalItems completedItems failedItems errorSummary metadata createdAt updatedAt completedAt expiresAt')} RETURNING id`,
  ),
  progress: db.prepare(
    `UPDATE operations SET status = coalesce(?1, status), total_items = coalesce(?2, total_items), completed_items = coalesce(?3, completed_items),
     failed_items = coalesce(?4, failed_items), error_summary = iif(?5, ?6, error_summary), metadata = iif(?7 IS NULL, metadata, json_patch(coalesce(metadata, '{}'), ?7)), updated_at = ?8,
     completed_at = iif(?1 IN ('completed', 'failed'), ?8, completed_at) WHERE id = ?9 AND status IN ('pending', 'processing')`,
  ),
  after: db.prepare<OldOperation, [number, number]>(`${SELECT} WHERE id > ? ORDER BY id LIMIT ?`),
  byId: db.prepare<OldOperation, [number]>(`${SELECT} WHERE id = ?`),
  // The row with the largest id stays: its id would otherwise be reused, and emails refer to operations by id.
  delete: db.prepare('DELETE FROM operations WHERE id = ? AND id < (SELECT max(id) FROM operations)'),
}))

/** Limits error summaries, which may quote long texts. */
const MAX_SUMMARY_LENGTH = 1000

const truncateSummary = (summary: string | null): string | null =>
  summary === null ? null : summary.slice(0, MAX_SUMMARY_LENGTH).toWellFormed()

/** How long after its creation an operation is listed. */
const RETENTION_MS = days(90)

/** Inserts an operation. If it is `completed` or `failed`, its end time is now. */
export function insertOperation(app: App, tx: Tx, actor: Actor, operation: NewOperation): { id: number; uuid: string } {
  const uuid = newUuid()
  const now = app.eventTime()
  const hasEnded = operation.status === 'completed' || operation.status === 'failed'
  const row = sql(tx.db).insert.get({
    uuid,
    accountId: actor.accountId,
    operationType: operation.type,
    status: operation.status,
    totalItems: operation.total,
    completedItems: operation.completed ?? 0,
    failedItems: operation.failed ?? 0,
    errorSummary: truncateSummary(operation.errorSummary ?? null),
    metadata: operation.metadata ? JSON.stringify(operation.metadata) : null,
    createdAt: now,
    updatedAt: now,
    completedAt: hasEnded ? now : null,
    expiresAt: now + RETENTION_MS,
  })
  if (!row) throw new Error('operation not stored')
  return { id: row.id, uuid: formatUuid(uuid) }
}

/**
 * Records the progress of an operation; status `completed` or `failed` ends it. Returns false and changes nothing when
 * the operation has already ended.
 */
export function updateOperationProgress(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  id: number,
  progress: OperationProgress,
): boolean {
  const { changes } = sql(tx.db).progress.run(
    progress.status ?? null,
    progress.total ?? null,
    progress.completed ?? null,
    progress.failed ?? null,
    progress.errorSummary === undefined ? 0 : 1,
    truncateSummary(progress.errorSummary ?? null),
    progress.metadata ? JSON.stringify(progress.metadata) : null,
    app.eventTime(),
    id,
  )
  return changes === 1
}

/** The account's operation with this id; undefined if there is none. */
export function findOperation(db: Database, accountId: number, id: string): Operation | undefined {
  const uuid = parseUuid(id)
  return (uuid && sql(db).byUuid.get(uuid, accountId)) ?? undefined
}

/** The account's operation with this id; throws 404. */
export function getOperation(db: Database, accountId: number, id: string): Operation {
  const operation = findOperation(db, accountId, id)
  if (!operation) throw notFound('operation_not_found', 'Operation not found.')
  return operation
}

/** A page of the account's operations, newest first. The total is counted in the index. */
export const listOperations = (db: Database, accountId: number, page: RowWindow) => sql(db).list(page, accountId)

/** Deletes all operations of a deleted account. */
export const deleteOperationsOfAccount = (tx: Tx, accountId: number): void => void sql(tx.db).removeAll.run(accountId)

/** The fields of an operation that retention reads. */
export type OldOperation = Readonly<Pick<typeof operations.$inferSelect, 'id' | 'status' | 'createdAt' | 'expiresAt'>>

const SELECT = 'SELECT id, status, created_at AS createdAt, expires_at AS expiresAt FROM operations'

/** Operations after a row id, in order; row ids grow with created_at. */
export const listOperationsAfter = (db: Database, id: number, limit: number): OldOperation[] =>
  sql(db).after.all(id, limit)

export const findOldOperation = (db: Database, id: number): OldOperation | undefined =>
  sql(db).byId.get(id) ?? undefined

/** Whether an operation has ended and expired at `now`. */
export const isExpired = ({ status, expiresAt }: OldOperation, now: Millis): boolean =>
  (status === 'completed' || status === 'failed') && expiresAt < now

/** Deletes an operation to which nothing refers any more. Returns false for the newest operation, which stays. */
export const deleteOperation = (tx: Tx, id: number): boolean => sql(tx.db).delete.run(id).changes === 1

export const OperationRecord = Type.Object({
  id: Uuid({ description: 'Id of the operation.' }),
  account_id: Uuid({ description: 'Account that started the operation.' }),
  operation_type: Text('batch, broadcast, newsletter_send, bulk_import, account_deletion or gdpr_erase.'),
  status: Type.String({ description: 'pending, processing, completed or failed.' }),
  total_items: Type.Integer({ description: 'Number of items, invalid ones included.' }),
  completed_items: Type.Integer({ description: 'Completed items.' }),
  failed_items: Type.Integer({ description: 'Items that were rejected or failed.' }),
  error_summary: Nullable(Type.Object({ message: Type.String({ description: 'One sentence.' }) }), {
    description: 'The error; null when there is none.',
  }),
  metadata: Nullable(Type.Unknown(), {
    description:
      'Details. For bulk_import: list_id, confirmed, inserted, duplicates, errors (line and error of the first 100). For broadcast and newsletter_send: contact_list_id, subject (not rendered), sandbox (true: only captured), state, begins_at, handed_over, left_out and, for a single operation, emails (number per status). Other types have none.',
  }),
  created_at: Timestamp({ description: 'When the operation started.' }),
  updated_at: Timestamp({ description: 'When the operation last changed.' }),
  completed_at: Nullable(Timestamp(), { description: 'When the operation ended; null: it has not ended.' }),
  expires_at: Timestamp({ description: 'Until when the operation is listed.' }),
})
export type OperationRecord = Static<typeof OperationRecord>

/** @param emails number of a broadcast's emails per status */
export const toOperationWire = (
  operation: Operation,
  accountUuid: string,
  emails?: Readonly<Record<string, number>>,
): OperationRecord =>
  toWire(OperationRecord, operation, {
    account_id: accountUuid,
    operation_type: operation.type,
    error_summary: toErrorSummary(operation.errorSummary ?? summariseFailures(emails)),
    metadata: toMetadata(operation, emails),
  })

const toErrorSummary = (message: string | null): OperationRecord['error_summary'] =>
  message === null ? null : { message }

/** Says how many emails of a broadcast failed: they may fail in delivery after its operation has completed. */
const summariseFailures = (emails: Readonly<Record<string, number>> | undefined): string | null =>
  emails?.['failed']
    ? `${emails['failed'] === 1 ? '1 email' : `${emails['failed']} emails`} failed; GET /v1/emails with this operation_id and status=failed lists them with their reasons.`
    : null

function toMetadata({ metadata }: Operation, emails: Readonly<Record<string, number>> | undefined): unknown {
  const stored: unknown = metadata === null ? null : JSON.parse(metadata)
  return emails ? { ...Object(stored), emails } : stored
}

const tags = ['Operations']

const reads = describeWith('emails:read')

export interface OperationRouteOptions {
  /** The number of a broadcast's emails per status, by the row id of its operation; undefined for other operations. */
  readonly countEmails: (accountId: number, operationId: number) => Readonly<Record<string, number>> | undefined
}

export const operationRoutes = (app: App, { countEmails: emailsOf }: OperationRouteOptions) =>
  new Elysia({ prefix: '/v1/operations', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { rows, total } = listOperations(app.db, actor.accountId, page)
        return pageById(rows, { ...page, total }, (operation) => toOperationWire(operation, actor.accountUuid))
      },
      {
        query: PageQuery,
        response: PageBody(OperationRecord),
        detail: reads('List operations', 'Batches, broadcasts and other bulk work, newest first.'),
      },
    )
    .get(
      '/:id',
      ({ actor, params }) => {
        const operation = getOperation(app.db, actor.accountId, params.id)
        return dataBody(toOperationWire(operation, actor.accountUuid, emailsOf(actor.accountId, operation.id)))
      },
      {
        params: Type.Object({ id: Type.String({ description: 'Id of the operation.' }) }),
        response: DataBody(OperationRecord),
        detail: reads('Get an operation', 'For a broadcast, `metadata.emails` is the number of its emails per status.'),
      },
    )
