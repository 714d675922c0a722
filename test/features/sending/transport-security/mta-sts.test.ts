import { describe, expect, test } from 'bun:test'
import type { App } from '#features/core/app/app.ts'
import { type StsFinding, StsPolicies } from '#features/sending/transport-security/transport-security.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import type { HttpsReply } from '#test/support/https-receiver.ts'
import {
  EXPIRED,
  MX,
  OTHER_NAME,
  policyText,
  RECIPIENT_DOMAIN,
  startTlsFlow,
  startTlsReceiver,
  type TlsReceiverOptions,
} from '#test/support/tls-receivers.ts'

const TO = `bob@${RECIPIENT_DOMAIN}`
const TEXT = { 'content-type': 'text/plain; charset=utf-8' }
const START_OF_REPLY = 'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 500\r\n\r\n'

const manyHosts = (count: number, labels = ''): string =>
  Array.from({ length: count }, (_, i) => `mx: mx${i}.${labels}test\r\n`).join('')

const ENFORCE = policyText('enforce')

describe('a policy of mode enforce', () => {
  test('mail goes over a verified session', async () => {
    await using receiver = await startTlsReceiver({ policy: ENFORCE })
    await using flow = await startTlsFlow(receiver)
    const { events } = await flow.outcome(TO)
    const data = { tls: expect.stringContaining('certificate verified') }
    expect(events.at(-1)).toMatchObject({ type: 'delivered', data })
    expect(receiver.sink.messages).toMatchObject([{ secure: true, rcptTo: [TO] }])
    expect(receiver.policyHost.requests).toMatchObject([
      { method: 'GET', url: '/.well-known/mta-sts.txt', serverName: `mta-sts.${RECIPIENT_DOMAIN}` },
    ])
  })

  const demands = `${RECIPIENT_DOMAIN} demands verified TLS (MTA-STS, enforce): ${MX}[127.0.0.1]:`
  const failures: [string, TlsReceiverOptions, string][] = [
    ['an expired certificate', EXPIRED, 'presented an expired certificate'],
    ['a certificate for another name', OTHER_NAME, 'presented a certificate for another name'],
    ['no STARTTLS', { offersTls: false }, 'does not offer TLS (STARTTLS)'],
  ]
  test.each(failures)('mail to a host with %s is deferred, never sent in clear', async (_, options, words) => {
    await using receiver = await startTlsReceiver({ ...options, policy: ENFORCE })
    await using flow = await startTlsFlow(receiver)
    const { recipient, events } = await flow.outcome(TO)
    expect(recipient).toMatchObject({ status: 'queued', attempts: 1 })
    expect(events.at(-1)).toMatchObject({ type: 'deferred', data: { bounce_category: 'tls_failure' } })
    expect(recipient.lastError).toBe(`${demands}${receiver.sink.port} ${words}`)
    expect(receiver.sink.messages).toEqual([])
    expectBalanced(flow.service)
  })

  test('mail to a host that the policy does not allow is deferred without a connection', async () => {
    await using receiver = await startTlsReceiver({ policy: policyText('enforce', `*.mail.${RECIPIENT_DOMAIN}`) })
    await using flow = await startTlsFlow(receiver)
    const { recipient, events } = await flow.outcome(TO)
    expect(events.at(-1)).toMatchObject({ type: 'deferred', data: { bounce_category: 'tls_failure' } })
    expect(recipient.lastError).toBe(
      `${RECIPIENT_DOMAIN} demands verified TLS (MTA-STS, enforce): its policy allows none of its mail hosts (${MX})`,
    )
    expect(receiver.sink.messages).toEqual([])
  })

  test('a session without a check is not reused for a domain with a policy', async () => {
    await using receiver = await startTlsReceiver({ ...OTHER_NAME, policy: ENFORCE })
    receiver.zone['open.test'] = { MX: [{ preference: 10, exchange: MX }] }
    await using flow = await startTlsFlow(receiver)
    expect((await flow.outcome('ada@open.test')).recipient.status).toBe('sent')
    expect((await flow.outcome(TO)).recipient.status).toBe('queued')
    // The failure of the one domain does not hold the mail of the other.
    expect((await flow.outcome('eve@open.test')).recipient.status).toBe('sent')
    expect(receiver.sink.messages).toMatchObject([{ rcptTo: ['ada@open.test'] }, { rcptTo: ['eve@open.test'] }])
  })
})

