import { expect, test } from 'bun:test'
import { hasTracking, PLANS } from '#features/accounts/plans.ts'
import { ConfigError, loadConfig } from '#platform/config.ts'
import { createTestApp } from '#test/support/app.ts'

const withTracking = (setting: string): string[] => {
  const { config } = loadConfig({ TASSIS_TRACKING_PLANS: setting })
  return PLANS.filter((plan) => hasTracking(config, plan))
}

test('every plan has tracking unless the setting names some', () => {
  expect(withTracking('')).toEqual([...PLANS])
  expect(withTracking('all')).toEqual([...PLANS])
  expect(withTracking('pro, business')).toEqual(['pro', 'business'])
})

test.each(['gold', 'pro,Business', 'pro;business'])(
  'TASSIS_TRACKING_PLANS with %p, which is no plan, stops the start with one sentence',
  async (plans) => {
    await expect(createTestApp({ settings: { TASSIS_TRACKING_PLANS: plans } })).rejects.toThrow(
      new ConfigError(
        `TASSIS_TRACKING_PLANS is "${plans}"; allowed is a comma list of free, starter, pro, business, enterprise, unlimited, or all.`,
      ),
    )
  },
)
