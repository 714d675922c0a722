import { expect, test } from 'bun:test'
import { runProviderDay } from './provider-day.ts'

test('in a short day of mail to ten providers, with limits and a block, none sees more than its limit and everything is delivered', async () => {
  const { violations, delivered, rows } = await runProviderDay(600, 0.25)
  expect(violations).toEqual([])
  expect(delivered).toBe(600)
  expect(rows.find(({ provider }) => provider === 'micro')?.['refused']).toBeGreaterThan(0)
}, 120_000)
