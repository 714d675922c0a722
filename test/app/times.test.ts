import { expect, test } from 'bun:test'
import { parseTimeOption } from '#app/cli/options.ts'

const NOW = Date.parse('2026-11-21T03:05:00Z')

test.each([
  ['2h', '2026-11-21T01:05:00.000Z'],
  ['90 min', '2026-11-21T01:35:00.000Z'],
  ['3 days ago', '2026-11-18T03:05:00.000Z'],
  ['1w', '2026-11-14T03:05:00.000Z'],
  ['30s', '2026-11-21T03:04:30.000Z'],
  ['Today', '2026-11-21'],
  ['yesterday', '2026-11-20'],
  ['now', '2026-11-21T03:05:00.000Z'],
  ['02:30', '2026-11-21T02:30:00.000Z'],
  // The last such time before now.
  ['23:00', '2026-11-20T23:00:00.000Z'],
  ['2026-11-19', '2026-11-19'],
  ['2026-11-19T10:00Z', '2026-11-19T10:00Z'],
])('the time %j is %s', (text, expected) => expect(parseTimeOption('--since', text, NOW)).toBe(expected))

test.each(['soon', '', '2 months', '-2h', '25:00', '2026-02-30', '1234567d'])('%j is no time', (text) =>
  expect(() => parseTimeOption('--since', text, NOW)).toThrow('--since must be a time such as 2h, yesterday, 14:30'),
)
