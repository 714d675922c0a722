/** @module Wire shapes of plans and subscriptions. */
import { type Static, Type } from '@sinclair/typebox'
import type { PlanTerms } from '#features/core/accounts/plans.ts'
import type { Subscription } from '#features/core/accounts/subscription.ts'
import { isoTimeOrNull } from '#platform/http/envelope.ts'
import { Nullable, StrictObject, Timestamp } from '#platform/http/schemas.ts'

const MaxDomains = Type.Integer({ description: 'Maximum number of domains; 2147483647 is unlimited, here and below.' })
const MaxTemplates = Type.Integer({ description: 'Maximum number of templates.' })
const MaxWebhooks = Type.Integer({ description: 'Maximum number of webhooks, besides those of inbound routes.' })
const TrackingEnabled = Type.Boolean({ description: 'Whether opens and clicks can be tracked.' })
const PriceCents = Type.Integer({
  description:
    'Monthly price in the smallest unit of the currency; 0: free, or no price is set here. stripe_price_id shows whether a plan can be bought.',
})
const PLAN_NAME = 'free, starter, pro, business, enterprise or unlimited.'

export const PlanRecord = Type.Object({
  plan: Type.String({ description: PLAN_NAME }),
  monthly_quota: Type.Integer({ description: 'Recipients per calendar month (UTC); 2147483647 is unlimited.' }),
  max_domains: MaxDomains,
  max_templates: MaxTemplates,
  max_webhooks: MaxWebhooks,
  max_contact_lists: Type.Integer({ description: 'Maximum number of contact lists.' }),
  max_sub_accounts: Type.Integer({ description: 'Maximum number of sub-accounts.' }),
  tracking_enabled: TrackingEnabled,
  price_cents: PriceCents,
  stripe_price_id: Nullable(Type.String(), { description: 'Price at Stripe; null: the plan cannot be bought.' }),
})
export type PlanRecord = Static<typeof PlanRecord>

export const SubscriptionRecord = Type.Object({
  plan: Type.String({ description: PLAN_NAME }),
  subscription_status: Type.String({
    description: 'active, trialing, past_due or canceled; none: there has never been a subscription.',
  }),
  stripe_subscription_id: Nullable(Type.String(), { description: 'Subscription at Stripe.' }),
  billing_email: Nullable(Type.String(), { description: 'Address that invoices are sent to.' }),
  trial_ends_at: Nullable(Timestamp(), { description: 'When the trial ends.' }),
  monthly_quota: Type.Integer({
    description:
      'Current limit of recipients per calendar month (UTC): that of plan free until the first invoice over more than zero is paid.',
  }),
  emails_sent_this_month: Type.Integer({ description: 'Recipients accepted this month, minus cancelled ones.' }),
  limits: Type.Object(
    {
      max_domains: MaxDomains,
      max_templates: MaxTemplates,
      max_webhooks: MaxWebhooks,
      tracking_enabled: TrackingEnabled,
      price_cents: PriceCents,
    },
    { description: 'Limits and price of the plan.' },
  ),
})
export type SubscriptionRecord = Static<typeof SubscriptionRecord>

const PageUrl = (description: string) => Type.String({ minLength: 1, maxLength: 2048, description })

export const CheckoutRequest = StrictObject({
  plan: Type.String({ minLength: 1, maxLength: 50, description: 'Plan to buy: one with a stripe_price_id.' }),
  success_url: PageUrl('Where the browser goes after the purchase.'),
  cancel_url: PageUrl('Where the browser goes when nothing was bought.'),
})
export const CheckoutRecord = Type.Object({
  checkout_url: Type.String({ description: 'Page where the plan is bought; open it soon, and only once.' }),
})
export type CheckoutRecord = Static<typeof CheckoutRecord>

export const PortalRequest = StrictObject({ return_url: PageUrl("Where the page's return link leads.") })
export const PortalRecord = Type.Object({
  portal_url: Type.String({ description: 'Page where the subscription is managed; open it soon.' }),
})
export type PortalRecord = Static<typeof PortalRecord>

export const planWire = ({ plan, monthlyQuota, limits, trackingEnabled, ...terms }: PlanTerms): PlanRecord => ({
  plan,
  monthly_quota: monthlyQuota,
  max_domains: limits.domains,
  max_templates: limits.templates,
  max_webhooks: limits.webhooks,
  max_contact_lists: limits.contact_lists,
  max_sub_accounts: limits.sub_accounts,
  tracking_enabled: trackingEnabled,
  price_cents: terms.priceCents,
  stripe_price_id: terms.stripePriceId,
})

export const subscriptionWire = (
  subscription: Subscription,
  terms: PlanTerms,
  use: { readonly monthlyQuota: number; readonly usedThisMonth: number },
): SubscriptionRecord => ({
  plan: subscription.plan,
  subscription_status: subscription.status ?? 'none',
  stripe_subscription_id: subscription.subscriptionId,
  billing_email: subscription.billingEmail,
  trial_ends_at: isoTimeOrNull(subscription.trialEndsAt),
  monthly_quota: use.monthlyQuota,
  emails_sent_this_month: use.usedThisMonth,
  limits: {
    max_domains: terms.limits.domains,
    max_templates: terms.limits.templates,
    max_webhooks: terms.limits.webhooks,
    tracking_enabled: terms.trackingEnabled,
    price_cents: terms.priceCents,
  },
})
