/** @module /v1/billing: paths, shapes and one call each. */
import { Elysia } from 'elysia'
import { accountState } from '#features/core/accounts/accounts.ts'
import { allPlanTerms, planTerms } from '#features/core/accounts/plans.ts'
import { billingOf } from '#features/core/accounts/subscription.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { tooMany } from '#platform/errors.ts'
import { ownersOnly, publicRoute } from '#platform/http/access.ts'
import { list, one } from '#platform/http/envelope.ts'
import { createRateLimiter, type Rate } from '#platform/http/rate-limit.ts'
import { ListOf, One } from '#platform/http/schemas.ts'
import { openPortal, startCheckout } from './checkout.ts'
import {
  CheckoutRecord,
  CheckoutRequest,
  PlanRecord,
  PortalRecord,
  PortalRequest,
  planWire,
  SubscriptionRecord,
  subscriptionWire,
} from './model.ts'

const tags = ['Billing']

/** Pages of Stripe that an account may ask for: each is a call there. */
const SESSIONS: Rate = { burst: 30, ratePerSecond: 10 / 60 }

export function billingRoutes(app: App) {
  const sessions = createRateLimiter(app.clock)
  const admit = ({ accountId }: Actor): void => {
    const taken = sessions.take(String(accountId), 1, SESSIONS)
    if (!taken.ok)
      throw tooMany('rate_limited', 'Too many pages were asked for; wait a little.', taken.retryAfterSeconds)
  }

  return new Elysia({ prefix: '/v1/billing' })
    .get(
      '/plans',
      () => {
        const plans = allPlanTerms(app.config).map(planWire)
        return list(plans, { page: 1, perPage: plans.length, total: plans.length })
      },
      {
        response: ListOf(PlanRecord),
        detail: {
          summary: 'List the plans',
          description: 'With their prices and limits, the smallest first. Needs no key.',
          tags,
          ...publicRoute,
        },
      },
    )
    .use(authenticated)
    .get(
      '/subscription',
      ({ actor }) => {
        const { account, usedThisMonth } = accountState(app, actor)
        const terms = planTerms(app.config, account.plan)
        const { monthlyQuota } = account
        return one(subscriptionWire(billingOf(app.db, actor.accountId), terms, { monthlyQuota, usedThisMonth }))
      },
      {
        response: One(SubscriptionRecord),
        detail: { summary: 'Get the subscription', tags, ...requires('account:read') },
      },
    )
    .post(
      '/checkout',
      async ({ actor, body }) => {
        admit(actor)
        const { plan, success_url: successUrl, cancel_url: cancelUrl } = body
        return one({ checkout_url: await startCheckout(app, actor, { plan, successUrl, cancelUrl }) })
      },
      {
        body: CheckoutRequest,
        response: One(CheckoutRecord),
        detail: {
          summary: 'Buy a plan',
          description:
            'Answers with a page of the payment provider. The plan changes when the purchase is done. 503 where nobody is billed.',
          tags,
          ...requires('account:admin'),
          ...ownersOnly,
        },
      },
    )
    .post(
      '/portal',
      async ({ actor, body }) => {
        admit(actor)
        return one({ portal_url: await openPortal(app, actor, body.return_url) })
      },
      {
        body: PortalRequest,
        response: One(PortalRecord),
        detail: {
          summary: 'Manage the subscription',
          description:
            'Answers with a page of the payment provider, where it is changed, paid and ended. 503 where nobody is billed.',
          tags,
          ...requires('account:admin'),
          ...ownersOnly,
        },
      },
    )
}
