import { expect, test } from 'bun:test'
import { parsePattern } from '#features/webhooks/inbound-routes/pattern.ts'
import { AppError } from '#platform/errors.ts'

const DOMAIN = 'xn--bcher-kva.test'
const STAR =
  'A "*" stands for nothing in a pattern: for all addresses of the domain use match_type catch_all, for all that begin alike prefix, with only their beginning as the pattern.'

// Proves: inbound-14
test.each([
  ['exact', 'support', 'support'],
  ['exact', 'support@', 'support'],
  ['exact', ` Support@B\u00dcCHER.test `, 'support'],
  ['exact', 'support@xn--bcher-kva.test', 'support'],
  ['exact', 'support+vip', 'support+vip'],
  ['exact', '"a@b"', '"a@b"'],
  ['exact', '"a@b"@b\u00fccher.test', '"a@b"'],
  ['exact', '"support"', 'support'],
  ['exact', 'j\u00f6rg', 'j\u00f6rg'],
  ['prefix', 'Sales-', 'sales-'],
  ['prefix', 'no.', 'no.'],
  ['prefix', 'support+', 'support+'],
  ['prefix', 'support@b\u00fccher.test', 'support'],
  ['catch_all', '', ''],
  ['catch_all', '*@somewhere else', ''],
] as const)('%s %j is read as %j', (matchType, given, pattern) => {
  expect(parsePattern(given, matchType, DOMAIN)).toBe(pattern)
})

// Proves: inbound-14
test.each([
  [
    'exact',
    '',
    'Give the part before the @ of the addresses, such as support; only a route of match_type catch_all needs none.',
  ],
  [
    'prefix',
    ' ',
    'Give the part before the @ of the addresses, such as support; only a route of match_type catch_all needs none.',
  ],
  ['exact', '@b\u00fccher.test', 'The pattern names no address: the address has nothing before the @.'],
  [
    'exact',
    'a b',
    'The pattern names no address: the part before the @ has a space or a character that is only allowed in quotes.',
  ],
  ['exact', 'no.', 'The pattern names no address: the part before the @ has an extra dot.'],
  ['exact', 'a\u0000', 'The pattern names no address: the address has a line break or another control character.'],
  ['exact', 'x'.repeat(65), 'The pattern names no address: the part before the @ is longer than 64 octets.'],
  ...(['*', 'yy*', '*@b\u00fccher.test', '"a*b"'] as const).flatMap((star) => [
    ['exact', star, STAR] as const,
    ['prefix', star, STAR] as const,
  ]),
  ['prefix', '"a', undefined],
  ['prefix', '.a', 'The pattern names no address: the part before the @ has an extra dot.'],
  [
    'exact',
    'support@example.com',
    `The pattern names the domain example.com, but the route is of ${DOMAIN}; give only the part before the @.`,
  ],
  ['prefix', 'a@b@c', undefined],
] as const)('%s %j is refused: %s', (matchType, given, message) => {
  let thrown: unknown
  try {
    parsePattern(given, matchType, DOMAIN)
  } catch (error) {
    thrown = error
  }
  if (!(thrown instanceof AppError)) throw new Error(`not refused: ${JSON.stringify(given)}`)
  expect({ status: thrown.status, field: thrown.details[0]?.field }).toEqual({ status: 422, field: 'pattern' })
  if (message !== undefined) expect(thrown.message).toBe(message)
})
