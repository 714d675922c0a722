/** @module Routes of /v1/account. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody } from '#platform/http/schemas.ts'
import { changeAccount, readAccountState } from './accounts.ts'
import { AccountChange, AccountRecord, toAccountWire } from './model.ts'

const tags = ['Account']

export const accountRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/account' })
    .use(authenticated)
    .get('/', ({ actor }) => dataBody(toAccountWire(readAccountState(app, actor))), {
      response: DataBody(AccountRecord),
      detail: { summary: 'Get the account', tags, ...requires('account:read') },
    })
    .patch('/', async ({ actor, body }) => dataBody(toAccountWire(await changeAccount(app, actor, body))), {
      body: AccountChange,
      response: DataBody(AccountRecord),
      detail: {
        summary: 'Change the account',
        description: 'Omitted fields keep their value.',
        tags,
        ...requires('account:admin'),
      },
    })
