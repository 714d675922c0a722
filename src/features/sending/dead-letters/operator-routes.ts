/** @module /v1/operator/dead-letters: the dead letters of all accounts. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findFilteredAccountId, getAccount } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery } from '#features/core/accounts/model.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/view-log.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, parsePage, StringEnum } from '#platform/http/schemas.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { DEAD_LETTER_REASONS, type DeadLetter, getDeadLetter, selectDeadLetters } from './dead-letters.ts'
import { DeadLetterRecord, deadLetterWire } from './model.ts'

const OperatorDeadLetter = Type.Object({
  ...DeadLetterRecord.properties,
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
    return { ...deadLetterWire(letter, formatUuid(uuid)), account: name }
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
