import { expect, test } from 'bun:test'
import { parsePerson } from '#features/lifecycle/privacy/person.ts'

const personNamed = (address: string) => {
  const person = parsePerson(address)
  if (!person) throw new Error(`${address} is not an address`)
  return person
}

test.each([
  ['ada@victim.test', 'ADA@Victim.TEST', true],
  ['ada@victim.test', 'bada@victim.test', false],
  ['ada@bücher.test', 'Ada@xn--bcher-kva.test', true],
  ['"ada"@victim.test', 'ada@victim.test', true],
  ['josé@victim.test', 'JOSE\u0301@victim.test', true],
])('%s is the person of %s: %s', (address, other, is) => {
  expect(personNamed(address).is(other)).toBe(is)
})

test.each([
  ['Ada <Ada@Victim.test>', true],
  ['550 5.1.1 <ada@victim.test>: unknown', true],
  ['{"text":"first line\\nada@victim.test wrote"}', true],
  ['https://x.test/?email=ada%40victim.test&y', true],
  ['mailto:ada@victim.test', true],
  ['to ada@victim.test.', true],
  ['bada@victim.test', false],
  ['x.ada@victim.test', false],
  ['ada@victim.test.example', false],
  ['ada@victim.tests', false],
  ['"ada"@victim.test', true],
  ['{"to":"\\"ada\\"@victim.test"}', true],
  ["'ada@victim.test' is unknown", true],
  ["d'ada@victim.test", false],
  ['https://x.test/?for=d%27ada%40victim.test', false],
  ['https://x.test/?for=tag%2Bada%40victim.test', false],
  ['https://x.test/?for=%C3%A4ada%40victim.test', false],
  ['https://x.test/?for=ada%40victim.test%2Eexample', false],
  ['{"to":"\\u003cada@victim.test\\u003e"}', true],
  ['who is ada@victim.test- or is it', true],
  ['ada@victim.test-group.example', false],
  ['ada@victim.test...', true],
])('in the text %j the address is found: %s', (text, isIn) => {
  expect(personNamed('ada@victim.test').isIn(text)).toBe(isIn)
})

test.each([
  ['R&D <r&d@victim.test>', 'd@victim.test', false],
  ["Sean O'Brien <o'brien@victim.test>", 'brien@victim.test', false],
  ['["x/ada@victim.test","ben@victim.test"]', 'ada@victim.test', false],
  ['["\\"ada\\"@victim.test"]', 'ada@victim.test', true],
  ['"Lovelace, Ada" <ADA@victim.test>, ben@victim.test', 'ada@victim.test', true],
  ['prvs=0123456789=ada@victim.test', 'ada@victim.test', true],
])('the header %j names %s: %s', (header, address, isNamed) => {
  expect(personNamed(address).isNamedIn(header)).toBe(isNamed)
})

test('an address with an internationalised domain is found in both forms', () => {
  const person = personNamed('ada@bücher.test')
  expect(['<ada@BÜCHER.test>', 'ada@xn--bcher-kva.test', 'ada@bucher.test'].map((text) => person.isIn(text))).toEqual([
    true,
    true,
    false,
  ])
})

test('erasing an address from JSON leaves valid JSON with all other addresses', () => {
  const person = personNamed('ada@victim.test')
  const before = JSON.stringify({ to: 'Ada@victim.test, grada@victim.test', error: 'line 1: "ada@victim.test"' })
  expect(JSON.parse(person.eraseFrom(before))).toEqual({
    to: 'erased@erased.invalid, grada@victim.test',
    error: 'line 1: "erased@erased.invalid"',
  })
})

test('a text without the address stays unchanged, including decomposed letters', () => {
  expect(personNamed('ada@victim.test').eraseFrom('Jose\u0301 <x@y.test>')).toBe('Jose\u0301 <x@y.test>')
})

test.each(['', 'ada', 'ada@', '@victim.test', 'ada@@victim.test'])('%j does not identify a person', (text) => {
  expect(parsePerson(text)).toBeUndefined()
})
