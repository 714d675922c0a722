import { expect, test } from 'bun:test'
import {
  base64urlLength,
  decodeBase64url,
  decodeVarint,
  encodeVarint,
  MAX_VARINT_BYTES,
} from '#platform/crypto/token-bytes.ts'

test.each([
  [0, '00'],
  [127, '7f'],
  [128, '8001'],
  [300, 'ac02'],
  [2 ** 32 + 1, '8180808010'],
  [Number.MAX_SAFE_INTEGER, 'ffffffffffffff0f'],
])('the integer %d is the octets %s, and is decoded from among others', (value, hex) => {
  expect(encodeVarint(value).toString('hex')).toBe(hex)
  const bytes = Buffer.concat([Buffer.of(0xff), encodeVarint(value), Buffer.of(0xff)])
  expect(decodeVarint(bytes, 1)).toEqual({ value, end: 1 + hex.length / 2 })
  expect(hex.length / 2).toBeLessThanOrEqual(MAX_VARINT_BYTES)
})

test('a value that is not a row id throws', () => {
  for (const value of [-1, 1.5, Number.NaN, 2 ** 53]) expect(() => encodeVarint(value)).toThrow(RangeError)
})

test('decoding a truncated integer ends', () => {
  expect(decodeVarint(Buffer.of(0x81), 0)).toEqual({ value: 1, end: 2 })
})

test('the same octets have one text: unread bits, padding, spaces and the other alphabet are refused', () => {
  expect(decodeBase64url('-_8', 4)).toEqual(Buffer.of(0xfb, 0xff))
  expect(decodeBase64url('', 4)).toEqual(Buffer.alloc(0))
  for (const text of ['-_9', '+/8', '-_8=', ' -_8', '-_8\n', 'ä', 'A']) expect(decodeBase64url(text, 4)).toBeUndefined()
})

test('a text over the maximum length is refused before it is decoded', () => {
  expect(decodeBase64url('AAAA', base64urlLength(3))).toEqual(Buffer.alloc(3))
  expect(decodeBase64url('AAAAA', base64urlLength(3))).toBeUndefined()
})
