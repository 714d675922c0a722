/**
 * @module Reads and checks what each plan allows and costs: defaults, overridden by settings. Never reads an account.
 */

import { perOwner } from '#platform/per-owner.ts'
import { type Config, ConfigError } from '#platform/settings/config.ts'

export const PLANS = ['free', 'starter', 'pro', 'business', 'enterprise', 'unlimited'] as const
export type Plan = (typeof PLANS)[number]

export const isPlan = (text: string): text is Plan => PLANS.some((plan) => plan === text)

/** The plan of a stored name. */
export const toPlan = (text: string): Plan => (isPlan(text) ? text : 'free')

/** Means "unlimited" in fields that must hold a 32-bit number. */
export const UNLIMITED = 2_147_483_647

/** Resources that a plan limits by number, and how many of them an account may have in each plan. */
const COUNT_LIMITS = {
  domains: [3, 10, 50, 250, 1000, UNLIMITED],
  templates: [20, 100, 500, 2000, 10_000, UNLIMITED],
  webhooks: [5, 10, 25, 50, 100, UNLIMITED],
  contact_lists: [5, 20, 100, 500, 2000, UNLIMITED],
  sub_accounts: [0, 0, 10, 100, 1000, UNLIMITED],
}
/** Resources that a plan limits by stored amount: contacts, and MiB of contacts, templates, newsletters and suppressions. */
const STORAGE_LIMITS = {
  contacts: [25_000, 100_000, 1_000_000, 5_000_000, 20_000_000, UNLIMITED],
  stored_mib: [128, 512, 4096, 16_384, 65_536, UNLIMITED],
}
const LIMITS = { ...COUNT_LIMITS, ...STORAGE_LIMITS }
export type LimitedResource = keyof typeof COUNT_LIMITS
export type StoredResource = keyof typeof STORAGE_LIMITS

export interface PlanTerms {
  readonly plan: Plan
  /** Recipients per calendar month. */
  readonly monthlyQuota: number
  /** How many of each resource an account may have, or UNLIMITED. */
  readonly limits: Readonly<Record<LimitedResource | StoredResource, number>>
  readonly trackingEnabled: boolean
  /** Whether its accounts are paused automatically, for rates, content and bursts. */
  readonly isWatched: boolean
  /** Per month. */
  readonly priceCents: number
  /** The price id at Stripe; null when the plan is not for sale. */
  readonly stripePriceId: string | null
}

type PlanConfig = Pick<Config, 'plans'>

/**
 * Recipients per calendar month that an account may use: the account's own quota if it has one, else the quota of its
 * plan. While the plan is billed but no invoice above zero is settled, the quota is at most that of plan free.
 */
export function getEnforcedQuota(config: PlanConfig, plan: Plan, own: number | null, isHeld: boolean): number {
  if (own !== null) return own
  const { monthlyQuota } = getPlanTerms(config, plan)
  return isHeld ? Math.min(getPlanTerms(config, 'free').monthlyQuota, monthlyQuota) : monthlyQuota
}

const DEFAULT_QUOTAS: Readonly<Record<Plan, number>> = {
  free: 3000,
  starter: 10_000,
  pro: 100_000,
  business: 500_000,
  enterprise: 2_000_000,
  unlimited: UNLIMITED,
}

type Override = { readonly limits: Partial<Record<LimitedResource | StoredResource, number>> } & {
  -readonly [K in keyof Omit<PlanTerms, 'plan' | 'limits'>]?: PlanTerms[K]
}

const LIMIT_BY_FIELD: ReadonlyMap<string, keyof typeof LIMITS> = new Map(
  (Object.keys(LIMITS) as (keyof typeof LIMITS)[]).map((resource) => [`max_${resource}`, resource]),
)

/** The fields that `TASSIS_PLANS` can set. */
const SETTING_FIELDS = [
  'monthly_quota',
  'tracking_enabled',
  'abuse_watch',
  ...LIMIT_BY_FIELD.keys(),
  'price_cents',
  'stripe_price_id',
]

// Cached: the terms are read several times per email, and a configuration never changes.
const getTermsByPlan = perOwner(readTerms)

