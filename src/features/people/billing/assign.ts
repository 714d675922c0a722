/** @module Sets an account's plan and quota by the operator's decision instead of a purchase. */

import { type Account, getAccount } from '#features/core/accounts/accounts.ts'
import { isPlan, PLANS, UNLIMITED } from '#features/core/accounts/plans.ts'
import { getBillingState, setPlan, setQuota } from '#features/core/accounts/subscription.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { conflict, invalid } from '#platform/errors.ts'

export interface Assignment {
  readonly plan?: string | undefined
  /** Recipients a month, in place of the plan's quota; null: the plan's quota. */
  readonly monthlyQuota?: number | null | undefined
}

/**
 * Assigns a plan, a monthly quota, or both to an account; what the account has beyond the limits of the plan stays.
 * Throws 422 for an unknown plan, an invalid quota or an empty change. A plan is refused with 409 `subscription_exists`
 * for an account that pays, because its plan follows the subscription, and with 409 `sub_account` for a sub-account.
 */
export function assignPlan(app: App, actor: Actor, { plan, monthlyQuota }: Assignment): Promise<Account> {
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
    auditChange(app, tx, actor, 'account.plan_changed', actor.accountUuid, {
      ...(plan !== undefined && { plan, previous_plan: before.plan }),
      ...(monthlyQuota !== undefined && { monthly_quota: monthlyQuota }),
    })
    return getAccount(app.config, tx.db, actor.accountId)
  })
}

const isQuota = (value: number): boolean => Number.isInteger(value) && value >= 0 && value <= UNLIMITED
