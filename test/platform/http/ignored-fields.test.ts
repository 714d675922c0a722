import { expect, test } from 'bun:test'
import { setIgnored } from '#platform/http/ignored-fields.ts'

const named = (...batches: string[][]): string | number | undefined => {
  const headers: Record<string, string | number> = {}
  for (const names of batches) setIgnored(headers, names)
  return headers['tassis-ignored']
}

test('ignored fields are named once each, beside those that were named before', () => {
  expect(named([])).toBeUndefined()
  expect(named(['b', 'a', 'b'], [], ['a', 'c'])).toBe('b, a, c')
})

test('names of strangers are cut, safe in a header, and few', () => {
  expect(named(['a\r\nSet-Cookie: b', 'ü,', '', 'x'.repeat(100)])).toBe(`a??Set-Cookie:?b, ??, ?, ${'x'.repeat(60)}`)
  const many = Array.from({ length: 100_000 }, (_, index) => `field${index}`)
  const text = String(named(many))
  expect(text.split(', ')).toEqual([...many.slice(0, 20), '...'])
  expect(named(many, many)).toBe(text)
})
