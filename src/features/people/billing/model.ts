/** @module Wire shapes of plans and subscriptions. */
import { type Static, Type } from '@sinclair/typebox'
import type { AccountState } from '#features/core/accounts/accounts.ts'
import type { PlanTerms } from '#features/core/accounts/plans.ts'
import type { Subscription } from '#features/core/accounts/subscription.ts'
import { Count, StrictObject, Text, TextOrNull, TimeOrNull } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'

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
