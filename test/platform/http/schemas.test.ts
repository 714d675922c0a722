import { describe, expect, test } from 'bun:test'
import { type TSchema, Type } from '@sinclair/typebox'
import { dataBody, isoTime, isoTimeOrNull, pageBody } from '#platform/http/envelope.ts'
import { createFieldFilter } from '#platform/http/response-shape.ts'
import { FreeMap, mapFromPhp, Nullable, OptionalNullable, StrictObject, StringEnum } from '#platform/http/schemas.ts'
import { createCheck, invalidFields, MAX_DETAILS } from '#platform/http/validation.ts'

describe('envelopes', () => {
  test('contain one object, or a list with its pagination', () => {
    expect(dataBody({ id: 1 })).toEqual({ data: { id: 1 } })
    expect(pageBody([1, 2], { page: 2, perPage: 2, total: 5 })).toEqual({
      data: [1, 2],
      pagination: { page: 2, per_page: 2, total: 5, total_pages: 3 },
    })
    expect(pageBody([], { page: 1, perPage: 20, total: 0 }).pagination.total_pages).toBe(0)
  })

  // Proves: http-13
  test('format times as RFC 3339 in UTC', () => {
    expect(isoTime(Date.UTC(2026, 0, 31, 9, 30))).toBe('2026-01-31T09:30:00.000Z')
    expect(isoTimeOrNull(null)).toBeNull()
  })
})

describe('error details', () => {
  const firstFault = (schema: TSchema, value: unknown) => createCheck(schema, 'body')(value)[0]

  test.each<[TSchema, unknown, string]>([
    [Type.String(), 5, 'must be a string'],
    [Type.String({ minLength: 1 }), '', 'must not be empty'],
    [Type.String({ minLength: 3 }), 'x', 'must have at least 3 characters'],
    [Type.String({ maxLength: 1 }), 'xx', 'must have at most 1 character'],
    [Type.String({ pattern: '^a$' }), 'b', 'must be a string of the documented form'],
    [Type.String({ pattern: '^a$', errorMessage: 'the letter a' }), 'b', 'must be the letter a'],
    [Type.Integer(), '5', 'must be a whole number'],
    [Type.Integer(), 1.5, 'must be a whole number'],
    [Type.Integer({ minimum: 1 }), 0, 'must be at least 1'],
    [Type.Integer({ maximum: 9 }), 10, 'must be at most 9'],
    [Type.Number(), '1', 'must be a number'],
    [Type.Boolean(), 'true', 'must be true or false'],
    [Type.Boolean(), 1, 'must be true or false'],
    [Type.Array(Type.String()), 'x', 'must be an array'],
    [Type.Array(Type.String(), { maxItems: 1 }), ['a', 'b'], 'must have at most 1 item'],
    [Type.Array(Type.String(), { minItems: 1 }), [], 'must have at least 1 item'],
    [StrictObject({}), [], 'must be an object'],
    [StrictObject({}), 'x', 'must be an object'],
    [Nullable(Type.String()), 5, 'must be a string or null'],
    [StringEnum(['a', 'b']), 'c', 'must be one of a, b'],
    [Nullable(StringEnum(['a', 'b'])), 'c', 'must be one of a, b or null'],
    [Type.Literal('a'), 'b', 'must be "a"'],
    [Type.Union([Type.String(), Type.Array(Type.String())]), 5, 'must be a string or an array'],
    [Nullable(FreeMap()), 5, 'must be an object or null'],
    [FreeMap(), [1], 'must be an object'],
  ])('%#', (schema, value, message) => {
    expect(firstFault(StrictObject({ a: schema }), { a: value })).toEqual({ field: 'a', message })
  })

  test("for missing fields say so, with the schema's explanation", () => {
    const more = { 'x-missing': 'send both' }
    const check = createCheck(
      StrictObject({ a: Type.String(), b: Type.Boolean(more), c: Type.Array(Type.String(), more) }),
      'body',
    )
    expect(check({ c: 'x' })).toEqual([
      { field: 'a', message: 'is required' },
      { field: 'b', message: 'is required: send both' },
      { field: 'c', message: 'must be an array' },
    ])
  })

  // Proves: error-3
  test('name fields by dotted paths, and the whole body as "body"', () => {
    const schema = StrictObject({ items: Type.Array(StrictObject({ 'a/b~c': Type.String() })) })
    expect(firstFault(schema, { items: [{ 'a/b~c': 'x' }, { 'a/b~c': 1 }] })?.field).toBe('items.1.a/b~c')
    expect(firstFault(schema, 'x')).toEqual({ field: 'body', message: 'must be an object' })
  })

  test('name the inner fields of a nullable object', () => {
    const schema = StrictObject({ inner: OptionalNullable(StrictObject({ name: Type.String() })) })
    expect(createCheck(schema, 'body')({ inner: { nam: 1 } })).toEqual([
      { field: 'inner.name', message: 'is required' },
      { field: 'inner.nam', message: 'is not a known field' },
    ])
    expect(createCheck(schema, 'body')({ inner: null })).toEqual([])
    expect(createCheck(schema, 'body')({})).toEqual([])
  })

  test('are limited in number, and their field names in length', () => {
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`${'x'.repeat(10_000)}${i}`, i]))
    const details = createCheck(StrictObject({}), 'body')(many)
    // Names that are equal after truncation are one field.
    expect(details).toHaveLength(1)
    expect(details[0]?.field.length).toBeLessThan(200)
    const numbers = createCheck(Type.Array(Type.String()), 'body')(Array.from({ length: 100_000 }, (_, i) => i))
    expect(numbers).toHaveLength(MAX_DETAILS)
  })

  test('of a 422 begin with the field that its message names', () => {
    const detail = { field: 'to', message: 'is required' }
    expect(invalidFields([detail]).message).toBe('to is required.')
    expect(invalidFields([detail, detail]).message).toBe('to is required (and one more field, see details).')
  })
})

