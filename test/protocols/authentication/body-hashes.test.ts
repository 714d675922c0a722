import { describe, expect, spyOn, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { authenticate } from '#protocols/authentication/authenticate.ts'
import { CanonicalBody } from '#protocols/dkim/body-hash.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { seededRandom } from '#test/support/random.ts'
import { facts, NOW } from './received.ts'

/** RFC 6376 §3.4.3 and §3.4.4, literally. */
const CANONICAL = {
  simple: (body: string) => `${body.replace(/(?:\r\n)+$/, '')}\r\n`,
  relaxed(body: string) {
    const lines = body.split('\r\n').map((line) => line.replace(/[ \t]+/g, ' ').replace(/ $/, ''))
    const text = lines.join('\r\n').replace(/(?:\r\n)+$/, '')
    return text === '' ? '' : `${text}\r\n`
  },
}
const hashOf = (text: string, length = text.length) =>
  createHash('sha256').update(text.slice(0, length), 'latin1').digest('base64')

describe.each(['simple', 'relaxed'] as const)('a body in %s canonicalisation', (canonicalisation) => {
  test('has the hash of RFC 6376, in pieces of any size, whole and up to a length', () => {
    const random = seededRandom(7)
    const symbols = [' ', '\t', '\r', '\r\n', '\r\n', '\r\n\r\n', 'a', 'word', 'x'.repeat(200)]
    for (let round = 0; round < 2_000; round++) {
      const body = Array.from(
        { length: random.between(0, 12) },
        () => symbols[random.between(0, symbols.length - 1)],
      ).join('')
      const expected = CANONICAL[canonicalisation](body)
      const length = random.between(0, expected.length + 3)
      const canonical = new CanonicalBody(canonicalisation)
      const hashes = [canonical.addHash('sha256'), canonical.addHash('sha256', length)]
      const bytes = Buffer.from(body, 'latin1')
      for (let at = 0; at < bytes.length; ) {
        const end = at + random.between(1, 5)
        canonical.update(bytes.subarray(at, end))
        at = end
      }
      const found = hashes.map((hash) => [hash.digest('base64'), hash.canonicalizedLength, hash.bodyHashedBytes])
      expect([body, ...found]).toEqual([
        body,
        [hashOf(expected), expected.length, expected.length],
        [hashOf(expected, length), expected.length, Math.min(length, expected.length)],
      ])
    }
  })

  test('has the same hash when it exceeds the internal buffer', () => {
    for (const part of ['  \r\n', '\r\n', 'a  b\t\r\n', 'x', ' \r']) {
      const body = `a${part.repeat(100_000)}b`
      const canonical = new CanonicalBody(canonicalisation)
      const hash = canonical.addHash('sha256')
      canonical.update(Buffer.from(body, 'latin1'))
      expect(hash.digest('base64')).toBe(hashOf(CANONICAL[canonicalisation](body)))
    }
  })
})

// Proves: inbound-22
test('ten signatures over a body of blanks canonicalise it once per canonicalisation, not once per signature', async () => {
  const nothing = () => Promise.resolve({ kind: 'nxdomain' as const })
  const resolver: Resolver = {
    mx: nothing,
    a: nothing,
    aaaa: nothing,
    cname: nothing,
    ns: nothing,
    ptr: nothing,
    txt: nothing,
    close() {},
    [Symbol.dispose]() {},
  }
  const signature = (canonicalisation: string, algorithm: string, more = '') =>
    `DKIM-Signature: v=1; a=${algorithm}; c=relaxed/${canonicalisation}; d=sender.test; s=s1;${more} h=from; bh=AA; b=AA\r\n`
  const all = ['rsa-sha256', 'rsa-sha1', 'ed25519-sha256', 'rsa-sha256'].flatMap((algorithm) =>
    ['relaxed', 'simple'].map((canonicalisation) => signature(canonicalisation, algorithm)),
  )
  const partial = [7_000_000, 7_000_001].map((length) => signature('relaxed', 'rsa-sha256', ` l=${length};`))
  const body = '  \r\n'.repeat(2_000_000)
  const head = `${[...all, ...partial].join('')}From: ann@sender.test\r\n\r\n`
  const update = spyOn(CanonicalBody.prototype, 'update')
  const { details } = await authenticate(Buffer.from(head + body, 'latin1'), facts, resolver, new ManualClock(NOW))
  const octets = update.mock.calls.reduce((sum, [piece]) => sum + piece.length, 0)
  update.mockRestore()
  expect(details.dkim.map(({ result }) => result)).toEqual(Array(10).fill('fail'))
  expect(octets).toBe(2 * body.length)
})
