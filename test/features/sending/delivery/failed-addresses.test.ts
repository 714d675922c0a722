import { describe, expect, test } from 'bun:test'
import type { Route } from '#features/sending/delivery/protocol.ts'
import { FailedAddresses } from '#features/sending/delivery/sites/route.ts'
import { hours, minutes } from '#platform/units.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createFolder } from '#test/support/folder.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { reactAt, startMisbehaving } from '#test/support/misbehaving.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { testCertificate } from '#test/support/scripted-smtp.ts'

const ROUTE: Route = {
  site: 'mx1.test,mx2.test',
  hosts: [
    { host: 'mx1.test', addresses: ['2001:db8::1', '192.0.2.1'] },
    { host: 'mx2.test', addresses: ['192.0.2.2'] },
  ],
  port: 25,
  fromOutboundIps: true,
  tls: 'opportunistic',
}
const order = ({ hosts }: Route): string[] => hosts.flatMap(({ addresses }) => addresses)
const create = () => {
  const clock = new ManualClock()
  return { clock, memory: new FailedAddresses(clock) }
}

describe('an address that did not answer', () => {
  test('is dialled last for 5 minutes, then in its place again', () => {
    const { clock, memory } = create()
    expect(memory.apply(ROUTE)).toBe(ROUTE)
    memory.record({ address: '192.0.2.1', kind: 'connect' })
    expect(memory.apply(ROUTE).hosts).toEqual([
      { host: 'mx1.test', addresses: ['2001:db8::1'] },
      { host: 'mx2.test', addresses: ['192.0.2.2'] },
      { host: 'mx1.test', addresses: ['192.0.2.1'] },
    ])
    clock.advance(minutes(5) - 1)
    expect(order(memory.apply(ROUTE)).at(-1)).toBe('192.0.2.1')
    clock.advance(1)
    expect(order(memory.apply(ROUTE))).toEqual(order(ROUTE))
  })

  test('is dialled last for twice as long after each failure, at most an hour, until it accepts a connection', () => {
    const { clock, memory } = create()
    const fail = () => memory.record({ address: '192.0.2.1', kind: 'connect' })
    const isLast = () => order(memory.apply(ROUTE)).at(-1) === '192.0.2.1'
    for (const expected of [5, 10, 20, 40, 60, 60]) {
      fail()
      // Attempts that began before the failure was known do not count.
      fail()
      clock.advance(minutes(expected) - 1)
      expect(isLast()).toBe(true)
      clock.advance(1)
      expect(isLast()).toBe(false)
    }
    memory.recordSession('192.0.2.1')
    fail()
    clock.advance(minutes(5))
    expect(isLast()).toBe(false)
  })

  test('keeps its place among others that did not answer either', () => {
    const { memory } = create()
    for (const address of order(ROUTE)) memory.record({ address, kind: 'connect' })
    expect(order(memory.apply(ROUTE))).toEqual(order(ROUTE))
  })

  test('is not remembered beyond an hour when the clock was fast', () => {
    const { clock, memory } = create()
    clock.jumpTo(clock.now() + hours(1000))
    memory.record({ address: '192.0.2.1', kind: 'connect' })
    clock.jumpTo(clock.now() - hours(1000))
    expect(order(memory.apply(ROUTE))).toEqual(order(ROUTE))
  })

  test('is forgotten when 10,000 others have failed since', () => {
    const { memory } = create()
    memory.record({ address: '192.0.2.1', kind: 'connect' })
    for (let i = 0; i < 10_000; i++) memory.record({ address: `10.0.${i >> 8}.${i & 255}`, kind: 'connect' })
    expect(order(memory.apply(ROUTE))).toEqual(order(ROUTE))
  })
})

test('three IPv6 addresses in a row that do not answer: IPv6 is dialled last for 30 minutes, or until it works', () => {
  const { clock, memory } = create()
  const fail = (address: string) => memory.record({ address, kind: 'connect' })
  fail('2001:db8::2')
  fail('2001:db8::3')
  expect(order(memory.apply(ROUTE))[0]).toBe('2001:db8::1')
  fail('2001:db8::4')
  expect(order(memory.apply(ROUTE))).toEqual(['192.0.2.1', '192.0.2.2', '2001:db8::1'])
  clock.advance(minutes(30))
  expect(order(memory.apply(ROUTE))[0]).toBe('2001:db8::1')
  // One more failure is enough then.
  fail('2001:db8::5')
  expect(order(memory.apply(ROUTE))[0]).toBe('192.0.2.1')
  memory.recordSession('2001:db8::6')
  expect(order(memory.apply(ROUTE))[0]).toBe('2001:db8::1')
})

describe('a broken TLS handshake', () => {
  const BROKEN_TLS = { tls: testCertificate, react: reactAt('handshake', { end: 'close' }) }

  test('is remembered for an hour, and only for opportunistic TLS', () => {
    const { clock, memory } = create()
    memory.record({ address: '192.0.2.2', kind: 'tls' })
    expect(memory.apply(ROUTE)).toEqual({ ...ROUTE, plaintextAddresses: ['192.0.2.2'] })
    expect(memory.apply({ ...ROUTE, tls: 'required' })).toEqual({ ...ROUTE, tls: 'required' })
    clock.advance(hours(1))
    expect(memory.apply(ROUTE)).toEqual(ROUTE)
  })

  test('costs one connection, not one for each message', async () => {
    const clock = new ManualClock()
    await using receiver = await startMisbehaving(BROKEN_TLS)
    await using flow = await startMailFlow({
      zone: { 'receiver.test': { A: ['127.0.0.1'] } },
      smtpPort: receiver.port,
      clock,
      settings: siteLimits({ idle_seconds: 0 }),
    })
    const connections: number[] = []
    const tls: unknown[] = []
    for (let message = 0; message < 3; message++) {
      const { recipient, events } = await flow.outcome(`r${message}@receiver.test`)
      expect(recipient).toMatchObject({ status: 'sent', attempts: 1 })
      connections.push(receiver.connections)
      tls.push(events.at(-1)?.data['tls' as never])
    }
    expect(connections).toEqual([2, 3, 4])
    expect(tls[0]).toMatch(/^none: handshake failed: /)
    expect(tls.slice(1)).toEqual(Array(2).fill('none: handshake failed: not tried again, because it failed recently'))
    clock.advance(hours(1))
    await flow.outcome('later@receiver.test')
    expect(receiver.connections).toBe(6)
    expectBalanced(flow.service)
  })

  test('is no reason for clear text to a provider whose policy demands TLS', async () => {
    await using receiver = await startMisbehaving(BROKEN_TLS)
    using folder = createFolder({ 'providers.toml': '[strict]\nmx = ["strict.test"]\ntls = "required"\n' })
    await using flow = await startMailFlow({
      zone: {
        'open.test': { MX: [{ preference: 1, exchange: 'mx.open.test' }] },
        'customer.test': { MX: [{ preference: 1, exchange: 'mx.strict.test' }] },
        'mx.open.test': { A: ['127.0.0.1'] },
        'mx.strict.test': { A: ['127.0.0.1'] },
      },
      smtpPort: receiver.port,
      settings: { TASSIS_PROVIDERS_FILE: folder.pathOf('providers.toml') },
    })
    // Anyone may publish the address of the provider under another name.
    expect((await flow.outcome('ada@open.test')).recipient.status).toBe('sent')
    expect((await flow.outcome('bob@customer.test')).recipient.status).toBe('queued')
    expect(receiver.messages).toHaveLength(1)
  })
})
