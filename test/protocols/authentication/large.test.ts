import { describe, expect, test } from 'bun:test'
import { createPrivateKey } from 'node:crypto'
import { randomBelow } from '#platform/ids.ts'
import { authenticate } from '#protocols/authentication/authenticate.ts'
import { signMessage } from '#protocols/dkim/sign.ts'
import { StubResolver } from '#protocols/dns/resolver.ts'
import type { MessageSource } from '#protocols/mime/source.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { type Random, seededRandom } from '#test/support/random.ts'
import { createMessage, createPassingZone, facts, NOW, privateKeyPem, signForTest } from './received.ts'

const MIB = 1024 * 1024

interface CountingSource extends MessageSource {
  readBytes: number
}

/** A message in chunks of random length up to `maxBytes`, which counts the bytes read. */
function inPieces(bytes: Uint8Array, maxBytes: number, random: Random = seededRandom(1)): CountingSource {
  const source: CountingSource = {
    readBytes: 0,
    *chunks() {
      for (let at = 0; at < bytes.length; ) {
        const piece = bytes.subarray(at, at + random.between(1, maxBytes))
        at += piece.length
        source.readBytes += piece.length
        yield piece
      }
    },
  }
  return source
}

async function verdictOf(message: Uint8Array | MessageSource): Promise<string> {
  await using server = await startDnsServer(createPassingZone())
  const clock = new ManualClock(NOW)
  using resolver = new StubResolver({ servers: [server.address], clock, randomId: () => randomBelow(65_536) })
  const { dkim, dmarc } = await authenticate(message, facts, resolver, clock)
  return `dkim=${dkim} dmarc=${dmarc}`
}

const BODIES: readonly (readonly [string, string])[] = [
  ['lines', 'one  line\t of words \r\n\r\nand another\r\n'.repeat(50)],
  ['empty lines at the end', `a\r\n${'\r\n'.repeat(200)}`],
  ['no line end', 'a b  c'],
  ['lone carriage returns', `a\rb\r\r${'\r'.repeat(40)}\r\nc\r\n`],
  ['nothing', ''],
]

describe('a signed message read piece by piece', () => {
  test.each(BODIES)('with %s is verified as in one piece', async (_, body) => {
    const message = signForTest(createMessage(undefined, body))
    const random = seededRandom(3)
    expect(await verdictOf(message)).toBe('dkim=pass dmarc=pass')
    for (const maxBytes of [1, 3, 100])
      expect(await verdictOf(inPieces(message, maxBytes, random))).toBe('dkim=pass dmarc=pass')
    const changed = Buffer.from(message.toString('latin1').replace('Subject: Hi', 'Subject: Ho'), 'latin1')
    expect(await verdictOf(inPieces(changed, 100))).toBe('dkim=fail dmarc=pass')
  })

  test('gets CRLF for lone line feeds, also between two pieces', async () => {
    const message = signForTest(createMessage(undefined, 'a\r\nb\r\n\r\nc\r\n'))
    const bare = Buffer.from(message.toString('latin1').replaceAll('\r\n', '\n'), 'latin1')
    for (const maxBytes of [1, 2, 50]) expect(await verdictOf(inPieces(bare, maxBytes))).toBe('dkim=pass dmarc=pass')
  })

  test('keeps the covered fields when a signature is skipped', async () => {
    const long = `DKIM-Signature: v=1; d=other.test; s=x; x=${'y'.repeat(5000)}\r\n`
    const message = Buffer.concat([Buffer.from(long), signForTest(createMessage(undefined, 'a\r\n'.repeat(1000)))])
    for (const maxBytes of [7, 5000]) expect(await verdictOf(inPieces(message, maxBytes))).toBe('dkim=pass dmarc=pass')
  })
})

test('a signed message with a line of 8 MiB is verified', async () => {
  const message = signMessage(createMessage(undefined, `${'a '.repeat(4 * MIB)}\r\nb\r\n`), {
    domain: 'sender.test',
    selector: 's1',
    privateKey: createPrivateKey(privateKeyPem),
  })
  expect(await verdictOf(inPieces(message, 65_536))).toBe('dkim=pass dmarc=pass')
})

test('a message without a signature is read only at its beginning', async () => {
  const source = inPieces(createMessage(undefined, 'a\r\n'.repeat(MIB)), 65_536)
  expect(await verdictOf(source)).toBe('dkim=none dmarc=pass')
  expect(source.readBytes).toBeLessThan(MIB / 2)
})
