/**
 * @module Reads and checks what each plan allows and costs: defaults, overridden by settings. Never reads an account.
 */
import { type Config, ConfigError } from '#platform/config.ts'
import { perOwner } from '#platform/per-owner.ts'

export const PLANS = ['free', 'starter', 'pro', 'business', 'enterprise', 'unlimited'] as const
export type Plan = (typeof PLANS)[number]

export const isPlan = (text: string): text is Plan => PLANS.some((plan) => plan === text)

/** Means "unlimited" in fields that must hold a 32-bit number. */
export const UNLIMITED = 2_147_483_647

/** Resources that a plan limits by number. */
export type LimitedResource = 'domains' | 'templates' | 'webhooks' | 'contact_lists' | 'sub_accounts'
/**
 * Resources that a plan limits by stored amount: contacts, and MiB of contacts, templates, newsletters and
 * suppressions.
 */
export type StoredResource = 'contacts' | 'stored_mib'

export interface PlanTerms {
  readonly plan: Plan
  /** Recipients per calendar month. */
  readonly monthlyQuota: number
  /** How many of each resource an account may have, or UNLIMITED. */
  readonly limits: Readonly<Record<LimitedResource | StoredResource, number>>
  readonly trackingEnabled: boolean
  /** Per month. */
  readonly priceCents: number
  /** The price id at Stripe; null when the plan is not for sale. */
  readonly stripePriceId: string | null
}

type PlanConfig = Pick<
  Config,
  | 'planQuotaFree'
  | 'planQuotaStarter'
  | 'planQuotaPro'
  | 'planQuotaBusiness'
  | 'planQuotaEnterprise'
  | 'plans'
  | 'trackingPlans'
>

/** Recipients per calendar month that a plan includes. */
export function getPlanQuota(config: PlanConfig, plan: Plan): number {
  switch (plan) {
    case 'free':
      return config.planQuotaFree
    case 'starter':
      return config.planQuotaStarter
    case 'pro':
      return config.planQuotaPro
    case 'business':
      return config.planQuotaBusiness
    case 'enterprise':
      return config.planQuotaEnterprise
    case 'unlimited':
      return UNLIMITED
  }
}

/**
 * Recipients per calendar month that an account may use: the account's own quota if it has one, else the quota of its
 * plan. While the plan is billed but no invoice above zero is settled, the quota is at most that of plan free.
 */
export function getEnforcedQuota(config: PlanConfig, plan: Plan, own: number | null, isHeld: boolean): number {
  if (own !== null) return own
  return isHeld ? Math.min(getPlanQuota(config, 'free'), getPlanQuota(config, plan)) : getPlanQuota(config, plan)
}

const createLimits = (
  domains: number,
  templates: number,
  webhooks: number,
  contactLists: number,
  subAccounts: number,
  contacts: number,
  storedMib: number,
): Record<LimitedResource | StoredResource, number> => ({
  domains,
  templates,
  webhooks,
  contact_lists: contactLists,
  sub_accounts: subAccounts,
  contacts,
  stored_mib: storedMib,
})

const DEFAULT_LIMITS: Readonly<Record<Plan, Readonly<Record<LimitedResource | StoredResource, number>>>> = {
  free: createLimits(3, 20, 5, 5, 0, 25_000, 128),
  starter: createLimits(10, 100, 10, 20, 0, 100_000, 512),
  pro: createLimits(50, 500, 25, 100, 10, 1_000_000, 4096),
  business: createLimits(250, 2000, 50, 500, 100, 5_000_000, 16_384),
  enterprise: createLimits(1000, 10_000, 100, 2000, 1000, 20_000_000, 65_536),
  unlimited: createLimits(UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED),
}

interface Override {
  limits: Partial<Record<LimitedResource | StoredResource, number>>
  priceCents?: number
  stripePriceId?: string
}

const LIMIT_BY_FIELD = new Map<string, LimitedResource | StoredResource>([
  ['max_domains', 'domains'],
  ['max_templates', 'templates'],
  ['max_webhooks', 'webhooks'],
  ['max_contact_lists', 'contact_lists'],
  ['max_sub_accounts', 'sub_accounts'],
  ['max_contacts', 'contacts'],
  ['max_stored_mib', 'stored_mib'],
])

/** The fields that `TASSIS_PLANS` can set. */
const SETTING_FIELDS = [...LIMIT_BY_FIELD.keys(), 'price_cents', 'stripe_price_id']

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
    PLANS.map((plan): [Plan, PlanTerms] => {
      const override = overrides.get(plan)
      return [
        plan,
        {
          plan,
          monthlyQuota: getPlanQuota(config, plan),
          limits: { ...DEFAULT_LIMITS[plan], ...override?.limits },
          trackingEnabled: hasTracking(config, plan),
          priceCents: override?.priceCents ?? 0,
          stripePriceId: override?.stripePriceId ?? null,
        },
      ]
    }),
  )
}

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

/** A payment is matched to its plan by the price alone. */
function requireDistinctPrices(overrides: ReadonlyMap<Plan, Override>): void {
  const planOf = new Map<string, Plan>()
  for (const [plan, { stripePriceId }] of overrides) {
    if (stripePriceId === undefined) continue
    const other = planOf.get(stripePriceId)
    if (other)
      throw invalidPlanSetting(`${plan}.stripe_price_id=${stripePriceId}`, `plan ${other} already has this price`)
    planOf.set(stripePriceId, plan)
  }
}

const invalidPlanSetting = (entry: string, allowed: string): ConfigError =>
  new ConfigError(`TASSIS_PLANS has "${entry}"; ${allowed}, as in free.max_domains=2 or pro.stripe_price_id=price_123.`)

/** Means every plan in a setting that lists plans. */
const EVERY_PLAN = 'all'

/** Whether a list of plans, which may contain `all`, includes this one. */
export const includesPlan = (list: readonly string[], plan: string): boolean =>
  list.includes(plan) || list.includes(EVERY_PLAN)

/** Whether a plan includes tracking. */
export const hasTracking = ({ trackingPlans }: Pick<Config, 'trackingPlans'>, plan: Plan): boolean =>
  includesPlan(trackingPlans, plan)

/** Throws ConfigError when a setting names an unknown plan or plan field. */
export function requireKnownPlans(config: PlanConfig & Pick<Config, 'abusePlans'>): void {
  requirePlanNames('TASSIS_TRACKING_PLANS', config.trackingPlans)
  requirePlanNames('TASSIS_ABUSE_PLANS', config.abusePlans)
  readTerms(config)
}

function requirePlanNames(variable: string, list: readonly string[]): void {
  if (list.every((name) => name === EVERY_PLAN || isPlan(name))) return
  throw new ConfigError(
    `${variable} is "${list.join(',')}"; it must be a comma-separated list of ${PLANS.join(', ')}, or ${EVERY_PLAN}.`,
  )
}
