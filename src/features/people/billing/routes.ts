/**
 * @module /v1/billing; PUT /v1/operator/accounts/{id}/plan, by which the operator decides instead of a purchase; and POST
 * /billing/stripe, the public address to which Stripe reports payments and subscriptions, signed. Only the customer of an
 * event is used: we ask Stripe what that customer has.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Stripe } from 'stripe'
import { type Account, actForAccount, getAccount, readAccountState } from '#features/core/accounts/accounts.ts'
import { OperatorAccount, toOperatorAccount } from '#features/core/accounts/model.ts'
import { getPlanTerms, isPlan, listPlanTerms, PLANS, UNLIMITED } from '#features/core/accounts/plans.ts'
import { getBillingState, setPlan, setQuota } from '#features/core/accounts/subscription.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, commandRoute, describeWith } from '#features/core/app/http.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { AppError, conflict, invalid } from '#platform/errors.ts'
import { describeRoute, ownersOnly, publicRoute } from '#platform/http/access.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { dataBody, onePageBody } from '#platform/http/envelope.ts'
import { createRateLimiter, type Rate, requireTaken } from '#platform/http/rate-limit.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { CountOrNull, DataBody, PageBody, StrictObject, Text } from '#platform/http/schemas.ts'
import * as model from './checkout.ts'
import { openPortal, startCheckout } from './checkout.ts'
import { reconcile } from './reconcile.ts'
import { loadStripe } from './stripe.ts'

const tags = ['Billing']
const administers = describeWith('account:admin')

/** Rate of an account's requests for Stripe pages: each is a call to Stripe. */
const SESSION_RATE: Rate = { burst: 30, ratePerSecond: 10 / 60 }

export function billingRoutes(app: App) {
  const limiter = createRateLimiter(app.clock)
  const requireRate = ({ accountId }: Actor): void =>
    requireTaken(limiter.take(String(accountId), 1, SESSION_RATE), 'Too many pages were requested; wait a little.')

  return new Elysia({ prefix: '/v1/billing', tags })
    .get('/plans', () => onePageBody(listPlanTerms(app.config).map(model.planWire)), {
      response: PageBody(model.PlanRecord),
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
        return dataBody(model.subscriptionWire(getBillingState(app.db, actor.accountId), terms, state))
      },
      {
        response: DataBody(model.SubscriptionRecord),
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
        body: model.CheckoutRequest,
        response: DataBody(model.CheckoutRecord),
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
        body: model.PortalRequest,
        response: DataBody(model.PortalRecord),
        detail: administers(
          'Manage the subscription',
          'Returns a page of the payment provider, where the subscription is changed, paid and ended. 503 where billing is not configured.',
          ownersOnly,
        ),
      },
    )
}

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

/** Maximum age of a signature in seconds. For that long, someone who copied a signed request could send it again. */
const TOLERANCE_SECONDS = 300

/** Other events change no plan. */
const HANDLED_EVENTS: readonly string[] = [
  'checkout.session.completed',
  'customer.subscription.created',
  'customer.subscription.updated',
  'customer.subscription.deleted',
  'customer.deleted',
  'invoice.paid',
  'invoice.payment_failed',
]

const RECEIVED = { received: true }

export const billingPages = (app: App) =>
  new Elysia().post(
    '/billing/stripe',
    async ({ body, request }) => {
      const event = await verifyEvent(app, body, request.headers.get('stripe-signature'))
      if (!HANDLED_EVENTS.includes(event.type)) return RECEIVED
      const customer = findCustomer(event)
      // Stripe repeats an event until the response is 2xx, so an outage is retried later.
      if (customer) await withoutTimeLimit(request, () => reconcile(app, customer, event.id))
      return RECEIVED
    },
    { detail: { hide: true, ...acceptsBody('bytes') } },
  )

/** The event in a body signed by Stripe; throws 400 `invalid_signature`. */
async function verifyEvent({ config, clock }: App, body: unknown, signature: string | null): Promise<Stripe.Event> {
  try {
    if (!(body instanceof Uint8Array) || signature === null) throw new TypeError('signature or body missing')
    const { webhooks } = await loadStripe()
    return await webhooks.constructEventAsync(
      Buffer.from(body),
      signature,
      config.stripeWebhookSecret,
      TOLERANCE_SECONDS,
      undefined,
      clock.now(),
    )
  } catch {
    throw new AppError(
      400,
      'invalid_signature',
      'Invalid signature: it was not made with the secret of the endpoint, or is too old.',
    )
  }
}

/** The customer of the event's object, an id or the expanded object; for `customer.deleted` the object itself. */
function findCustomer({ type, data }: Stripe.Event): string | undefined {
  const { id, customer } = data.object as { readonly id?: string; readonly customer?: string | { readonly id: string } }
  if (type === 'customer.deleted') return id
  return typeof customer === 'object' ? customer?.id : customer
}
