/** @module /v1/gdpr: paths, shapes and one call each. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { fileResponseSpec } from '#platform/http/download.ts'
import { erasePerson } from './erase.ts'
import { ErasureResult, PersonExport, PersonQuery } from './model.ts'
import { exportPerson, type RenderedBodies } from './person-export.ts'

const tags = ['Privacy']
const administers = describeWith('account:admin')

/** @param renderedBodies renders bodies of broadcast emails */
export const privacyRoutes = (app: App, { renderedBodies }: { readonly renderedBodies: RenderedBodies }) =>
  new Elysia({ prefix: '/v1/gdpr', tags })
    .use(authenticated)
    .get('/export', ({ actor, query, request }) => exportPerson(app, actor, query.email, { request, renderedBodies }), {
      query: PersonQuery,
      detail: administers(
        'Export the data of a person',
        'Everything that the account has of one address, with contents: `data` with email_address, emails, events, suppressions, unsubscribe_events, inbound_emails, contacts and mailbox_messages, and `exported_at`. Other recipients of the same emails are omitted. The response is streamed.',
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
