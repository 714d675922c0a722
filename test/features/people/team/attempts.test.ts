import { expect, test } from 'bun:test'
import { createAttempts } from '#features/people/team/attempts.ts'
import { createTestApp } from '#test/support/app.ts'

test('attempts from very many networks do not reset the limit of a /48', async () => {
  await using opened = await createTestApp({ settings: { TASSIS_LOGINS_PER_MINUTE: '1' } })
  const { requireNetwork } = createAttempts(opened.app)
  const accepted = (count: number, address: (index: number) => string): number =>
    Array.from({ length: count }, (_, index) => {
      try {
        requireNetwork(address(index))
        return 1
      } catch {
        return 0
      }
    }).reduce<number>((sum, one) => sum + one, 0)
  const elsewhereIn48 = (from: number) => (index: number) => `2001:db8:0:${(from + index * 256).toString(16)}::1`
  expect(accepted(20, elsewhereIn48(0))).toBe(16)
  // More than the limiter holds in memory.
  expect(accepted(100_001, (index) => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`)).toBe(100_001)
  expect(accepted(20, elsewhereIn48(1))).toBe(0)
})
