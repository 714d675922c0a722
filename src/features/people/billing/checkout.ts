/**
 * @module Sends the owner of an account to Stripe: to buy a plan, or to the pages that change, pay and end a
 * subscription. Stripe reports the result (see reconcile.ts); nothing here changes a plan. Also ends the payments of an
 * account that is deleted.
 */
import { type Static, Type } from '@sinclair/typebox'
import type { Stripe } from 'stripe'
import { type AccountState, getAccount } from '#features/core/accounts/accounts.ts'
import { getPlanTerms, isPlan, PLANS, type PlanTerms } from '#features/core/accounts/plans.ts'
import {
  type BillingState,
  getBillingState,
  type Subscription,
  setCustomer,
} from '#features/core/accounts/subscription.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { AppError, conflict, invalid } from '#platform/errors.ts'
import { toWire } from '#platform/http/envelope.ts'
import { Count, StrictObject, Text, TextOrNull, TimeOrNull } from '#platform/http/schemas.ts'
import { days, type Millis } from '#platform/units.ts'
import { invalidResponse, isBillingConfigured, isResourceMissing, requireBilling, withStripe } from './stripe.ts'

const PlanName = Text('free, starter, pro, business, enterprise or unlimited.')

export const PlanRecord = Type.Object({
  plan: PlanName,
  monthly_quota: Count('Recipients per calendar month (UTC); 2147483647 is unlimited.'),
  max_domains: Count('Maximum number of domains; 2147483647 is unlimited, here and below.'),
  max_templates: Count('Maximum number of templates.'),
  max_webhooks: Count('Maximum number of webhooks, besides those of inbound routes.'),
  max_contact_lists: Count('Maximum number of contact lists.'),
  max_sub_accounts: Count('Maximum number of sub-accounts.'),
  tracking_enabled: Type.Boolean({ description: 'Whether opens and clicks can be tracked.' }),
  price_cents: Count(
    'Monthly price in the smallest unit of the currency; 0: free, or no price is set here. stripe_price_id shows whether a plan can be bought.',
  ),
  stripe_price_id: TextOrNull('Price at Stripe; null: the plan cannot be bought.'),
})

export const SubscriptionRecord = Type.Object({
  plan: PlanName,
  subscription_status: Text('active, trialing, past_due or canceled; none: there has never been a subscription.'),
  stripe_subscription_id: TextOrNull('Subscription at Stripe.'),
  billing_email: TextOrNull('Address that invoices are sent to.'),
  trial_ends_at: TimeOrNull('When the trial ends.'),
  monthly_quota: Count(
    'Current limit of recipients per calendar month (UTC): that of plan free until the first invoice over more than zero is paid.',
  ),
  emails_sent_this_month: Count('Recipients accepted this month, minus cancelled ones.'),
  limits: Type.Pick(PlanRecord, ['max_domains', 'max_templates', 'max_webhooks', 'tracking_enabled', 'price_cents'], {
    description: 'Limits and price of the plan.',
  }),
})

const PageUrl = (description: string) => Type.String({ minLength: 1, maxLength: 2048, description })

export const CheckoutRequest = StrictObject({
  plan: Type.String({ minLength: 1, maxLength: 50, description: 'Plan to buy: one with a stripe_price_id.' }),
  success_url: PageUrl('Where the browser goes after the purchase.'),
  cancel_url: PageUrl('Where the browser goes when nothing was bought.'),
})
export const CheckoutRecord = Type.Object({
  checkout_url: Text('Page where the plan is bought; open it soon, and only once.'),
})

export const PortalRequest = StrictObject({ return_url: PageUrl("Where the page's return link leads.") })
export const PortalRecord = Type.Object({
  portal_url: Text('Page where the subscription is managed; open it soon.'),
})

export const planWire = ({ limits, ...terms }: PlanTerms): Static<typeof PlanRecord> =>
  toWire(PlanRecord, terms, {
    max_domains: limits.domains,
    max_templates: limits.templates,
    max_webhooks: limits.webhooks,
    max_contact_lists: limits.contact_lists,
    max_sub_accounts: limits.sub_accounts,
  })

export function subscriptionWire(
  { status, ...subscription }: Subscription,
  terms: PlanTerms,
  { account, usedThisMonth }: Pick<AccountState, 'account' | 'usedThisMonth'>,
): Static<typeof SubscriptionRecord> {
  const { max_domains, max_templates, max_webhooks, tracking_enabled, price_cents } = planWire(terms)
  return toWire(SubscriptionRecord, subscription, {
    subscription_status: status ?? 'none',
    stripe_subscription_id: subscription.subscriptionId,
    monthly_quota: account.monthlyQuota,
    emails_sent_this_month: usedThisMonth,
    limits: { max_domains, max_templates, max_webhooks, tracking_enabled, price_cents },
  })
}

/**
 * URL of the Stripe page where the plan is bought. Makes the account a customer of Stripe. Throws 422 for a plan that
 * is not for sale, 409 `subscription_exists`, 403 for sub-accounts; 502 and 503 as `withStripe`.
 */
export async function startCheckout(app: App, actor: Actor, input: Static<typeof CheckoutRequest>): Promise<string> {
  requireBilling(app)
  requirePayer(app, actor)
  const price = requirePrice(app, input.plan)
  requireWebUrl('success_url', input.success_url)
  requireWebUrl('cancel_url', input.cancel_url)
  if (getBillingState(app.db, actor.accountId).subscriptionId !== null)
    throw conflict(
      'subscription_exists',
      'The account has a subscription; change or end it on the page that POST /v1/billing/portal returns.',
    )
  return withStripe(app, async (stripe) => {
    const session = await withCustomer(app, actor, stripe, (customer) =>
      stripe.checkout.sessions.create({
        mode: 'subscription',
        customer,
        client_reference_id: actor.accountUuid,
        line_items: [{ price, quantity: 1 }],
        subscription_data: { metadata: { account_id: actor.accountUuid } },
        success_url: input.success_url,
        cancel_url: input.cancel_url,
      }),
    )
    return requireSessionUrl(app, session)
  })
}

