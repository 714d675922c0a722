import { expect, test } from 'bun:test'
import { codesOf } from '#platform/db/open.ts'

const NAMES: readonly string[] = ['red', 'green', 'blue']

test('a name is stored as its position in the list and read back', () => {
  const { codeOf, nameOf } = codesOf('colour', NAMES)
  expect(NAMES.map(codeOf)).toEqual([0, 1, 2])
  expect([0, 1, 2].map(nameOf)).toEqual([...NAMES])
})

test('an unknown name or code throws', () => {
  const { codeOf, nameOf } = codesOf('colour', NAMES)
  expect(() => codeOf('grey')).toThrow('unknown colour grey')
  for (const code of [-1, 3, 0.5, Number.NaN]) expect(() => nameOf(code)).toThrow(`unknown colour code ${code}`)
})
