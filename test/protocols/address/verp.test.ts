import { expect, test } from 'bun:test'
import { decodeVerp, encodeVerp } from '#protocols/address/verp.ts'

const key = new Uint8Array(32).fill(7)
const ids = [0, 1, 31, 255, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 123_456_789_012, Number.MAX_SAFE_INTEGER]

test('every recipient id comes back, in either case', () => {
  for (const id of ids) {
    const localPart = encodeVerp(id, key)
    expect([decodeVerp(localPart, key), decodeVerp(localPart.toUpperCase(), key)]).toEqual([id, id])
  }
})

test('the local part is lower-case base32 after b-, within 64 octets, and always the same', () => {
  expect(encodeVerp(1, key)).toMatch(/^b-[a-z2-7]{32}$/)
  expect(encodeVerp(1, key)).toBe(encodeVerp(1, key))
  expect(new Set(ids.map((id) => encodeVerp(id, key))).size).toBe(ids.length)
})

test('a changed character, another key and foreign local parts name nobody', () => {
  const localPart = encodeVerp(42, key)
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

test('an address for unsubscribing is no return path, under the same key either', () => {
  const bounces = encodeVerp(42, key)
  const unsubscribes = encodeVerp(42, key, 'u-')
  expect(unsubscribes).toBe(`u-${bounces.slice(2)}`)
  expect([bounces, unsubscribes].map((text) => [decodeVerp(text, key), decodeVerp(text, key, 'u-')])).toEqual([
    [42, undefined],
    [undefined, 42],
  ])
  expect(decodeVerp(unsubscribes.toUpperCase(), key, 'u-')).toBe(42)
  expect(decodeVerp(unsubscribes, new Uint8Array(32).fill(8), 'u-')).toBeUndefined()
})

test('what is no id is a bug', () => {
  for (const id of [-1, 1.5, Number.NaN, 2 ** 53]) expect(() => encodeVerp(id, key)).toThrow('no recipient id')
})
