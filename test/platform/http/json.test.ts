import { expect, test } from 'bun:test'
import { AppError } from '#platform/errors.ts'
import { MAX_JSON_DEPTH, MAX_JSON_NAMES, MAX_JSON_VALUES, measureJson, parseJson } from '#platform/http/json.ts'

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
    expect([text, measureJson(JSON.stringify([{ [text]: text }, text]))]).toEqual([text, 4])
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
    expect(measureJson(JSON.stringify(value))).toBeGreaterThanOrEqual(numberOfValues(value))
  }
})

test('the maximum nesting passes, one level more does not', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  expect(statusOf(() => measureJson(nested(MAX_JSON_DEPTH)))).toBeUndefined()
  expect(statusOf(() => measureJson(nested(MAX_JSON_DEPTH + 1)))).toBe(400)
  expect(statusOf(() => measureJson(`${'[],'.repeat(1000)}1`))).toBeUndefined()
})

test('the maximum number of values passes, one more does not', () => {
  const values = (count: number) => '1,'.repeat(count - 1)
  expect(statusOf(() => measureJson(values(MAX_JSON_VALUES)))).toBeUndefined()
  expect(statusOf(() => measureJson(values(MAX_JSON_VALUES + 1)))).toBe(413)
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
    expect(measureJson(JSON.stringify(body))).toBeLessThanOrEqual(0.75 * MAX_JSON_VALUES)
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
    expect(measureJson(text)).toBeGreaterThanOrEqual(1)
    expect(statusOf(() => parseJson(text))).toBe(400)
  }
})

/** An object of so many members, none of which has a name of another object. */
const createNames = (count: number, prefix = 'n') =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`${prefix}${i}`, 1]))

test.each([
  ['an object', (count: number) => createNames(count)],
  ['an object within', (count: number) => ({ a: { b: [createNames(count - 2)] } })],
  ['the items of a list', (count: number) => [createNames(count - 1000), 1, createNames(1000, 'm')]],
])('%s may have the maximum number of different names, not a thousand more', (_, create) => {
  expect(statusOf(() => measureJson(JSON.stringify(create(MAX_JSON_NAMES - 1))))).toBeUndefined()
  expect(statusOf(() => measureJson(JSON.stringify(create(MAX_JSON_NAMES + 1002))))).toBe(413)
})

test('names of the rows of a table are not limited', () => {
  const rows = Array.from({ length: 8000 }, () => createNames(20))
  expect(
    statusOf(() => measureJson(JSON.stringify({ template_data: { ...createNames(19_000, 'm'), rows } }))),
  ).toBeUndefined()
})

test('names in all may be limited further', () => {
  const text = JSON.stringify({ items: Array.from({ length: 10 }, () => createNames(100)) })
  expect(statusOf(() => measureJson(text, 1001))).toBeUndefined()
  expect(statusOf(() => measureJson(text, 1000))).toBe(413)
})
