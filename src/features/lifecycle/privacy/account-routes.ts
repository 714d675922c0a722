/** @module DELETE /v1/account and its export: paths, shapes and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { AppError } from '#platform/errors.ts'
import { ownersOnly } from '#platform/http/access.ts'
import { fileResponseSpec } from '#platform/http/download.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { DataBody, Text, Uuid } from '#platform/http/schemas.ts'
import { deleteAccount } from './delete-account.ts'
import { createAccountExport } from './export.ts'
import { AccountExport } from './model.ts'

const CONFIRMATION = 'DELETE'
const administers = describeWith('account:admin')

const Deleted = Type.Object({
  message: Text('What happens next.'),
  account_id: Uuid({ description: 'Id of the account.' }),
})

export const accountExportRoutes = (app: App) => {
  const exportAccount = createAccountExport(app)
  return new Elysia({ prefix: '/v1/account', tags: ['Account'] })
    .use(authenticated)
    .get('/export', ({ actor, request }) => exportAccount(actor, request), {
      detail: administers(
        'Export the account',
        'Everything that the account has, as one streamed JSON text: `data` with account, domains, templates, webhooks, suppressions, contact_lists, contacts, signup_forms, emails, events, inbound and more, and `exported_at`. No bodies of emails and received messages, and no secrets. One completed export an hour.',
        fileResponseSpec('The account.', 'application/json', AccountExport),
      ),
    })
}

export const accountDeletionRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/account', tags: ['Account'] }).use(authenticated).delete(
    '/',
    async ({ actor, request, status }) => {
      if (request.headers.get('x-confirm-delete') !== CONFIRMATION)
        throw new AppError(
          400,
          'confirmation_missing',
          'X-Confirm-Delete must be DELETE to delete the account; nothing was deleted.',
        )
      await deleteAccount(app, actor, getAccount(app.config, app.db, actor.accountId))
      return status(
        202,
        dataBody({
          message: 'The account is deactivated. Its data is being deleted and cannot be restored.',
          account_id: actor.accountUuid,
        }),
      )
    },
    {
      response: { 202: DataBody(Deleted) },
      detail: administers(
        'Delete the account',
        'Requires the header X-Confirm-Delete: DELETE. Immediately, its keys and sessions get a 401, its waiting mail is cancelled and mail to its domains is rejected; then all of its data is deleted, including that of its sub-accounts. This cannot be undone.',
        {
          ...errorResponses({
            400: ['confirmation_missing', 'The header X-Confirm-Delete is missing or is not DELETE.'],
          }),
          ...ownersOnly,
          parameters: [
            {
              name: 'X-Confirm-Delete',
              in: 'header' as const,
              required: true,
              description: 'Must be DELETE; anything else is a 400 `confirmation_missing`.',
              schema: { type: 'string' as const, enum: [CONFIRMATION] },
            },
          ],
        },
      ),
    },
  )
