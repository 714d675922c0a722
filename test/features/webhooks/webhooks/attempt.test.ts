/** The classification of an attempt by its response. */
import { expect, test } from 'bun:test'
import { classifyResponse } from '#features/webhooks/webhooks/attempt.ts'

// Proves: notify-5
test('any 2xx is delivered, any 5xx and no response are transient, everything else is permanent', () => {
  const statuses = [99, 199, 200, 204, 226, 299, 300, 302, 304, 399, 400, 408, 410, 429, 499, 500, 501, 504, 599, 600]
  const kinds = statuses.map((status) => {
    const { kind, statusCode } = classifyResponse({
      kind: 'response',
      status,
      body: '',
      address: '127.0.0.1',
      durationMs: 1,
    })
    return [statusCode, kind]
  })
  expect(kinds).toEqual(
    statuses.map((status) => {
      const hundreds = Math.floor(status / 100)
      return [status, hundreds === 2 ? 'delivered' : hundreds === 5 ? 'transient' : 'permanent']
    }),
  )
  expect(classifyResponse({ kind: 'failed', cause: 'dns', reason: 'It has no address.', durationMs: 1 })).toEqual({
    kind: 'transient',
    statusCode: null,
    response: null,
    error: 'It has no address.',
    cause: 'dns',
    isTemporary: true,
  })
})

test('a 5xx, no response, and statuses that mean too busy or too early cause a backoff', () => {
  const statuses = [200, 302, 400, 404, 408, 410, 425, 429, 500, 503, 600]
  const passing = statuses.filter(
    (status) =>
      classifyResponse({ kind: 'response', status, body: '', address: '127.0.0.1', durationMs: 1 }).isTemporary,
  )
  expect(passing).toEqual([408, 425, 429, 500, 503])
})
