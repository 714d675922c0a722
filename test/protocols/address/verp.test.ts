import { expect, test } from 'bun:test'
import { computeVerpTag, decodeVerp, encodeVerp, type VerpRecipient } from '#protocols/address/verp.ts'

const key = new Uint8Array(32).fill(7)
const names: VerpRecipient[] = [0, 1, 31, 255, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 123_456_789_012, 2 ** 40 - 1].flatMap(
  (recipientId) => [0, 1, 256, 65_535].map((tag) => ({ recipientId, tag })),
)

// Proves: delivery-12
test('every recipient is decoded again, in either case', () => {
  for (const name of names) {
    const localPart = encodeVerp(name, key)
    expect([decodeVerp(localPart, key), decodeVerp(localPart.toUpperCase(), key)]).toEqual([name, name])
  }
})

test('the local part is lower-case base32 after b-, within 64 octets, and always the same', () => {
  const name = { recipientId: 1, tag: 2 }
  expect(encodeVerp(name, key)).toMatch(/^b-[a-z2-7]{32}$/)
  expect(encodeVerp(name, key)).toBe(encodeVerp(name, key))
  expect(new Set(names.map((each) => encodeVerp(each, key))).size).toBe(names.length)
})

test('an address from before tags existed still names its recipient', () => {
  expect(decodeVerp('b-aaaaaaaaaaveimfz3z7zs3ayvdorb2zl', key)).toEqual({ recipientId: 42, tag: 0 })
})

test('a changed character, another key or an unrelated local part identifies no recipient', () => {
  const localPart = encodeVerp({ recipientId: 42, tag: 7 }, key)
  for (let i = 0; i < localPart.length; i++) {
    const other = localPart[i] === 'c' ? 'd' : 'c'
    expect(decodeVerp(localPart.slice(0, i) + other + localPart.slice(i + 1), key)).toBeUndefined()
  }
  expect(decodeVerp(localPart, new Uint8Array(32).fill(8))).toBeUndefined()
  for (const text of [
    '',
    'b-',
    'postmaster',
    `${localPart}a`,
    localPart.slice(0, -1),
    ` ${localPart.slice(1)}`,
    `b-${'1'.repeat(32)}`,
    'b-'.repeat(5_000),
  ])
    expect(decodeVerp(text, key)).toBeUndefined()
})

test('an unsubscribe address is not a return path, under either key', () => {
  const name = { recipientId: 42, tag: 7 }
  const bounces = encodeVerp(name, key)
  const unsubscribes = encodeVerp(name, key, 'u-')
  expect(unsubscribes).toBe(`u-${bounces.slice(2)}`)
  expect([bounces, unsubscribes].map((text) => [decodeVerp(text, key), decodeVerp(text, key, 'u-')])).toEqual([
    [name, undefined],
    [undefined, name],
  ])
  expect(decodeVerp(unsubscribes.toUpperCase(), key, 'u-')).toEqual(name)
  expect(decodeVerp(unsubscribes, new Uint8Array(32).fill(8), 'u-')).toBeUndefined()
})

test('an invalid id throws', () => {
  for (const recipientId of [-1, 1.5, Number.NaN, 2 ** 40])
    expect(() => encodeVerp({ recipientId, tag: 1 }, key)).toThrow('invalid recipient id')
})

test('the tag of an email is the end of its UUID', () => {
  const uuid = (...end: number[]) => Uint8Array.from([...new Array(16 - end.length).fill(9), ...end])
  expect([uuid(1, 2), uuid(0, 255), uuid(255, 255), uuid(0, 0)].map(computeVerpTag)).toEqual([258, 255, 65_535, 0])
})
