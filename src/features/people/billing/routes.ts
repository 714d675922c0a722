/** @module /v1/billing: paths, schemas and one call each. */
import { Elysia } from 'elysia'
import { readAccountState } from '#features/core/accounts/accounts.ts'
import { getPlanTerms, listPlanTerms } from '#features/core/accounts/plans.ts'
import { getBillingState } from '#features/core/accounts/subscription.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { describeRoute, ownersOnly, publicRoute } from '#platform/http/access.ts'
import { dataBody, onePageBody } from '#platform/http/envelope.ts'
import { createRateLimiter, type Rate } from '#platform/http/rate-limit.ts'
import { DataBody, PageBody } from '#platform/http/schemas.ts'
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
const administers = describeWith('account:admin')

/** Rate of an account's requests for Stripe pages: each is a call to Stripe. */
const SESSION_RATE: Rate = { burst: 30, ratePerSecond: 10 / 60 }

export function billingRoutes(app: App) {
  const limiter = createRateLimiter(app.clock)
  const requireRate = ({ accountId }: Actor): void => {
    const decision = limiter.take(String(accountId), 1, SESSION_RATE)
    if (!decision.ok)
      throw tooManyRequests('rate_limited', 'Too many pages were requested; wait a little.', decision.retryAfterSeconds)
  }

  return new Elysia({ prefix: '/v1/billing', tags })
    .get('/plans', () => onePageBody(listPlanTerms(app.config).map(planWire)), {
      response: PageBody(PlanRecord),
      detail: describeRoute(
        'List the plans',
        publicRoute,
        'With their prices and limits, the smallest first. Requires no key.',
      ),
    })
    .use(authenticated)
    .get(
      '/subscription',
      ({ actor }) => {
        const state = readAccountState(app, actor)
        const terms = getPlanTerms(app.config, state.account.plan)
        return dataBody(subscriptionWire(getBillingState(app.db, actor.accountId), terms, state))
      },
      {
        response: DataBody(SubscriptionRecord),
        detail: describeWith('account:read')('Get the subscription'),
      },
    )
    .post(
      '/checkout',
      async ({ actor, body }) => {
        requireRate(actor)
        return dataBody({ checkout_url: await startCheckout(app, actor, body) })
      },
      {
        body: CheckoutRequest,
        response: DataBody(CheckoutRecord),
        detail: administers(
          'Buy a plan',
          'Returns a page of the payment provider. The plan changes when the purchase is complete. 503 where billing is not configured.',
          ownersOnly,
        ),
      },
    )
    .post(
      '/portal',
      async ({ actor, body }) => {
        requireRate(actor)
        return dataBody({ portal_url: await openPortal(app, actor, body.return_url) })
      },
      {
        body: PortalRequest,
        response: DataBody(PortalRecord),
        detail: administers(
          'Manage the subscription',
          'Returns a page of the payment provider, where the subscription is changed, paid and ended. 503 where billing is not configured.',
          ownersOnly,
        ),
      },
    )
}
