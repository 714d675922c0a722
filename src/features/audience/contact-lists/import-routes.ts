/** @module Contacts as CSV files, import and export. An export is read as fast as the client reads it, never held as a whole. */
import type { Database } from 'bun:sqlite'
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { EXPORT_WORK_UNITS } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import {
  getOperation,
  type Operation,
  OperationRecord,
  toOperationWire,
  updateOperationProgress,
} from '#features/core/operations/operations.ts'
import type { Contact } from '#features/setup/contact-store/find.ts'
import { getList } from '#features/setup/contact-store/lists.ts'
import {
  CONTACT_STATUSES,
  type ContactStatus,
  toContactStatus,
  toContactStatusCode,
} from '#features/setup/contact-store/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { errorResponses } from '#platform/http/access.ts'
import type { BodyStream } from '#platform/http/body-stream.ts'
import { CSV_TYPE, csvBody, csvResponseSpec, streamDownload } from '#platform/http/download.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody, StringEnum, Text, Uuid } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import { ANSWERS_DESCRIPTION, parseAnswers } from './answers.ts'
import { EXPORT_HEADER, formatExportLines } from './csv.ts'
import { deleteImport, findImportOfOperation, listOpenImports } from './imports.ts'
import { ImportPreviewRecord } from './model.ts'
import { removeSpooledFile } from './spool.ts'
import { MAX_PREVIEW_BYTES, previewImport, startImport } from './start-import.ts'

const CANCELLED_REASON =
  'The import was cancelled; the contacts imported before stay, and the file can be imported again.'

/**
 * Contacts imported so far stay; the file is deleted. Repeating it has no effect. Throws 404 for the list or
 * the import, 409 `import_over` when the import has ended.
 */
const cancelImport = (app: App, actor: Actor, listId: string, operationId: string): Promise<Operation> =>
  app.commit.writeFromReserve((tx) => {
    const list = getList(tx.db, actor.accountId, listId)
    const operation = getOperation(tx.db, actor.accountId, operationId)
    if (readListId(operation) !== formatUuid(list.uuid)) throw notFound('operation_not_found', 'Operation not found.')
    if (operation.errorSummary === CANCELLED_REASON) return operation
    const job = findImportOfOperation(tx.db, operation.id)
    if (!job) throw conflict('import_over', 'The import has ended, so it can no longer be cancelled.')
    updateOperationProgress(app, tx, operation.id, { status: 'failed', errorSummary: CANCELLED_REASON })
    deleteImport(tx, job.id)
    const metadata = { list_id: formatUuid(list.uuid) }
    auditChange(app, tx, actor, 'contact.import_cancelled', operation.uuid, metadata, 'operation')
    tx.afterCommit(
      () =>
        void removeSpooledFile(app, job.file).catch((error: unknown) =>
          app.log.error({ err: error, operation: operation.id }, 'file of a cancelled import not deleted'),
        ),
    )
    return getOperation(tx.db, actor.accountId, operationId)
  })

/** The list of an import; undefined for other operations. */
const readListId = ({ type, metadata }: Operation): unknown =>
  type === 'bulk_import' ? (JSON.parse(metadata ?? '{}') as { list_id?: unknown }).list_id : undefined

const tags = ['Contact lists']
const reads = describeWith('contacts:read')
const writes = describeWith('contacts:write')
const params = Type.Object({ id: Text('Id of the contact list.') })

const ImportBegun = Type.Object({
  operation_id: Uuid({
    description: 'Operation that imports the file; `GET /v1/operations/{id}` shows its progress.',
  }),
  message: Text('What happens now, in words.'),
})

const importParams = Type.Object({
  id: Text('Id of the contact list.'),
  operation_id: Text('Operation of the import.'),
})

const columnsParameter = Type.Optional(Type.String({ maxLength: 8000, description: ANSWERS_DESCRIPTION }))

