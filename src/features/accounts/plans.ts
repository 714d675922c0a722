/** @module What a plan allows. Read by quota, rate limit and billing. */
import type { Config } from '#platform/config.ts'

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

/** Whether mail of a plan can be tracked. */
export const hasTracking = (config: Config, plan: Plan): boolean => config.trackingPlans.includes(plan)
