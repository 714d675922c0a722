import { describe, expect, test } from 'bun:test'
import {
  accountTag,
  createLinkUrl,
  createPixelUrl,
  MAX_TARGET_OCTETS,
  readLink,
  readPixel,
  trackingBaseUrl,
} from '#features/sending/tracking/tokens.ts'
import { newUuid, parseUuid, randomBytes } from '#platform/ids.ts'

const key = randomBytes(32)
const BASE = 'https://mail.tassis.test'
const TARGET = 'https://shop.test/?a=1&b=ü#end'
const recipient = { account: 7, recipientId: 300, day: 20_527 }

/** The parts of a tracked link after the base. */
function partsOf(url: string): { token: string; target: string } {
  const [token = '', target = ''] = url.replace(/^.*\/t\/[oc]\//, '').split('/')
  return { token, target }
}
const pixel = partsOf(createPixelUrl(key, BASE, recipient)).token
const link = partsOf(createLinkUrl(key, BASE, recipient, TARGET))

test.each([
  [0, 0, 0],
  [1, 1, 1],
  [127, 20_527, 255],
  [128, 20_527, 256],
  [16_383, 20_527, 2 ** 31 - 1],
  [16_384, 65_535, 2 ** 31],
  [2 ** 31, 20_527, 2 ** 32 - 1],
  [2 ** 32 + 1, 20_527, 7],
  [Number.MAX_SAFE_INTEGER, 65_535, 2 ** 32 - 1],
])('recipient %d of day %d and account %d is restored from pixel and link', (recipientId, day, account) => {
  const whose = { account, recipientId, day }
  const { token, target } = partsOf(createLinkUrl(key, BASE, whose, TARGET))
  expect(readPixel(key, partsOf(createPixelUrl(key, BASE, whose)).token)).toEqual(whose)
  expect(readLink(key, token, target)).toEqual({ ...whose, url: TARGET })
})

test('URLs are short, begin with the base and have only characters that need no encoding', () => {
  expect(createPixelUrl(key, BASE, recipient)).toMatch(/^https:\/\/mail\.tassis\.test\/t\/o\/[\w-]{26}$/)
  expect(createLinkUrl(key, BASE, recipient, TARGET)).toMatch(/^https:\/\/mail\.tassis\.test\/t\/c\/[\w-]{26}\/[\w-]+$/)
})

test('the base is the public URL, or the tracking host with its scheme and port', () => {
  const bases = [null, 'links.shop.test'].map((host) => trackingBaseUrl('https://mail.tassis.test:8443/', host))
  expect(bases).toEqual(['https://mail.tassis.test:8443', 'https://links.shop.test:8443'])
})

test('the same recipient and target always have the same URL; another account, recipient, day or target has another', () => {
  const urls = [
    createLinkUrl(key, BASE, recipient, TARGET),
    createLinkUrl(key, BASE, { ...recipient, account: 8 }, TARGET),
    createLinkUrl(key, BASE, { ...recipient, recipientId: 301 }, TARGET),
    createLinkUrl(key, BASE, { ...recipient, day: 20_528 }, TARGET),
    createLinkUrl(key, BASE, recipient, `${TARGET}x`),
  ]
  expect(createLinkUrl(key, BASE, recipient, TARGET)).toBe(urls[0] ?? '')
  expect(new Set(urls).size).toBe(5)
})

test('every version creates the same URLs for a recipient, so links in sent mail keep working', () => {
  const oldKey = new Uint8Array(32).fill(7)
  const whose = { account: 0x89ab_cdef, recipientId: 2 ** 32 + 1, day: 20_527 }
  expect([createPixelUrl(oldKey, BASE, recipient), createLinkUrl(oldKey, BASE, whose, TARGET)]).toEqual([
    `${BASE}/t/o/AQAAAAesAlAvxh4tANPB9EN5eA`,
    `${BASE}/t/c/Aomrze-BgICAEFAvPiKqcgCMq9kwmA/aHR0cHM6Ly9zaG9wLnRlc3QvP2E9MSZiPcO8I2VuZA`,
  ])
})

test('an account is identified by the random end of its UUID', () => {
  const uuid = parseUuid('01a1ff43-5ff0-7432-9c57-2c6289abcdef') ?? newUuid()
  expect(accountTag(uuid)).toBe(0x89ab_cdef)
  // Of one millisecond, and few enough that 32 random bits are not equal by chance.
  expect(new Set(Array.from({ length: 10 }, () => accountTag(newUuid()))).size).toBe(10)
})

test('characters that mail programs and people add to a link are ignored', () => {
  const damaged = (text: string) => [
    `${text}.`,
    `${text})`,
    `${text}>,`,
    `<${text}`,
    ` ${text}\r\n`,
    `${text.slice(0, 9)}=\r\n${text.slice(9)}`,
  ]
  for (const token of damaged(pixel)) expect([token, readPixel(key, token)]).toEqual([token, recipient])
  for (const target of damaged(link.target))
    expect([target, readLink(key, damaged(link.token)[5] ?? '', target)]).toEqual([
      target,
      { ...recipient, url: TARGET },
    ])
})

describe('invalid:', () => {
  test('a token with any character changed', () => {
    const changed = [...pixel].flatMap((_, i) =>
      [...'A_9z'].filter((c) => c !== pixel[i]).map((c) => pixel.slice(0, i) + c + pixel.slice(i + 1)),
    )
    expect(changed.length).toBeGreaterThan(50)
    expect(changed.filter((token) => readPixel(key, token))).toEqual([])
  })

  test('a truncated or extended token', () => {
    const cut = Array.from(pixel, (_, i) => pixel.slice(0, i))
    expect([...cut, `${pixel}A`, `${pixel}AAAA`, `AAAA${pixel}`].filter((token) => readPixel(key, token))).toEqual([])
  })

  test.each(['', '.', '/', '%00', 'ä', '====', 'A'.repeat(100_000)])('the text %.20p', (text) => {
    expect([readPixel(key, text), readLink(key, text, link.target), readLink(key, link.token, text)]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })

  test('the token of a pixel at a link, and that of a link at a pixel', () => {
    expect([readPixel(key, link.token), readLink(key, pixel, link.target), readLink(key, pixel, '')]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })

  test('a link whose target was changed for another', () => {
    const foreignTarget = Buffer.from('https://evil.test/').toString('base64url')
    const other = partsOf(createLinkUrl(key, BASE, recipient, 'https://other.test/'))
    for (const target of [foreignTarget, other.target, `${link.target}QQ`, link.target.slice(0, -2)])
      expect(readLink(key, link.token, target)).toBeUndefined()
  })

  test('a link with octets moved from the target into the token, or back', () => {
    // Otherwise, the end of a target that contains another URL could become a target itself.
    const token = Buffer.from(link.token, 'base64url')
    const target = Buffer.from(link.target, 'base64url')
    const whole = Buffer.concat([token.subarray(0, -10), target])
    const moved = Array.from({ length: 12 }, (_, i) => i)
      .filter((length) => length !== token.length - 10)
      .map((length) => ({
        token: Buffer.concat([whole.subarray(0, length), token.subarray(-10)]).toString('base64url'),
        target: whole.subarray(length).toString('base64url'),
      }))
    expect(moved.filter((each) => readLink(key, each.token, each.target))).toEqual([])
  })

  test('anything made with another key', () => {
    const other = randomBytes(32)
    expect([readPixel(other, pixel), readLink(other, link.token, link.target)]).toEqual([undefined, undefined])
  })
})

test('the longest target is restored, also with multi-octet characters', () => {
  const target = `https://a.test/${'ü'.repeat((MAX_TARGET_OCTETS - 16) / 2)}x`
  expect(Buffer.byteLength(target)).toBe(MAX_TARGET_OCTETS)
  const parts = partsOf(createLinkUrl(key, BASE, recipient, target))
  expect(readLink(key, parts.token, parts.target)?.url).toBe(target)
})
