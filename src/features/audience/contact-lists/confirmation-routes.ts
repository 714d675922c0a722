/** @module /v1/contact-lists/{id}/contacts/{email}/confirmation: asks a contact to confirm once more. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { one } from '#platform/http/envelope.ts'
import { refuses } from '#platform/http/refusals.ts'
import { Nullable, One } from '#platform/http/schemas.ts'
import { LEAST_BETWEEN_CONFIRMATIONS_MS, MOST_CONFIRMATIONS_A_DAY } from './contact-mails.ts'
import { resendConfirmation } from './resend.ts'

const MINUTES = LEAST_BETWEEN_CONFIRMATIONS_MS / 60_000

export const contactConfirmationRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/contact-lists' }).use(authenticated).post(
    '/:id/contacts/:email/confirmation',
    async ({ actor, params, status }) => {
      await resendConfirmation(app, actor, params.id, params.email ?? '')
      return status(202, one({ message: 'The contact is asked to confirm.' }))
    },
    {
      params: Type.Object({
        id: Type.String({ description: 'Id of the list.' }),
        // Null when its encoding is broken; that names no address either.
        email: Nullable(Type.String(), { description: 'The address, URL-encoded, in any spelling.' }),
      }),
      response: { 202: One(Type.Object({ message: Type.String({ description: 'What happens now.' }) })) },
      detail: {
        summary: 'Send the confirmation again',
        description: `For a contact that is \`pending\`. The links of earlier confirmations no longer work. At most one in ${MINUTES} minutes and ${MOST_CONFIRMATIONS_A_DAY} a day.`,
        tags: ['Contact lists'],
        ...refuses({
          409: [
            'contact_active',
            'The contact has confirmed, or gets no mail (`contact_suppressed`), or left (`contact_unsubscribed`).',
          ],
          429: ['confirmation_too_often', 'The contact was asked a short while ago.'],
        }),
        ...requires('contacts:write'),
      },
    },
  )
