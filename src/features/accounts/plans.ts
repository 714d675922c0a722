/** @module What a plan allows. Read by quota, rate limit and billing. */
import { type Config, ConfigError } from '#platform/config.ts'

export const PLANS = ['free', 'starter', 'pro', 'business', 'enterprise', 'unlimited'] as const
export type Plan = (typeof PLANS)[number]

export const isPlan = (text: string): text is Plan => PLANS.some((plan) => plan === text)

/** "Unlimited" in fields that must hold a 32-bit number. */
export const UNLIMITED = 2_147_483_647

/** Recipients a calendar month of a plan. */
export function planQuota(config: Config, plan: Plan): number {
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

/** In a setting that lists plans: every one. */
const EVERY_PLAN = 'all'

/** Whether mail of a plan can be tracked. */
export const hasTracking = ({ trackingPlans }: Pick<Config, 'trackingPlans'>, plan: Plan): boolean =>
  trackingPlans.includes(plan) || trackingPlans.includes(EVERY_PLAN)

/** Throws ConfigError when a setting names a plan that there is not. */
export function requireKnownPlans({ trackingPlans }: Pick<Config, 'trackingPlans'>): void {
  if (trackingPlans.every((name) => name === EVERY_PLAN || isPlan(name))) return
  throw new ConfigError(
    `TASSIS_TRACKING_PLANS is "${trackingPlans.join(',')}"; allowed is a comma list of ${PLANS.join(', ')}, or ${EVERY_PLAN}.`,
  )
}
