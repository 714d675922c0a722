/** The classification of an attempt by its response. */

import { expect, test } from 'bun:test'
import { classifyResponse } from '#features/webhooks/webhooks/deliver/attempt.ts'
import { computeRetryDelayMs } from '#features/webhooks/webhooks/deliver/failures.ts'
import type { PayloadFormat } from '#features/webhooks/webhooks/event-names.ts'
import { hours, minutes, seconds } from '#platform/units.ts'

const NOW = Date.UTC(2026, 2, 15, 12, 30)

const classify = (status: number, format: PayloadFormat = 'tassis', retryAfter?: string) =>
  classifyResponse({ kind: 'response', status, body: '', address: '127.0.0.1', durationMs: 1, retryAfter }, format, NOW)

// Proves: notify-5
test('any 2xx is delivered, any 5xx and no response are transient, everything else is permanent', () => {
  const statuses = [99, 199, 200, 204, 226, 299, 300, 302, 304, 399, 400, 408, 410, 429, 499, 500, 501, 504, 599, 600]
  const kinds = statuses.map((status) => {
    const { kind, statusCode } = classify(status)
    return [statusCode, kind]
  })
  expect(kinds).toEqual(
    statuses.map((status) => {
      const hundreds = Math.floor(status / 100)
      return [status, hundreds === 2 ? 'delivered' : hundreds === 5 ? 'transient' : 'permanent']
    }),
  )
  const failed = { kind: 'failed', cause: 'dns', reason: 'It has no address.', durationMs: 1 } as const
  expect(classifyResponse(failed, 'tassis', NOW)).toEqual({
    kind: 'transient',
    statusCode: null,
    response: null,
    error: 'It has no address.',
    cause: 'dns',
    isTemporary: true,
    retryAfterMs: 0,
  })
})

// Proves: notify-53
test('in the formats of Resend and Postmark everything but a 2xx is transient, except a 403 for Postmark', () => {
  const statuses = [199, 200, 204, 301, 302, 304, 400, 401, 403, 404, 408, 410, 418, 425, 429, 500, 503, 600]
  const others = (format: PayloadFormat, kind: string) =>
    statuses.filter((status) => classify(status, format).kind === kind)
  expect(others('resend', 'delivered')).toEqual([200, 204])
  expect(others('resend', 'permanent')).toEqual([])
  expect(others('postmark', 'delivered')).toEqual([200, 204])
  expect(others('postmark', 'permanent')).toEqual([403])
})

// Proves: notify-53
test('Retry-After in seconds or as a date is obeyed for two hours at most, and only in the formats of other providers', () => {
  const wait = (field: string, format: PayloadFormat = 'resend') => classify(429, format, field).retryAfterMs
  expect([wait('120'), wait(' 0 '), wait('Sun, 15 Mar 2026 12:45:00 GMT', 'postmark')]).toEqual([
    minutes(2),
    0,
    minutes(15),
  ])
  expect([wait('86400'), wait('Mon, 16 Mar 2026 12:45:00 GMT'), wait('9'.repeat(400))]).toEqual([hours(2), hours(2), 0])
  expect([wait('Sun, 15 Mar 2026 12:00:00 GMT'), wait('soon'), wait('-1'), wait('')]).toEqual([0, 0, 0, 0])
  expect(wait('120', 'tassis')).toBe(0)
})

test('a 5xx, no response, and statuses that mean too busy or too early cause a backoff at once', () => {
  const statuses = [200, 302, 400, 404, 408, 410, 425, 429, 500, 503, 600]
  expect(statuses.filter((status) => classify(status).isTemporary)).toEqual([408, 425, 429, 500, 503])
})

// Proves: notify-6
test('retries follow 15, 30, 60 and 120 minutes after the previous attempt, with up to 5 seconds of jitter; none follows the fifth attempt', () => {
  const delays = (fraction: number) => [1, 2, 3, 4, 5, 6].map((attempts) => computeRetryDelayMs(attempts, fraction))
  const steps = [15, 30, 60, 120].map((step) => minutes(step))
  expect([delays(0), delays(0.5), delays(1)]).toEqual(
    [0, 2.5, 5].map((jitter) => [...steps.map((step) => step + seconds(jitter)), undefined, undefined]),
  )
})