/**
 * URL of the Stripe page where the account's subscription is managed. Throws 409 `no_subscription` for an account that
 * never started a purchase; otherwise as `startCheckout`.
 */
export async function openPortal(app: App, actor: Actor, returnUrl: string): Promise<string> {
  requireBilling(app)
  const { customerId } = requirePayer(app, actor)
  requireWebUrl('return_url', returnUrl)
  if (customerId === null) throw noSubscription()
  return withStripe(app, async (stripe) => {
    try {
      return requireSessionUrl(
        app,
        await stripe.billingPortal.sessions.create({ customer: customerId, return_url: returnUrl }),
      )
    } catch (error) {
      throw isResourceMissing(error, 'customer') ? noSubscription() : error
    }
  })
}

const noSubscription = () =>
  conflict('no_subscription', 'The account has never had a subscription; start one with POST /v1/billing/checkout.')

function requirePayer(app: App, actor: Actor): BillingState {
  const billing = getBillingState(app.db, actor.accountId)
  if (billing.isSubAccount)
    throw new AppError(403, 'sub_account', 'A sub-account has no billing of its own; its parent account pays.')
  return billing
}

function requirePrice({ config }: App, plan: string): string {
  const price = isPlan(plan) ? getPlanTerms(config, plan).stripePriceId : null
  if (price !== null) return price
  const forSale = PLANS.filter((name) => getPlanTerms(config, name).stripePriceId !== null)
  throw invalid(
    'plan',
    forSale.length === 0
      ? 'No plans are for sale here.'
      : `Plan ${JSON.stringify(plan)} is not for sale; choose one of ${forSale.join(', ')}.`,
    'plan_not_for_sale',
  )
}

function requireWebUrl(field: string, text: string): void {
  if (!isWebUrl(text)) throw invalid(field, 'The URL must begin with https:// or http://, without user and password.')
}

function isWebUrl(text: unknown): text is string {
  const url = typeof text === 'string' ? URL.parse(text) : null
  return url !== null && (url.protocol === 'https:' || url.protocol === 'http:') && url.username + url.password === ''
}

/** The URL of a session; checked, since Stripe's response is not trusted. */
function requireSessionUrl(app: App, { url }: { readonly url?: unknown }): string {
  if (!isWebUrl(url)) throw invalidResponse(app, 'the URL of a session')
  return url
}

/** Calls `use` with the account's customer, which is created if there is none, or if Stripe has deleted it. */
async function withCustomer<T>(
  app: App,
  actor: Actor,
  stripe: Stripe,
  use: (customerId: string) => Promise<T>,
): Promise<T> {
  const { customerId } = getBillingState(app.db, actor.accountId)
  if (customerId !== null) {
    try {
      return await use(customerId)
    } catch (error) {
      if (!isResourceMissing(error, 'customer')) throw error
    }
  }
  return use(await createCustomer(app, actor, stripe, customerId))
}

/** @param previousId the customer that the account had before */
async function createCustomer(app: App, actor: Actor, stripe: Stripe, previousId: string | null): Promise<string> {
  const { email } = getAccount(app.config, app.db, actor.accountId)
  // Concurrent calls, and a retry after a lost response, get the same customer.
  const key = sha256(JSON.stringify([actor.accountUuid, email, previousId])).toHex()
  const { id } = await stripe.customers.create(
    { email, metadata: { account_id: actor.accountUuid } },
    { idempotencyKey: `tassis-${key}` },
  )
  return app.commit.write((tx) => {
    const current = getBillingState(tx.db, actor.accountId).customerId
    if (current !== previousId && current !== null) return current
    setCustomer(tx, actor.accountId, id, app.eventTime())
    auditChange(app, tx, actor, 'billing.customer_created', actor.accountUuid, { customer_id: id }, 'account')
    return id
  })
}

/** How long we try to end the payments of a deleted account; after that the operator has to do it. */
const MAX_RETRY_AGE_MS = days(3)

/**
 * Ends the payments of a deleted account before its row is deleted. False: Stripe is unavailable, try again. Gives up
 * three days after the deletion, so that an outage at Stripe cannot hold up the erasure; the log then names the
 * customer that the operator has to delete.
 */
export async function tryEndBilling(app: App, accountId: number, deletedAt: Millis): Promise<boolean> {
  try {
    await endBilling(app, accountId)
    return true
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    if (app.clock.now() < deletedAt + MAX_RETRY_AGE_MS) return false
    const { customerId } = getBillingState(app.db, accountId)
    app.log.error({ customer: customerId }, 'deleted account may still be charged: delete this customer at Stripe')
    return true
  }
}

/**
 * Deletes the account's customer at Stripe, which ends its subscription immediately, and deletes its id here. Does
 * nothing for an account without a customer. Throws as `withStripe`.
 */
export async function endBilling(app: App, accountId: number): Promise<void> {
  const { customerId, accountUuid } = getBillingState(app.db, accountId)
  if (customerId === null) return
  if (isBillingConfigured(app.config)) {
    await withStripe(app, (stripe) =>
      stripe.customers.del(customerId).catch((error: unknown) => {
        if (!isResourceMissing(error)) throw error
      }),
    )
  } else app.log.warn({ account: accountUuid }, 'account with a subscription deleted while billing is not configured')
  await app.commit.writeFromReserve((tx) => setCustomer(tx, accountId, null, app.eventTime()))
}
