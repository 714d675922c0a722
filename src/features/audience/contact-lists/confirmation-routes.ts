/** @module /v1/contact-lists/{id}/contacts/{email}/confirmation: repeats a contact's confirmation request. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { DataBody, Nullable } from '#platform/http/schemas.ts'
import { resendConfirmation } from './resend.ts'
import { MAX_CONFIRMATIONS_PER_DAY, MIN_CONFIRMATION_INTERVAL_MS } from './subscription-mails.ts'

const MINUTES = MIN_CONFIRMATION_INTERVAL_MS / 60_000

export const contactConfirmationRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/contact-lists' }).use(authenticated).post(
    '/:id/contacts/:email/confirmation',
    async ({ actor, params, status }) => {
      await resendConfirmation(app, actor, params.id, params.email ?? '')
      return status(202, dataBody({ message: 'A confirmation request is being sent to the contact.' }))
    },
    {
      params: Type.Object({
        id: Type.String({ description: 'Id of the list.' }),
        // Null when its percent-encoding is invalid; then it is not an address either.
        email: Nullable(Type.String(), { description: 'The address, URL-encoded, in any spelling.' }),
      }),
      response: { 202: DataBody(Type.Object({ message: Type.String({ description: 'What happens now.' }) })) },
      detail: {
        summary: 'Send the confirmation again',
        description: `For a contact that is \`pending\`. The links of earlier confirmations no longer work. At most one in ${MINUTES} minutes and ${MAX_CONFIRMATIONS_PER_DAY} a day.`,
        tags: ['Contact lists'],
        ...errorResponses({
          409: [
            'contact_active',
            'The contact has confirmed, is suppressed (`contact_suppressed`), or has left (`contact_unsubscribed`).',
          ],
          429: ['confirmation_too_often', 'The last confirmation request was sent a short while ago.'],
        }),
        ...requires('contacts:write'),
      },
    },
  )
