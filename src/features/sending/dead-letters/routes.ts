/** @module The routes of /v1/dead-letters, and of /v1/operator/dead-letters: those of all accounts. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findFilteredAccountId, getAccount } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery } from '#features/core/accounts/model.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, parsePage, parseQueryInteger, StringEnum } from '#platform/http/schemas.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import {
  DEAD_LETTER_REASONS,
  type DeadLetter,
  deleteDeadLetter,
  getDeadLetter,
  listDeadLetters,
  retryDeadLetter,
  selectDeadLetters,
} from './dead-letters.ts'
import * as model from './model.ts'

const sends = describeWith('emails:send')

const tags = ['Dead letters']
const params = Type.Object({ id: Type.String({ description: 'Id (stream_id) of the dead letter.' }) })

export const deadLetterRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/dead-letters', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const count = parseQueryInteger('count', query.count, {
          fallback: model.DEFAULT_COUNT,
          minimum: 0,
          maximum: model.MAX_LISTED,
        })
        const { letters, total } = listDeadLetters(app.db, actor.accountId, count)
        return { data: letters.map((letter) => model.deadLetterWire(letter, actor.accountUuid)), total }
      },
      {
        query: model.DeadLetterQuery,
        response: model.DeadLetterList,
        detail: describeWith('emails:read')(
          'List dead letters',
          'Recipients whose delivery expired, failed because of the service or is uncertain, newest first.',
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteDeadLetter(app, actor, params.id), {
      params,
      detail: sends('Delete a dead letter'),
    })
    .post(
      '/:id/retry',
      async ({ actor, params }) => {
        await retryDeadLetter(app, actor, params.id)
        return { message: 'The email was put back into the queue.' }
      },
      {
        params,
        response: model.Retried,
        detail: sends(
          'Send a dead letter again',
          'Puts the recipient back into the queue, with the full time until expiry. A recipient whose delivery is uncertain may get the email twice.',
        ),
      },
    )

const OperatorDeadLetter = Type.Object({
  ...model.DeadLetterRecord.properties,
  account: Type.String({ description: 'Name of its account.' }),
})

const OperatorDeadLetterQuery = Type.Object({
  ...OfAccountQuery.properties,
  email_id: Type.Optional(Type.String({ description: 'Only of the email with this id.' })),
  reason: Type.Optional(StringEnum(DEAD_LETTER_REASONS, { description: 'Only with this failure_reason.' })),
})

/** An id that is none finds nothing. */
const NO_EMAIL = new Uint8Array()

export const operatorDeadLetterRoutes = (app: App) => {
  const toWire = (letter: DeadLetter) => {
    const { uuid, name } = getAccount(app.config, app.db, letter.accountId)
    return { ...model.deadLetterWire(letter, formatUuid(uuid)), account: name }
  }
  return new Elysia({ prefix: '/v1/operator/dead-letters' })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query: { account_id: account, email_id: email, reason, ...query } }) => {
        await recordView(app, actor, { name: 'dead_letters' })
        const page = parsePage(query)
        const filter = {
          accountId: findFilteredAccountId(app, account),
          email: email === undefined ? undefined : (parseUuid(email) ?? NO_EMAIL),
          reason,
        }
        const { letters, total } = selectDeadLetters(app.db, filter, page)
        return pageById(letters, { ...page, total }, toWire)
      },
      {
        query: OperatorDeadLetterQuery,
        response: PageBody(OperatorDeadLetter),
        detail: operatorRoute('List the dead letters of all accounts', 'Newest first.'),
      },
    )
    .get(
      '/:id',
      async ({ actor, params }) => {
        const found = toWire(getDeadLetter(app.db, undefined, params.id))
        await recordView(app, actor, { name: 'dead_letter', id: found.id })
        return dataBody(found)
      },
      {
        params: Type.Object({ id: Type.String({ description: 'Id of the dead letter.' }) }),
        response: DataBody(OperatorDeadLetter),
        detail: operatorRoute('Get a dead letter', undefined, {
          404: ['dead_letter_not_found', 'No dead letter has this id.'],
        }),
      },
    )
}
