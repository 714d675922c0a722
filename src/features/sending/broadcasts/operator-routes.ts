/** @module /v1/operator/operations: batches, imports and broadcasts of all accounts. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findFilteredAccountId, getAccount } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery } from '#features/core/accounts/model.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/view-log.ts'
import { OperationRecord, toOperationWire } from '#features/core/operations/model.ts'
import { getOperation } from '#features/core/operations/operations.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { belowId } from '#platform/db/row-window.ts'
import { pageById } from '#platform/http/envelope.ts'
import { Count, PageBody, parsePage, StringEnum, TextOrNull } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'

interface Row {
  readonly id: number
  readonly uuid: Uint8Array
  readonly accountId: number
  readonly listName: string | null
  readonly failedEmails: number
}

/** ?1: an account, or null for all; ?2: whether only those in progress. */
const SELECTED = `operations WHERE account_id = coalesce(?1, account_id) AND (?2 = 0 OR status IN ('pending', 'processing'))`

const sql = prepareStatements((db) => ({
  page: db.prepare<Row, [number | null, number, number, number, number]>(
    `SELECT id, uuid, account_id AS accountId,
     (SELECT name FROM contact_lists WHERE uuid = unhex(coalesce(metadata ->> '$.contact_list_id', metadata ->> '$.list_id'), '-')) AS listName,
     (SELECT COUNT(*) FROM emails INDEXED BY emails_of_operation WHERE operation_id = operations.id AND status = ${statusCode('failed')}) AS failedEmails
     FROM ${SELECTED} AND id < ?3 ORDER BY id DESC LIMIT ?4 OFFSET ?5`,
  ),
  count: db.prepare<{ n: number }, [number | null, number]>(`SELECT COUNT(*) AS n FROM ${SELECTED}`),
}))

const OperatorOperation = Type.Object({
  ...OperationRecord.properties,
  account: Type.String({ description: 'Name of its account.' }),
  list_name: TextOrNull('Name of its contact list, also after the list was deleted; null: it has none.'),
  failed_emails: Count('Its emails that failed in this service.'),
})

const OperatorOperationQuery = Type.Object({
  ...OfAccountQuery.properties,
  open: Type.Optional(StringEnum(['true', 'false'], { description: 'true: only operations in progress.' })),
})

export const operatorOperationRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/operations' }).use(authenticated).get(
    '/',
    async ({ actor, query }) => {
      await recordView(app, actor, { name: 'operations' })
      const page = parsePage(query)
      const selection = [findFilteredAccountId(app, query.account_id) ?? null, query.open === 'true' ? 1 : 0] as const
      const rows = sql(app.db).page.all(...selection, belowId(page), page.limit, page.offset)
      const total = sql(app.db).count.get(...selection)?.n ?? 0
      return pageById(rows, { ...page, total }, (row) => toWire(app, row))
    },
    {
      query: OperatorOperationQuery,
      response: PageBody(OperatorOperation),
      detail: operatorRoute('List the operations of all accounts', 'Newest first.'),
    },
  )

function toWire({ config, db }: App, { uuid, accountId, listName, failedEmails }: Row) {
  const owner = getAccount(config, db, accountId)
  const operation = getOperation(db, accountId, formatUuid(uuid))
  return {
    ...toOperationWire(operation, formatUuid(owner.uuid)),
    account: owner.name,
    list_name: listName,
    failed_emails: failedEmails,
  }
}
