/** @module PUT /v1/operator/accounts/{id}/plan: the plan and quota of an account, by the operator's decision. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { actForAccount } from '#features/core/accounts/accounts.ts'
import { OperatorAccount, toOperatorAccount } from '#features/core/accounts/model.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, commandRoute } from '#features/core/app/http.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody, Nullable, StrictObject, Text } from '#platform/http/schemas.ts'
import { assignPlan } from './assign.ts'

export const operatorPlanRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/accounts' }).use(authenticated).put(
    '/:id/plan',
    async ({ actor, body: { plan, monthly_quota: monthlyQuota }, params: { id } }) => {
      const owner = actForAccount(app, actor, id)
      return dataBody(toOperatorAccount(app, await assignPlan(app, owner, { plan, monthlyQuota })))
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the account.' }) }),
      body: StrictObject({
        plan: Type.Optional(Text('Name of the plan.')),
        monthly_quota: Type.Optional(
          Nullable(Type.Integer(), { description: 'Recipients a month; null: the quota of the plan.' }),
        ),
      }),
      response: DataBody(OperatorAccount),
      detail: commandRoute('Set the plan or the quota of an account', undefined, {
        404: ['account_not_found', 'No account has this id.'],
        409: ['subscription_exists', 'Its plan follows its subscription, or for `sub_account` its parent.'],
      }),
    },
  )