export const contactFileRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/contact-lists', tags })
    .use(authenticated)
    .post(
      '/:id/contacts/import',
      async ({ actor, params, query, body, status }) => {
        const operationId = await startImport(app, actor, {
          listId: params.id,
          confirmed: query.confirmed === 'true',
          answers: parseAnswers(query.columns),
          body: body as BodyStream | undefined,
        })
        return status(
          202,
          dataBody({
            operation_id: operationId,
            message: 'The file is being imported; its operation shows the progress.',
          }),
        )
      },
      {
        params,
        query: Type.Object({
          confirmed: Type.Optional(
            StringEnum(['true', 'false'], {
              description:
                'Whether the contacts have already confirmed, so that a list with double opt-in sends them no confirmation requests.',
            }),
          ),
          columns: columnsParameter,
        }),
        response: { 202: DataBody(ImportBegun) },
        detail: writes(
          'Import contacts from CSV',
          'The response comes when the whole file is stored; its operation shows how many lines were imported and what is wrong with the first 100 others. Contacts that are already on the list keep their data and count as completed; their number is `metadata.duplicates`. A line that says unsubscribed, bounced or complained, in the words of this or another service, adds its contact with that status, suppresses the address, and stops a contact that is on the list. A file that may say so in words that are not known is a 422 `unclear_columns`, which says how to answer with `columns`.',
          {
            ...csvBody(
              'The first line names the columns: email (or e-mail, mail, address, email address), and optionally status, metadata (a JSON object), what other services call them, and others, which become metadata of that name; the times of an export are ignored. A single column of addresses needs no header. Separated by comma or semicolon, in UTF-8.',
              'csv-stream',
            ),
            ...errorResponses({
              415: ['unsupported_media_type', 'The body is not text/csv, or is compressed.'],
              429: ['too_many_imports', 'Too many imports of the account are unfinished.'],
              507: ['insufficient_storage', 'The server has no disk space left.'],
            }),
          },
        ),
      },
    )
    .post(
      '/:id/contacts/import/preview',
      async ({ actor, params, query, body }) =>
        dataBody(
          await previewImport(app, actor, params.id, body as Uint8Array | undefined, {
            isWhole: query.partial !== 'true',
            answers: parseAnswers(query.columns),
          }),
        ),
      {
        params,
        query: Type.Object({
          partial: Type.Optional(
            StringEnum(['true', 'false'], { description: 'Whether the body is only the beginning of the file.' }),
          ),
          columns: columnsParameter,
        }),
        response: DataBody(ImportPreviewRecord),
        detail: writes(
          'Preview an import of contacts',
          `What an import would read from the first ${MAX_PREVIEW_BYTES / KiB} KiB of a file; nothing is stored. What the import would reject as a whole is a 422 \`invalid_csv\`.`,
          csvBody('The file, or its beginning.'),
        ),
      },
    )
    .get(
      '/:id/imports',
      ({ actor, params }) => {
        const list = getList(app.db, actor.accountId, params.id)
        const operations = listOpenImports(app.db, list.id).map((id) => getOperation(app.db, actor.accountId, id))
        return dataBody(operations.map((operation) => toOperationWire(operation, actor.accountUuid)))
      },
      {
        params,
        response: DataBody(Type.Array(OperationRecord)),
        detail: reads(
          'List the unfinished imports of a list',
          'Newest first. `GET /v1/operations/{id}` shows one, also after its end.',
        ),
      },
    )
    .post(
      '/:id/imports/:operation_id/cancel',
      async ({ actor, params }) =>
        dataBody(toOperationWire(await cancelImport(app, actor, params.id, params.operation_id), actor.accountUuid)),
      {
        params: importParams,
        response: DataBody(OperationRecord),
        detail: writes(
          'Cancel an import',
          'Contacts imported so far stay. The file can be imported again: contacts that are on the list stay as they are.',
          errorResponses({ 409: ['import_over', 'The import has ended.'] }),
        ),
      },
    )
    .get(
      '/:id/contacts/export',
      ({ actor, params, query, request }) => {
        const list = getList(app.db, actor.accountId, params.id)
        app.workBudget.spend(actor.accountId, EXPORT_WORK_UNITS)
        return streamDownload(app, request, () => exportChunks(app.db, list.id, query.status), {
          contentType: `${CSV_TYPE}; charset=utf-8`,
          filename: 'contacts.csv',
        })
      },
      {
        params,
        query: Type.Object({
          status: Type.Optional(StringEnum(CONTACT_STATUSES, { description: 'Only contacts with this status.' })),
        }),
        detail: reads(
          'Export the contacts as CSV',
          'Oldest first; an import can read it again. An apostrophe precedes values that a spreadsheet would treat as a formula; an import removes it.',
          csvResponseSpec('Columns email, status, subscribed_at, unsubscribed_at, created_at and metadata.'),
        ),
      },
    )

/** Rows read and written at a time: below 1 ms, and at most 1.6 MB of metadata. */
const BATCH_SIZE = 100

type Row = Pick<Contact, 'id' | 'email' | 'subscribedAt' | 'unsubscribedAt' | 'createdAt' | 'metadata'> & {
  readonly status: number
}

const COLUMNS = `id, coalesce(email, address_key) AS email, status, subscribed_at AS subscribedAt, unsubscribed_at AS unsubscribedAt,
  created_at AS createdAt, metadata`

const sql = prepareStatements((db) => ({
  after: db.prepare<Row, [number, number, number]>(
    `SELECT ${COLUMNS} FROM contacts INDEXED BY contacts_list WHERE list_id = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
  afterOfStatus: db.prepare<Row, [number, number, number, number]>(
    `SELECT ${COLUMNS} FROM contacts INDEXED BY contacts_status WHERE list_id = ? AND status = ? AND id > ? ORDER BY id LIMIT ?`,
  ),
}))

/** The file of a list, oldest contact first. Concurrent changes may or may not be included. */
export function* exportChunks(db: Database, listId: number, status?: ContactStatus): Generator<Uint8Array> {
  yield Buffer.from(EXPORT_HEADER)
  for (let after = 0; ; ) {
    const rows =
      status === undefined
        ? sql(db).after.all(listId, after, BATCH_SIZE)
        : sql(db).afterOfStatus.all(listId, toContactStatusCode(status), after, BATCH_SIZE)
    const last = rows.at(-1)
    if (!last) return
    yield Buffer.from(formatExportLines(rows.map((row) => ({ ...row, status: toContactStatus(row.status) }))))
    after = last.id
  }
}
