/** @module POST /v1/operator/accounts: creates an account of the service. For commands only. */
import { Elysia } from 'elysia'
import { OperatorAccount, toOperatorAccount } from '#features/core/accounts/model.ts'
import { PLANS } from '#features/core/accounts/plans.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, commandRoute } from '#features/core/app/http.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody, StrictObject, StringEnum, Text } from '#platform/http/schemas.ts'
import { createAccount } from './create-account.ts'

export const operatorNewAccountRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/accounts' })
    .use(authenticated)
    .post(
      '/',
      async ({ body, status }) => status(201, dataBody(toOperatorAccount(app, await createAccount(app, body)))),
      {
        body: StrictObject({
          name: Text('Name of the account.'),
          email: Text('Address of its owner.'),
          plan: StringEnum(PLANS, { description: 'Its plan.' }),
        }),
        response: { 201: DataBody(OperatorAccount) },
        detail: commandRoute('Create an account'),
      },
    )
