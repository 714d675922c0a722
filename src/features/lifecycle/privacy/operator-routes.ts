/** @module GET /v1/operator/account-deletions: accounts that are being deleted. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/view-log.ts'
import { dataBody, isoTime } from '#platform/http/envelope.ts'
import { Count, DataBody, Text, Timestamp } from '#platform/http/schemas.ts'
import { listOpenDeletions } from './delete-account.ts'

const AccountDeletion = Type.Object({
  account_number: Count('Its number in the database; its id and name are deleted already.'),
  step: Text('What is being done: mail, rows, late, service, log or bytes.'),
  rows: Count('Rows removed so far.'),
  next_at: Timestamp({ description: 'When it continues.' }),
})

export const operatorDeletionRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).get(
    '/account-deletions',
    async ({ actor }) => {
      await recordView(app, actor, { name: 'account_deletions' })
      return dataBody(
        listOpenDeletions(app.db).map(({ accountId, step, rows, dueAt }) => ({
          account_number: accountId,
          step,
          rows,
          next_at: isoTime(dueAt),
        })),
      )
    },
    {
      response: DataBody(Type.Array(AccountDeletion)),
      detail: operatorRoute('List the accounts that are being deleted'),
    },
  )
