/** @module The route /v1/emails/:id/attempts. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { getEmail } from '#features/sending/emails/read.ts'
import { listAttempts } from '#features/sending/queue/attempts.ts'
import { pageBody } from '#platform/http/envelope.ts'
import { PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import { Attempt, attemptWire } from './attempt-model.ts'

/** The dialogue of a recent accepted message, by row id of its recipient. */
export type FindDialogue = (recipientId: number) => string | undefined

export const attemptRoutes = (app: App, { findDialogue }: { readonly findDialogue: FindDialogue }) =>
  new Elysia({ prefix: '/v1/emails' }).use(authenticated).get(
    '/:id/attempts',
    ({ actor, params, query }) => {
      const email = getEmail(app.db, actor.accountId, params.id)
      const page = parsePage(query)
      const { attempts, total } = listAttempts(app.db, email.id, page)
      const statuses = new Map(email.recipients.map(({ id, status }) => [id, status]))
      return pageBody(
        attempts.map((attempt) =>
          attemptWire(attempt, {
            status: statuses.get(attempt.recipientId) ?? email.status,
            dialogue: attempt.type === 'delivered' ? findDialogue(attempt.recipientId) : undefined,
          }),
        ),
        { ...page, total },
      )
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the email.' }) }),
      query: PageQuery,
      response: PageBody(Attempt),
      detail: {
        summary: 'List the delivery attempts of an email',
        description:
          'Newest first: server, TLS, timings, the SMTP dialogue, and who must act. Of attempts that did not deliver, the last 10 of each recipient, the last 3 with their dialogue.',
        tags: ['Emails'],
        ...requires('emails:read'),
      },
    },
  )
