import { expect, test } from 'bun:test'
import { AppError } from '#platform/errors.ts'
import { countJsonValues, MAX_JSON_DEPTH, MAX_JSON_VALUES, parseJson } from '#platform/http/json.ts'

const statusOf = (run: () => unknown): number | undefined => {
  try {
    run()
    return undefined
  } catch (error) {
    return error instanceof AppError ? error.status : -1
  }
}

/** Strings around the length at which the search changes, ending in various numbers of backslashes. */
const strings = [0, 1, 22, 23, 24, 25, 26, 60, 200].flatMap((length) =>
  [0, 1, 2, 3, 4, 5].flatMap((backslashes) => [
    'a'.repeat(length) + '\\'.repeat(backslashes),
    `${'a'.repeat(length)}${'\\'.repeat(backslashes)}"[{,`,
    '"'.repeat(length) + '\\'.repeat(backslashes),
    '\\'.repeat(length) + '"'.repeat(backslashes),
  ]),
)

test('content of strings is not counted, however they end', () => {
  for (const text of strings) {
    // One array, one object, one comma, and the root value.
    expect([text, countJsonValues(JSON.stringify([{ [text]: text }, text]))]).toEqual([text, 4])
  }
})

test('the count is never below the number of values', () => {
  const numberOfValues = (value: unknown): number =>
    typeof value === 'object' && value !== null
      ? Object.values(value).reduce<number>((sum, item) => sum + numberOfValues(item), 1)
      : 1
  for (const value of [
    1,
    'x',
    [],
    [1],
    [1, 2, 3],
    {},
    { a: 1 },
    { a: [], b: {} },
    [
      [[], []],
      [{}, 1],
    ],
    { a: { b: [1, 'x'] } },
  ]) {
    expect(countJsonValues(JSON.stringify(value))).toBeGreaterThanOrEqual(numberOfValues(value))
  }
})

test('the maximum nesting passes, one level more does not', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  expect(statusOf(() => countJsonValues(nested(MAX_JSON_DEPTH)))).toBeUndefined()
  expect(statusOf(() => countJsonValues(nested(MAX_JSON_DEPTH + 1)))).toBe(400)
  expect(statusOf(() => countJsonValues(`${'[],'.repeat(1000)}1`))).toBeUndefined()
})

test('the maximum number of values passes, one more does not', () => {
  const values = (count: number) => '1,'.repeat(count - 1)
  expect(statusOf(() => countJsonValues(values(MAX_JSON_VALUES)))).toBeUndefined()
  expect(statusOf(() => countJsonValues(values(MAX_JSON_VALUES + 1)))).toBe(413)
})

test('the largest legitimate bodies have at most three quarters of the maximum number of values', () => {
  const fields = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`field${i}`, `${i}`]))
  const email = {
    from: 'ada@x.test',
    to: Array.from({ length: 50 }, (_, i) => `u${i}@x.test`),
    headers: fields(50),
    tags: Object.keys(fields(20)),
    metadata: fields(50),
    template_data: fields(100),
    template_alias: 'news',
    idempotency_key: 'k',
  }
  const contact = { email: 'u@x.test', metadata: fields(10) }
  for (const body of [{ emails: Array(500).fill(email) }, { contacts: Array(10_000).fill(contact) }])
    expect(countJsonValues(JSON.stringify(body))).toBeLessThanOrEqual(0.75 * MAX_JSON_VALUES)
})

test('malformed text has a count of at least 1, and parsing it is a 400', () => {
  for (const text of [
    '"',
    '"\\',
    '\\',
    '"\\"',
    ']]]]',
    '{"a',
    `"${'a'.repeat(100)}`,
    `"${'a'.repeat(100)}\\`,
    `"${'\\'.repeat(101)}"`,
  ]) {
    expect(countJsonValues(text)).toBeGreaterThanOrEqual(1)
    expect(statusOf(() => parseJson(text))).toBe(400)
  }
})
