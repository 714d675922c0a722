/** @module /v1/gdpr: paths, shapes and one call each. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { streamedResponseSpec } from '#platform/http/json-stream.ts'
import { erasePerson } from './erase.ts'
import { ErasureResult, PersonExport, PersonQuery } from './model.ts'
import { exportPerson, type RenderedBodies } from './person-export.ts'

const tags = ['Privacy']

/** @param renderedBodies bodies of emails of broadcasts */
export const privacyRoutes = (app: App, { renderedBodies }: { readonly renderedBodies: RenderedBodies }) =>
  new Elysia({ prefix: '/v1/gdpr' })
    .use(authenticated)
    .get('/export', ({ actor, query, request }) => exportPerson(app, actor, query.email, { request, renderedBodies }), {
      query: PersonQuery,
      detail: {
        summary: 'Export what is known of a person',
        description:
          'Everything that the account has of one address, with contents: `data` with email_address, emails, events, suppressions, unsubscribe_events, inbound_emails, contacts and mailbox_messages, and `exported_at`. Other recipients of the same emails are left out. Written as you read it.',
        tags,
        ...streamedResponseSpec('What is known.', PersonExport),
        ...requires('account:admin'),
      },
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
              ? 'Nothing of the address can be read any more; its bytes in the files go now, and the operation tells when that is done.'
              : 'The address is being erased; the operation tells when that is done.',
          },
          operation_id: operationId,
        }
      },
      {
        query: PersonQuery,
        response: ErasureResult,
        detail: {
          summary: 'Erase a person',
          description:
            'Removes one address from everything that the account has: mail that waits for it is cancelled; emails that had it among their recipients stay as empty records, so that quota and figures are right; events become tombstones; contacts, received mail, mailbox messages, captures and entries in the audit log that name it go. It stays suppressed if it was, by a keyed hash. To ask again while it runs changes nothing.',
          tags,
          ...requires('account:admin'),
        },
      },
    )
