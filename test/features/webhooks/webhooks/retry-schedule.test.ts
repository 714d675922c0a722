/** The times of retries. */
import { expect, test } from 'bun:test'
import { computeRetryDelayMs } from '#features/webhooks/webhooks/deliver/failures.ts'
import { minutes, seconds } from '#platform/units.ts'

// Proves: notify-6
test('retries follow 15, 30, 60 and 120 minutes after the previous attempt, with up to 5 seconds of jitter; none follows the fifth attempt', () => {
  const delays = (fraction: number) => [1, 2, 3, 4, 5, 6].map((attempts) => computeRetryDelayMs(attempts, fraction))
  const steps = [15, 30, 60, 120].map((step) => minutes(step))
  expect([delays(0), delays(0.5), delays(1)]).toEqual(
    [0, 2.5, 5].map((jitter) => [...steps.map((step) => step + seconds(jitter)), undefined, undefined]),
  )
})
