/** @module The settings of billing by Stripe. */
import type { SettingValues } from '#platform/config.ts'
import { checked, isHttpUrl, text } from '#platform/setting-kinds.ts'

export const billingSettings = {
  stripeKey: { ...text('', 'Secret API key of Stripe; empty: billing is off.', 'any text'), secret: true },
  stripeWebhookSecret: {
    ...text('', 'Signing secret of the Stripe webhook endpoint {public_url}/billing/stripe.', 'any text'),
    secret: true,
  },
  stripeUrl: checked(
    'https://api.stripe.com',
    'a URL such as https://api.stripe.com',
    'URL of the Stripe API.',
    isHttpUrl,
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof billingSettings> {}
}
