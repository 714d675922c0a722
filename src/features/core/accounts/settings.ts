/** @module Settings of accounts and plans: work, sandbox mail, quotas, and the plans with tracking and abuse checks. */
import type { SettingValues } from '#platform/config.ts'
import { integer, list } from '#platform/setting-kinds.ts'

export const workSettings = {
  workPerSecond: integer(
    20_000,
    0,
    100_000_000,
    'Units of work per second, on average, that one account with its sub-accounts may cause: an accepted recipient, a row written or read, 4 KiB of body and 50 values in it are one unit each; 0: no limit.',
  ),
  workBurst: integer(
    200_000,
    1000,
    1_000_000_000,
    'Units of work that one account with its sub-accounts may cause in one burst.',
  ),
  sandboxPerDay: integer(
    10_000,
    0,
    1_000_000_000,
    'Sandbox recipients per day (UTC) of one account with its sub-accounts.',
  ),
}

export const trackingPlanSettings = {
  trackingPlans: list(
    'Plans with open and click tracking: a comma-separated list of names, or all.',
    'a comma-separated list of plan names, or all',
    // accounts/plans.ts checks the names of plans.
    () => true,
    ['all'],
  ),
}

export const planSettings = {
  planQuotaFree: integer(3000, 0, 2_147_483_647, 'Monthly recipients of plan free.'),
  planQuotaStarter: integer(10_000, 0, 2_147_483_647, 'Monthly recipients of plan starter.'),
  planQuotaPro: integer(100_000, 0, 2_147_483_647, 'Monthly recipients of plan pro.'),
  planQuotaBusiness: integer(500_000, 0, 2_147_483_647, 'Monthly recipients of plan business.'),
  planQuotaEnterprise: integer(2_000_000, 0, 2_147_483_647, 'Monthly recipients of plan enterprise.'),
  plans: list(
    'Limits and prices of plans that differ from the defaults: max_domains, max_templates, max_webhooks, max_contact_lists, max_sub_accounts, max_contacts, max_stored_mib, price_cents, stripe_price_id.',
    'a comma-separated list of plan.field=value, such as free.max_domains=2 or pro.stripe_price_id=price_123',
    // accounts/plans.ts checks the plans and fields.
    (v) => /^[a-z]+\.[a-z_]+=[\x21-\x7e]{1,200}$/.test(v),
  ),
}

export const abusePlanSettings = {
  abusePlans: list(
    'Plans whose accounts are paused automatically for high bounce or complaint rates: a comma-separated list of names, or all.',
    'a comma-separated list of plan names, or all',
    () => true,
    ['free', 'starter', 'pro', 'business', 'enterprise'],
  ),
}

declare module '#platform/config.ts' {
  interface Config
    extends SettingValues<typeof workSettings>,
      SettingValues<typeof trackingPlanSettings>,
      SettingValues<typeof planSettings>,
      SettingValues<typeof abusePlanSettings> {}
}
