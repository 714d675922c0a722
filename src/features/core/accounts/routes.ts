/** @module Routes of /v1/account. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires, requiresOrSupport } from '#features/core/app/http.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody } from '#platform/http/schemas.ts'
import { changeAccount, readAccountState } from './accounts.ts'
import { AccountChange, AccountRecord, toAccountWire } from './model.ts'

const tags = ['Account']

export const accountRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/account', tags })
    .use(authenticated)
    .get('/', ({ actor }) => dataBody(toAccountWire(readAccountState(app, actor))), {
      response: DataBody(AccountRecord),
      detail: describeRoute('Get the account', requiresOrSupport('account:read')),
    })
    .patch('/', async ({ actor, body }) => dataBody(toAccountWire(await changeAccount(app, actor, body))), {
      body: AccountChange,
      response: DataBody(AccountRecord),
      detail: describeRoute('Change the account', requires('account:admin'), 'Omitted fields keep their value.'),
    })