test('a policy of mode testing changes nothing about delivery', async () => {
  await using receiver = await startTlsReceiver({ ...OTHER_NAME, policy: policyText('testing') })
  await using flow = await startTlsFlow(receiver)
  expect((await flow.outcome(TO)).recipient.status).toBe('sent')
  expect(receiver.policyHost.requests).toHaveLength(1)
})

/** The app, and a function that resolves once no lookup, fetch or write that began through it is in progress. */
function watchCalls(app: App) {
  const pending = new Set<Promise<unknown>>()
  const watch = <T extends object>(part: T): T =>
    new Proxy(part, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        return (...given: unknown[]) => {
          const result = value.apply(target, given)
          if (!(result instanceof Promise)) return result
          pending.add(result)
          const forget = () => void pending.delete(result)
          result.then(forget, forget)
          return result
        }
      },
    })
  return {
    app: { ...app, resolver: watch(app.resolver), fetch: watch(app.fetch), commit: watch(app.commit) },
    async rest() {
      while (pending.size > 0) {
        await Promise.allSettled(pending)
        // What follows a call may begin the next one.
        await new Promise((resolve) => setImmediate(resolve))
      }
    },
  }
}

describe('the policies', () => {
  /** What is found once every look has ended. */
  const settle = async (policies: StsPolicies): Promise<StsFinding> => {
    for (;;) {
      const found = policies.find(RECIPIENT_DOMAIN, 1)
      if (!(found instanceof Promise)) return found
      await found
    }
  }

  test.each(['SERVFAIL', 'NXDOMAIN'] as const)('are kept over a restart while DNS answers %s', async (dns) => {
    await using receiver = await startTlsReceiver({ policy: ENFORCE })
    await using flow = await startTlsFlow(receiver)
    const { clock } = flow
    await settle(new StsPolicies(flow.app, receiver.policyHost.port))
    receiver.policyHost.answer('reset')
    receiver.zone[`_mta-sts.${RECIPIENT_DOMAIN}`] = dns
    const watched = watchCalls(flow.app)
    const restarted = new StsPolicies(watched.app, receiver.policyHost.port)
    for (let look = 1; look <= 3; look++) {
      expect(restarted.find(RECIPIENT_DOMAIN, 1)).toMatchObject({ policy: { mode: 'enforce', mx: [MX] } })
      await watched.rest()
      clock.advance(minutes(6))
    }
  })

  test('is obeyed when the disk is full and it cannot be stored', async () => {
    await using receiver = await startTlsReceiver({ policy: ENFORCE })
    await using flow = await startTlsFlow(receiver)
    const write = () => Promise.reject(new Error('database or disk is full'))
    const commit = new Proxy(flow.app.commit, {
      get: (target, name) => (name === 'write' ? write : Reflect.get(target, name, target)),
    })
    const policies = new StsPolicies({ ...flow.app, commit }, receiver.policyHost.port)
    expect((await settle(policies)).policy?.mode).toBe('enforce')
  })

  test('a silent policy server delays the mail of its domain once, and no other mail', async () => {
    await using receiver = await startTlsReceiver({ policy: ENFORCE })
    receiver.policyHost.answer('hang')
    receiver.zone['open.test'] = { MX: [{ preference: 10, exchange: MX }] }
    await using flow = await startTlsFlow(receiver)
    const { clock } = flow
    const sent = await Promise.all(Array.from({ length: 10 }, () => flow.send({ to: TO })))
    await receiver.policyHost.received(1)
    expect((await flow.outcome('ada@open.test')).recipient.status).toBe('sent')
    expect(receiver.sink.messages).toHaveLength(1)
    clock.advance(seconds(10))
    for (const each of sent) expect((await flow.settled(each)).recipients[0]?.status).toBe('sent')
    expect((await flow.outcome(TO)).recipient.status).toBe('sent')
    expect(receiver.policyHost.requests).toHaveLength(1)
  })

  test('are fetched once for all that ask, and again when the id changes or a day has passed', async () => {
    await using receiver = await startTlsReceiver({ policy: ENFORCE })
    await using flow = await startTlsFlow(receiver)
    const { clock } = flow
    const policies = new StsPolicies(flow.app, receiver.policyHost.port)
    const found = await Promise.all(Array.from({ length: 20 }, () => settle(policies)))
    expect(found.every(({ policy }) => policy?.mode === 'enforce')).toBe(true)
    expect(receiver.policyHost.requests).toHaveLength(1)

    clock.advance(minutes(6))
    receiver.publish(policyText('testing'), '2')
    await settle(policies)
    await eventually(async () => (await settle(policies)).policy?.mode === 'testing')
    expect(receiver.policyHost.requests).toHaveLength(2)

    clock.advance(minutes(6))
    await settle(policies)
    clock.advance(hours(23))
    await settle(policies)
    expect(receiver.policyHost.requests).toHaveLength(2)
    receiver.publish(policyText('none'), '2')
    clock.advance(hours(2))
    await eventually(async () => (await settle(policies)).policy === undefined)
    expect(receiver.policyHost.requests).toHaveLength(3)
  })

  test('end with their max_age', async () => {
    await using receiver = await startTlsReceiver({ policy: policyText('enforce', MX, 7200) })
    await using flow = await startTlsFlow(receiver)
    const { clock } = flow
    const policies = new StsPolicies(flow.app, receiver.policyHost.port)
    expect((await settle(policies)).policy?.mode).toBe('enforce')
    receiver.policyHost.answer('reset')
    clock.advance(seconds(7199))
    expect((await settle(policies)).policy?.mode).toBe('enforce')
    clock.advance(seconds(2))
    expect(await settle(policies)).toEqual({})
  })

  test.each([86_400, 60, 0])('of %i s are replaced without a gap', async (maxAgeSeconds) => {
    await using receiver = await startTlsReceiver({ policy: policyText('enforce', MX, maxAgeSeconds) })
    await using flow = await startTlsFlow(receiver)
    const { clock } = flow
    const watched = watchCalls(flow.app)
    const policies = new StsPolicies(watched.app, receiver.policyHost.port)
    for (const passedMs of [0, hours(23) - 1, minutes(6), minutes(57), seconds(2), seconds(61), minutes(6)]) {
      clock.advance(passedMs)
      expect((await settle(policies)).policy?.mode).toBe('enforce')
      // A look in the background, if there is one.
      await watched.rest()
    }
  })

  const bad: [string, HttpsReply][] = [
    ['a redirect', { status: 302, headers: { location: 'https://other.test/' } }],
    ['an error', { status: 500, headers: TEXT, body: ENFORCE }],
    ['a web page', { headers: { 'content-type': 'text/html' }, body: ENFORCE }],
    ['nonsense', { headers: TEXT, body: 'hello' }],
    ['too much text', { headers: TEXT, body: `${ENFORCE}${'x: y\r\n'.repeat(20_000)}` }],
    ['too long names', { headers: TEXT, body: `${ENFORCE}${manyHosts(12, 'a.'.repeat(100))}` }],
    ['too many hosts', { headers: TEXT, body: `${ENFORCE}${manyHosts(60)}` }],
    ['half a policy', { raw: `${START_OF_REPLY}${ENFORCE}`, after: 'reset' }],
  ]
  test('anything else instead of a policy is none', async () => {
    await using receiver = await startTlsReceiver({ policy: '' })
    await using flow = await startTlsFlow(receiver)
    for (const [what, reply] of bad) {
      receiver.policyHost.answer(reply)
      expect([what, await settle(new StsPolicies(flow.app, receiver.policyHost.port))]).toEqual([what, {}])
    }
  })

  test('a policy server with a certificate for another name is not believed', async () => {
    await using receiver = await startTlsReceiver({ policyNames: ['other.test'], policy: ENFORCE })
    await using flow = await startTlsFlow(receiver)
    expect(await settle(new StsPolicies(flow.app, receiver.policyHost.port))).toEqual({})
  })
})
