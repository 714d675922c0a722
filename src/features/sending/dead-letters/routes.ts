/** @module The routes of /v1/dead-letters. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { describeRoute } from '#platform/http/access.ts'
import { parseQueryInteger } from '#platform/http/schemas.ts'
import { deleteDeadLetter, listDeadLetters, retryDeadLetter } from './dead-letters.ts'
import { DEFAULT_COUNT, DeadLetterList, DeadLetterQuery, deadLetterWire, MAX_LISTED, Retried } from './model.ts'

const tags = ['Dead letters']
const params = Type.Object({ id: Type.String({ description: 'Id (stream_id) of the dead letter.' }) })

export const deadLetterRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/dead-letters', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const count = parseQueryInteger('count', query.count, {
          fallback: DEFAULT_COUNT,
          minimum: 0,
          maximum: MAX_LISTED,
        })
        const { letters, total } = listDeadLetters(app.db, actor.accountId, count)
        return { data: letters.map((letter) => deadLetterWire(letter, actor.accountUuid)), total }
      },
      {
        query: DeadLetterQuery,
        response: DeadLetterList,
        detail: describeRoute(
          'List dead letters',
          requires('emails:read'),
          'Recipients whose delivery expired, failed because of the service or is uncertain, newest first.',
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteDeadLetter(app, actor, params.id), {
      params,
      detail: describeRoute('Delete a dead letter', requires('emails:send')),
    })
    .post(
      '/:id/retry',
      async ({ actor, params }) => {
        await retryDeadLetter(app, actor, params.id)
        return { message: 'The email was put back into the queue.' }
      },
      {
        params,
        response: Retried,
        detail: describeRoute(
          'Send a dead letter again',
          requires('emails:send'),
          'Puts the recipient back into the queue, with the full time until expiry. A recipient whose delivery is uncertain may get the email twice.',
        ),
      },
    )
