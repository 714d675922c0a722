import { expect, test } from 'bun:test'
import { parsePattern } from '#features/webhooks/inbound-routes/pattern.ts'
import { AppError } from '#platform/errors.ts'

const DOMAIN = 'xn--bcher-kva.test'
const STAR =
  'Wildcards are not supported; use match_type catch_all for all addresses of the domain, or match_type prefix with the common start of the addresses as the pattern.'

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
  ['exact', 'No.', 'no.'],
  ['exact', '".a..b"', '.a..b'],
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
    'pattern must not be empty unless match_type is catch_all; provide the part of the addresses before the @, such as support.',
  ],
  [
    'prefix',
    ' ',
    'pattern must not be empty unless match_type is catch_all; provide the part of the addresses before the @, such as support.',
  ],
  ['exact', '@b\u00fccher.test', 'The pattern is not a valid address: the address has nothing before the @.'],
  [
    'exact',
    'a b',
    'The pattern is not a valid address: the part before the @ has a space or a character that is only allowed in quotes.',
  ],
  ['exact', '..', undefined],
  [
    'exact',
    'a\u0000',
    'The pattern is not a valid address: the address has a line break or another control character.',
  ],
  ['exact', 'x'.repeat(65), 'The pattern is not a valid address: the part before the @ is longer than 64 octets.'],
  ...(['*', 'yy*', '*@b\u00fccher.test', '"a*b"'] as const).flatMap((star) => [
    ['exact', star, STAR] as const,
    ['prefix', star, STAR] as const,
  ]),
  ['prefix', '"a', undefined],
  [
    'exact',
    'support@example.com',
    `The pattern names the domain example.com, but the route belongs to ${DOMAIN}; provide only the part before the @.`,
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