describe('response filters', () => {
  const Inner = Type.Object({ a: Type.Integer() })

  test.each<[string, TSchema, unknown, unknown]>([
    ['an object', Inner, { a: 1, b: 2 }, { a: 1 }],
    ['undefined fields', Type.Object({ a: Type.Optional(Type.Integer()) }), { a: undefined }, {}],
    ['an array', Type.Array(Inner), [{ a: 1, b: 2 }], [{ a: 1 }]],
    [
      'nested objects',
      Type.Object({ x: Type.Object({ y: Inner }) }),
      { x: { y: { a: 1, b: 2 }, z: 3 } },
      { x: { y: { a: 1 } } },
    ],
    ['null in a nullable object', Nullable(Inner), null, null],
    ['a nullable object', Nullable(Inner), { a: 1, b: 2 }, { a: 1 }],
    ['a nullable array of objects', Nullable(Type.Array(Inner)), [{ a: 1, b: 2 }], [{ a: 1 }]],
    ['an object or a string', Type.Union([Type.String(), Inner]), 'x', 'x'],
    ['a map of objects', Type.Record(Type.String(), Inner), { x: { a: 1, b: 2 } }, { x: { a: 1 } }],
    ['a free map', Type.Record(Type.String(), Type.Unknown()), { x: { a: [1] } }, { x: { a: [1] } }],
    ['anything', Type.Unknown(), { a: { b: 1 } }, { a: { b: 1 } }],
    ['the variant that fits', Type.Union([Inner, Type.Object({ b: Type.Integer() })]), { b: 1, c: 2 }, { b: 1 }],
    [
      'a free value or an object',
      Type.Union([Inner, Type.Record(Type.String(), Type.String())]),
      { z: 'x' },
      { z: 'x' },
    ],
  ])('%s', (_, schema, value, expected) => {
    const before = structuredClone(value)
    expect(createFieldFilter(schema)(value)).toStrictEqual(expected)
    expect(value).toEqual(before)
  })

  test('work with a schema that Elysia closed or opened', () => {
    expect(createFieldFilter({ ...Inner, additionalProperties: true })({ a: 1, b: 2 })).toEqual({ a: 1 })
  })

  test('pass a value of the wrong type to the check', () => {
    expect(createFieldFilter(Inner)('x')).toBe('x')
    expect(createFieldFilter(Type.Array(Inner))({ a: 1 })).toEqual({ a: 1 })
  })

  test('refuse an Intersect, whose parts cannot be distinguished', () => {
    expect(() => createFieldFilter(Type.Intersect([Inner, Type.Object({ b: Type.String() })]))).toThrow(TypeError)
  })
})

// Proves: http-7
test("PHP's empty array is an empty map", () => {
  expect(mapFromPhp([])).toEqual({})
  expect(mapFromPhp({ a: 1 })).toEqual({ a: 1 })
  expect([mapFromPhp(null), mapFromPhp(undefined)]).toEqual([null, undefined])
})
