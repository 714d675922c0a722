/** @module PUT /v1/operator/accounts/{id}/plan: the plan and quota of an account, by the operator's decision instead of a purchase. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type Account, actForAccount, getAccount } from '#features/core/accounts/accounts.ts'
import { OperatorAccount, toOperatorAccount } from '#features/core/accounts/model.ts'
import { isPlan, PLANS, UNLIMITED } from '#features/core/accounts/plans.ts'
import { getBillingState, setPlan, setQuota } from '#features/core/accounts/subscription.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, commandRoute } from '#features/core/app/http.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { CountOrNull, DataBody, StrictObject, Text } from '#platform/http/schemas.ts'

const PlanAssignment = StrictObject({
  plan: Type.Optional(Text('Name of the plan.')),
  monthly_quota: Type.Optional(CountOrNull('Recipients a month; null: the quota of the plan.')),
})

export const operatorPlanRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/accounts' })
    .use(authenticated)
    .put(
      '/:id/plan',
      async ({ actor, body, params: { id } }) =>
        dataBody(toOperatorAccount(app, await assignPlan(app, actForAccount(app, actor, id), body))),
      {
        params: Type.Object({ id: Type.String({ description: 'Id of the account.' }) }),
        body: PlanAssignment,
        response: DataBody(OperatorAccount),
        detail: commandRoute('Set the plan or the quota of an account', undefined, {
          404: ['account_not_found', 'No account has this id.'],
          409: ['subscription_exists', 'Its plan follows its subscription, or for `sub_account` its parent.'],
        }),
      },
    )

/**
 * Assigns a plan, a monthly quota, or both to an account; what the account has beyond the limits of the plan stays.
 * Throws 422 for an unknown plan, an invalid quota or an empty change. A plan is refused with 409 `subscription_exists`
 * for an account that pays, because its plan follows the subscription, and with 409 `sub_account` for a sub-account.
 */
export function assignPlan(
  app: App,
  actor: Actor,
  { plan, monthly_quota: monthlyQuota }: Static<typeof PlanAssignment>,
): Promise<Account> {
  if (plan === undefined && monthlyQuota === undefined) throw invalid('plan', 'Set a plan, a monthly quota, or both.')
  if (plan !== undefined && !isPlan(plan)) throw invalid('plan', `The plan must be one of ${PLANS.join(', ')}.`)
  if (typeof monthlyQuota === 'number' && !isQuota(monthlyQuota))
    throw invalid(
      'monthly_quota',
      `A monthly quota must be a whole number from 0 to ${UNLIMITED}, which means unlimited.`,
    )
  return app.commit.write((tx) => {
    const before = getAccount(app.config, tx.db, actor.accountId)
    const now = app.eventTime()
    if (plan !== undefined) {
      const billing = getBillingState(tx.db, actor.accountId)
      if (billing.isSubAccount)
        throw conflict('sub_account', 'A sub-account has the plan of its parent; change the plan of the parent.')
      if (billing.subscriptionId !== null)
        throw conflict(
          'subscription_exists',
          "The account's plan follows its subscription; end the subscription first.",
        )
      setPlan(tx, actor.accountId, plan, now)
    }
    if (monthlyQuota !== undefined) setQuota(tx, actor.accountId, monthlyQuota, now)
    const metadata = { plan, previous_plan: plan && before.plan, monthly_quota: monthlyQuota }
    auditChange(app, tx, actor, 'account.plan_changed', actor.accountUuid, metadata)
    return getAccount(app.config, tx.db, actor.accountId)
  })
}

const isQuota = (value: number): boolean => Number.isInteger(value) && value >= 0 && value <= UNLIMITED
