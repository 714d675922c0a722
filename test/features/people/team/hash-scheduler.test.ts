import { expect, test } from 'bun:test'
import { createAttempts } from '#features/people/team/attempts.ts'
import { createHashScheduler } from '#features/people/team/passwords.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { createTestApp } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

/** Runs hashes of 50 ms each; they end one at a time, in the order in which they began. */
function startHashes(maxConcurrent: number) {
  const clock = new ManualClock()
  const run = createHashScheduler(maxConcurrent, clock)
  const begun: string[] = []
  const running: (() => void)[] = []
  return {
    begun,
    running,
    ask(owner: string, { isKnown = false } = {}) {
      const hash = () => {
        const { promise, resolve } = Promise.withResolvers<void>()
        begun.push(owner)
        running.push(resolve)
        return promise
      }
      return run({ isKnown, owner }, hash)
    },
    async endOne() {
      clock.advance(50)
      running.shift()?.()
      await yieldToEventLoop()
    },
  }
}

test('known and unknown owners together never run more hashes than the limit', async () => {
  const { ask, endOne, running } = startHashes(2)
  const all = [...'abcd'].flatMap((owner) => [ask(owner), ask(`known ${owner}`, { isKnown: true })])
  for (let ended = 0; ended < 8; ended++) {
    expect(running).toHaveLength(ended < 7 ? 2 : 1)
    await endOne()
  }
  await Promise.all(all)
})

test('each known owner waits for at most one hash of unknown ones, whose networks are served round-robin', async () => {
  const { ask, endOne, begun } = startHashes(1)
  const unknown = [ask('a'), ask('a'), ask('a'), ask('a'), ask('b'), ask('c')]
  const known = [ask('ada', { isKnown: true })]
  await endOne()
  known.push(ask('bob', { isKnown: true }))
  for (let count = 0; count < 7; count++) await endOne()
  await Promise.all([...unknown, ...known])
  expect(begun).toEqual(['a', 'ada', 'b', 'bob', 'c', 'a', 'a', 'a'])
})

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
