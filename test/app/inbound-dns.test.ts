/** @module Tests DNS lookups of names in received mail. */
import { expect, test } from 'bun:test'
import { receiveMessage } from '#features/receiving/inbound/process/queue.ts'
import { seconds } from '#platform/units.ts'
import { createTestApp, eventually } from '#test/support/app.ts'
import { startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const MESSAGES = 100
const MAX_DELIVERY_EXCHANGES = 256
/** The key is looked up only if the body hash matches. */
const BODY = 'Hi.\r\n'
const BODY_HASH = new Bun.CryptoHasher('sha256').update(BODY).digest('base64')

test('silent DNS servers of senders do not delay the DNS lookups of delivery', async () => {
  const zone: Zone = { 'customer.test': { MX: [{ preference: 10, exchange: 'mx.customer.test' }] } }
  for (let n = 0; n < MESSAGES; n++) {
    zone[`s${n}.test`] = 'SILENCE'
    zone[`k._domainkey.s${n}.test`] = 'SILENCE'
    zone[`${n}.2.0.192.in-addr.arpa`] = 'SILENCE'
  }
  await using dns = await startDnsServer(zone)
  // Nothing times out, because the clock does not advance.
  const clock = new ManualClock(Date.UTC(2026, 10, 3))
  await using service = await createTestApp({ clock, receives: true, settings: { TASSIS_DNS_SERVERS: dns.address } })
  for (let n = 0; n < MESSAGES; n++) {
    const text = `DKIM-Signature: v=1; a=rsa-sha256; d=s${n}.test; s=k; h=From; bh=${BODY_HASH}; b=AAAA\r\nFrom: a@s${n}.test\r\n\r\n${BODY}`
    await receiveMessage(service.app, {
      mailFrom: `a@s${n}.test`,
      destinations: [{ kind: 'host', address: 'postmaster@mail.tassis.test' }],
      sourceIp: `192.0.2.${n}`,
      helo: 'mx.sender.test',
      tls: null,
      sizeBytes: text.length,
      content: { kind: 'bytes', bytes: Buffer.from(text) },
    })
  }
  await dns.received(MAX_DELIVERY_EXCHANGES + 1)
  expect(await service.app.resolver.mx('customer.test')).toMatchObject({
    kind: 'ok',
    records: [{ preference: 10, exchange: 'mx.customer.test' }],
  })

  // Stopping waits for pending DNS lookups, on this clock.
  let isStopped = false
  void service.inbound?.stop().then(() => {
    isStopped = true
  })
  await eventually(() => {
    clock.advance(seconds(1))
    return isStopped
  })
})
