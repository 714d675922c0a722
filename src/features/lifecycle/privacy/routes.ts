/**
 * @module /v1/gdpr, DELETE /v1/account and its export, and for operators the accounts that are being deleted: paths, shapes
 * and one call each.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith, operatorRoute } from '#features/core/app/http.ts'
import { showView } from '#features/core/audit-logs/audit.ts'
import type { RenderBodies } from '#features/sending/emails/wire.ts'
import { AppError } from '#platform/errors.ts'
import { errorResponses, ownersOnly } from '#platform/http/access.ts'
import { fileResponseSpec } from '#platform/http/download.ts'
import { dataBody, isoTime } from '#platform/http/envelope.ts'
import { Count, DataBody, Part, Text, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { deleteAccount, listOpenDeletions } from './delete-account.ts'
import { erasePerson } from './erase.ts'
import { createAccountExport, PARTS } from './export.ts'
import { exportPerson } from './person-export.ts'

const PersonQuery = Type.Object({
  email: Type.Optional(Text('The address of the person, URL-encoded, in any spelling.')),
})

const ErasureResult = Type.Object({
  data: Type.Object({
    email_address: Text('The address, in lower case; its domain in A-labels.'),
    rows_deleted: Count('Rows removed or emptied so far; the operation has the final number.'),
    message: Text('Human-readable progress.'),
  }),
  operation_id: Uuid({ description: 'Operation of the erasure; `GET /v1/operations/{id}` shows when it is complete.' }),
})

const Records = (description: string) => Type.Array(Type.Unknown(), { description })

const PersonExport = Type.Object({
  exported_at: Timestamp({ description: 'When it was begun.' }),
  data: Part('Data of the address.', {
    email_address: Text('The address, in lower case; its domain in A-labels.'),
    emails: Records('Emails to the address, as in the list of emails, with recipients, html_body and text_body.'),
    events: Records('Events of these emails, as in the detail of an email.'),
    suppressions: Records('Its entries in the suppression list.'),
    unsubscribe_events: Records('Its unsubscribe events.'),
    inbound_emails: Records('Received mail from and to it, with html_body and text_body.'),
    contacts: Records('Its contacts in all lists.'),
    sequences: Records('The sequences that it is or was in.'),
    mailbox_messages: Records('Messages of agent mailboxes from and to it, with html_body and text_body.'),
  }),
})

const AccountExport = Type.Object({
  exported_at: Timestamp({ description: 'When it was begun.' }),
  data: Part('All data of the account.', {
    account: Type.Unknown({ description: 'The account, as in GET /v1/account.' }),
    ...Object.fromEntries(
      Object.keys(PARTS).map((name) => [
        name,
        Records(`As in the list of ${name.replaceAll('_', ' ')}; oldest first.`),
      ]),
    ),
  }),
})

const tags = ['Privacy']
const administers = describeWith('account:admin')

/** @param renderedBodies renders bodies of broadcast emails */
export const privacyRoutes = (app: App, { renderedBodies }: { readonly renderedBodies: RenderBodies }) =>
  new Elysia({ prefix: '/v1/gdpr', tags })
    .use(authenticated)
    .get('/export', ({ actor, query, request }) => exportPerson(app, actor, query.email, { request, renderedBodies }), {
      query: PersonQuery,
      detail: administers(
        'Export the data of a person',
        'Everything that the account has of one address, with contents: `data` with email_address, emails, events, suppressions, unsubscribe_events, inbound_emails, contacts, sequences and mailbox_messages, and `exported_at`. Other recipients of the same emails are omitted. The response is streamed.',
        fileResponseSpec('The data of the person.', 'application/json', PersonExport),
      ),
    })
    .delete(
      '/erase',
      async ({ actor, query }) => {
        const { address, rows, isNearlyDone, operationId } = await erasePerson(app, actor, query.email)
        return {
          data: {
            email_address: address,
            rows_deleted: rows,
            message: isNearlyDone
              ? 'The address is no longer readable; its bytes in the files are being overwritten. The operation shows when that is complete.'
              : 'The address is being erased; the operation shows when that is complete.',
          },
          operation_id: operationId,
        }
      },
      {
        query: PersonQuery,
        response: ErasureResult,
        detail: administers(
          'Erase a person',
          'Removes one address from everything that the account has: waiting mail to it is cancelled; emails to it stay as empty records, so that quota and stats stay correct; events become tombstones; contacts, received mail, mailbox messages and captures are deleted; audit log entries that name it lose their personal fields. A suppression stays, as a keyed hash. Repeating the request while it runs restarts the search.',
        ),
      },
    )

const CONFIRMATION = 'DELETE'

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

const AccountDeletion = Type.Object({
  account_number: Count('Its number in the database; its id and name are deleted already.'),
  step: Text('What is being done: mail, rows, late, service, log or bytes.'),
  rows: Count('Rows removed so far.'),
  next_at: Timestamp({ description: 'When it continues.' }),
})

export const operatorDeletionRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).get(
    '/account-deletions',
    showView(app, 'account_deletions', () =>
      listOpenDeletions(app.db).map(({ accountId, step, rows, dueAt }) => ({
        account_number: accountId,
        step,
        rows,
        next_at: isoTime(dueAt),
      })),
    ),
    {
      response: DataBody(Type.Array(AccountDeletion)),
      detail: operatorRoute('List the accounts that are being deleted'),
    },
  )
