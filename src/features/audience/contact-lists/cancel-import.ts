/** @module Ends an import before its last line, at the request of its account. */
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { getOperation, type Operation, updateOperationProgress } from '#features/core/operations/operations.ts'
import { getList } from '#features/setup/contact-store/lists.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { deleteImport, findImportOfOperation } from './imports.ts'
import { removeSpooledFile } from './spool.ts'

export const CANCELLED_REASON =
  'The import was cancelled; the contacts imported before stay, and the file can be imported again.'

/**
 * Contacts imported so far stay; the importer deletes the file. Repeating it has no effect. Throws 404 for the list or
 * the import, 409 `import_over` when the import has ended.
 */
export const cancelImport = (app: App, actor: Actor, listId: string, operationId: string): Promise<Operation> =>
  app.commit.writeFromReserve((tx) => {
    const list = getList(tx.db, actor.accountId, listId)
    const operation = getOperation(tx.db, actor.accountId, operationId)
    if (readListId(operation) !== formatUuid(list.uuid)) throw notFound('operation_not_found', 'Operation not found.')
    if (operation.errorSummary === CANCELLED_REASON) return operation
    const job = findImportOfOperation(tx.db, operation.id)
    if (!job) throw conflict('import_over', 'The import has ended, so it can no longer be cancelled.')
    updateOperationProgress(app, tx, operation.id, { status: 'failed', errorSummary: CANCELLED_REASON })
    deleteImport(tx, job.id)
    audit(app, tx, actor, {
      action: 'contact.import_cancelled',
      resourceType: 'operation',
      resourceId: formatUuid(operation.uuid),
      metadata: { list_id: formatUuid(list.uuid) },
    })
    tx.afterCommit(() => {
      void removeSpooledFile(app, job.file).catch((error: unknown) =>
        app.log.error({ err: error, operation: operation.id }, 'file of a cancelled import not deleted'),
      )
      // The importer closes the file.
      app.importDue.emit()
    })
    return getOperation(tx.db, actor.accountId, operationId)
  })

/** The list of an import; undefined for other operations. */
const readListId = ({ type, metadata }: Operation): unknown =>
  type === 'bulk_import' ? (JSON.parse(metadata ?? '{}') as { list_id?: unknown }).list_id : undefined
