import { expect, test } from 'bun:test'
import { loadConfig } from '#app/settings.ts'
import { findPlanByPrice, getPlanTerms, listPlanTerms, UNLIMITED } from '#features/core/accounts/plans.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { createTestApp } from '#test/support/app.ts'

test('TASSIS_PLANS changes single fields of plans; everything else keeps its default', () => {
  const before = loadConfig({}).config
  const { config } = loadConfig({
    TASSIS_PLANS:
      'free.max_domains=0, free.price_cents=5,pro.stripe_price_id=price_A,pro.max_sub_accounts=2147483647,pro.max_templates=7,pro.monthly_quota=123,pro.tracking_enabled=false,pro.abuse_watch=false',
  })
  const free = getPlanTerms(before, 'free')
  const pro = getPlanTerms(before, 'pro')
  expect(listPlanTerms(config)).toEqual([
    { ...free, limits: { ...free.limits, domains: 0 }, priceCents: 5 },
    getPlanTerms(before, 'starter'),
    {
      ...pro,
      monthlyQuota: 123,
      trackingEnabled: false,
      isWatched: false,
      limits: { ...pro.limits, sub_accounts: UNLIMITED, templates: 7 },
      stripePriceId: 'price_A',
    },
    getPlanTerms(before, 'business'),
    getPlanTerms(before, 'enterprise'),
    getPlanTerms(before, 'unlimited'),
  ])
  expect(['price_A', 'price_B'].map((price) => findPlanByPrice(config, price))).toEqual(['pro', undefined])
})

const FIELDS =
  'monthly_quota, tracking_enabled, abuse_watch, max_domains, max_templates, max_webhooks, max_contact_lists, max_sub_accounts, max_contacts, max_stored_mib, price_cents, stripe_price_id'

test.each([
  ['gold.max_domains=1', 'the plan must be one of free, starter, pro, business, enterprise, unlimited'],
  ['pro.quota=1', `the field must be one of ${FIELDS}`],
  ['pro.constructor=1', `the field must be one of ${FIELDS}`],
  ['pro.max_domains=-1', 'the value must be a whole number from 0 to 2147483647, which means no limit'],
  ['pro.max_domains=2147483648', 'the value must be a whole number from 0 to 2147483647, which means no limit'],
  ['pro.tracking_enabled=yes', 'the value must be true or false'],
  ['pro.price_cents=9.99', 'the value must be a whole number from 0 to 2147483647, which means no limit'],
])('TASSIS_PLANS with %p prevents the start with an error of one sentence', async (entry, allowed) => {
  await expect(createTestApp({ settings: { TASSIS_PLANS: `free.max_domains=1,${entry}` } })).rejects.toThrow(
    new ConfigError(
      `TASSIS_PLANS has "${entry}"; ${allowed}, as in free.max_domains=2 or pro.stripe_price_id=price_123.`,
    ),
  )
})

test('a price shared by two plans prevents the start, because a price must identify its plan', async () => {
  const settings = { TASSIS_PLANS: 'pro.stripe_price_id=price_A,business.stripe_price_id=price_A' }
  await expect(createTestApp({ settings })).rejects.toThrow('plan pro already has this price')
})