/** What a plan allows and costs. */
export function getPlanTerms(config: PlanConfig, plan: Plan): PlanTerms {
  const terms = getTermsByPlan(config).get(plan)
  if (!terms) throw new Error(`plan ${plan} has no terms`)
  return terms
}

/** The terms of every plan, smallest plan first. */
export const listPlanTerms = (config: PlanConfig): PlanTerms[] => PLANS.map((plan) => getPlanTerms(config, plan))

/** The plan with this Stripe price. */
export const findPlanByPrice = (config: PlanConfig, priceId: string): Plan | undefined =>
  listPlanTerms(config).find(({ stripePriceId }) => stripePriceId === priceId)?.plan

function readTerms(config: PlanConfig): Map<Plan, PlanTerms> {
  const overrides = readOverrides(config.plans)
  return new Map(
    PLANS.map((plan, index): [Plan, PlanTerms] => {
      const { limits, ...override } = overrides.get(plan) ?? { limits: {} }
      return [
        plan,
        {
          plan,
          monthlyQuota: DEFAULT_QUOTAS[plan],
          limits: { ...getDefaultLimits(index), ...limits },
          trackingEnabled: true,
          // Operators who send their own mail are not paused by their own service.
          isWatched: plan !== 'unlimited',
          priceCents: 0,
          stripePriceId: null,
          ...override,
        },
      ]
    }),
  )
}

const getDefaultLimits = (planIndex: number) =>
  Object.fromEntries(
    Object.entries(LIMITS).map(([resource, limits]) => [resource, limits[planIndex] ?? UNLIMITED]),
  ) as PlanTerms['limits']

/** Throws ConfigError for an unknown plan or field and for an invalid value. */
function readOverrides(entries: readonly string[]): Map<Plan, Override> {
  const overrides = new Map<Plan, Override>()
  for (const entry of entries) {
    const [, plan = '', field = '', value = ''] = /^([a-z]+)\.([a-z_]+)=(.+)$/.exec(entry) ?? []
    if (!isPlan(plan)) throw invalidPlanSetting(entry, `the plan must be one of ${PLANS.join(', ')}`)
    const override = overrides.get(plan) ?? { limits: {} }
    overrides.set(plan, override)
    const limit = LIMIT_BY_FIELD.get(field)
    if (limit) override.limits[limit] = parseLimit(entry, value)
    else if (field === 'monthly_quota') override.monthlyQuota = parseLimit(entry, value)
    else if (field === 'tracking_enabled') override.trackingEnabled = parseFlag(entry, value)
    else if (field === 'abuse_watch') override.isWatched = parseFlag(entry, value)
    else if (field === 'price_cents') override.priceCents = parseLimit(entry, value)
    else if (field === 'stripe_price_id') override.stripePriceId = value
    else throw invalidPlanSetting(entry, `the field must be one of ${SETTING_FIELDS.join(', ')}`)
  }
  requireDistinctPrices(overrides)
  return overrides
}

function parseLimit(entry: string, value: string): number {
  const number = /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN
  if (!(number <= UNLIMITED))
    throw invalidPlanSetting(entry, `the value must be a whole number from 0 to ${UNLIMITED}, which means no limit`)
  return number
}

function parseFlag(entry: string, value: string): boolean {
  if (value !== 'true' && value !== 'false') throw invalidPlanSetting(entry, 'the value must be true or false')
  return value === 'true'
}

/** A payment is matched to its plan by the price alone, so each price belongs to one plan. */
function requireDistinctPrices(overrides: ReadonlyMap<Plan, Override>): void {
  const planOf = new Map<string, Plan>()
  for (const [plan, { stripePriceId }] of overrides) {
    if (!stripePriceId) continue
    const other = planOf.get(stripePriceId)
    if (other)
      throw invalidPlanSetting(`${plan}.stripe_price_id=${stripePriceId}`, `plan ${other} already has this price`)
    planOf.set(stripePriceId, plan)
  }
}

const invalidPlanSetting = (entry: string, allowed: string): ConfigError =>
  new ConfigError(`TASSIS_PLANS has "${entry}"; ${allowed}, as in free.max_domains=2 or pro.stripe_price_id=price_123.`)

/** Throws ConfigError when the setting names an unknown plan or field. */
export const requireKnownPlans = (config: PlanConfig): void => void readTerms(config)
