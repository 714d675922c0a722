import { describe, expect, test } from 'bun:test'
import { expectBalanced } from '#test/support/consistency.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import {
  MX,
  policyText,
  RECIPIENT_DOMAIN,
  startTlsReceiver,
  type TlsReceiver,
  type TlsReceiverOptions,
} from '#test/support/tls-receivers.ts'

const TO = `bob@${RECIPIENT_DOMAIN}`

const startFlow = ({ zone, settings }: TlsReceiver) => startMailFlow({ zone, settings })

describe('a policy of mode enforce', () => {
  test('mail goes over a verified session', async () => {
    await using receiver = await startTlsReceiver()
    receiver.publish(policyText('enforce'))
    await using flow = await startFlow(receiver)
    const { events } = await flow.outcome(TO)
    expect(events.at(-1)).toMatchObject({
      type: 'delivered',
      data: { tls: expect.stringContaining('certificate verified') },
    })
    expect(receiver.sink.messages).toMatchObject([{ secure: true, rcptTo: [TO] }])
    expect(receiver.policyHost.requests).toMatchObject([
      { method: 'GET', url: '/.well-known/mta-sts.txt', serverName: `mta-sts.${RECIPIENT_DOMAIN}` },
    ])
  })

  const demands = `${RECIPIENT_DOMAIN} demands verified TLS (MTA-STS, enforce): ${MX}[127.0.0.1]:`
  const failures: [string, TlsReceiverOptions, string][] = [
    [
      'an expired certificate',
      { certificate: (ca) => ca.issue([MX], { notAfter: new Date('2021-01-01') }) },
      'presented an expired certificate',
    ],
    [
      'a certificate for another name',
      { certificate: (ca) => ca.issue(['mx.other.test']) },
      'presented a certificate for another name',
    ],
    ['no STARTTLS', { offersTls: false }, 'does not offer TLS (STARTTLS)'],
  ]
  test.each(failures)('mail to a host with %s is deferred, never sent in clear', async (_, options, words) => {
    await using receiver = await startTlsReceiver(options)
    receiver.publish(policyText('enforce'))
    await using flow = await startFlow(receiver)
    const { recipient, events } = await flow.outcome(TO)
    expect(recipient).toMatchObject({ status: 'queued', attempts: 1 })
    expect(events.at(-1)).toMatchObject({ type: 'deferred', data: { bounce_category: 'tls_failure' } })
    expect(recipient.lastError).toBe(`${demands}${receiver.sink.port} ${words}`)
    expect(receiver.sink.messages).toEqual([])
    expectBalanced(flow.service)
  })

  test('mail to a host that the policy does not allow is deferred without a connection', async () => {
    await using receiver = await startTlsReceiver()
    receiver.publish(policyText('enforce', `*.mail.${RECIPIENT_DOMAIN}`))
    await using flow = await startFlow(receiver)
    const { recipient, events } = await flow.outcome(TO)
    expect(events.at(-1)).toMatchObject({ type: 'deferred', data: { bounce_category: 'tls_failure' } })
    expect(recipient.lastError).toBe(
      `${RECIPIENT_DOMAIN} demands verified TLS (MTA-STS, enforce): its policy allows none of its mail hosts (${MX})`,
    )
    expect(receiver.sink.messages).toEqual([])
  })

  test('a session without a check is not reused for a domain with a policy', async () => {
    await using receiver = await startTlsReceiver({ certificate: (ca) => ca.issue(['mx.other.test']) })
    receiver.publish(policyText('enforce'))
    receiver.zone['open.test'] = { MX: [{ preference: 10, exchange: MX }] }
    await using flow = await startFlow(receiver)
    expect((await flow.outcome('ada@open.test')).recipient.status).toBe('sent')
    expect((await flow.outcome(TO)).recipient.status).toBe('queued')
    // The failure of the one domain does not hold the mail of the other.
    expect((await flow.outcome('eve@open.test')).recipient.status).toBe('sent')
    expect(receiver.sink.messages).toMatchObject([{ rcptTo: ['ada@open.test'] }, { rcptTo: ['eve@open.test'] }])
  })
})

test('a policy of mode testing changes nothing about delivery', async () => {
  await using receiver = await startTlsReceiver({ certificate: (ca) => ca.issue(['mx.other.test']) })
  receiver.publish(policyText('testing'))
  await using flow = await startFlow(receiver)
  expect((await flow.outcome(TO)).recipient.status).toBe('sent')
  expect(receiver.policyHost.requests).toHaveLength(1)
})

test('with TASSIS_MTA_STS=false no policy is looked for', async () => {
  await using receiver = await startTlsReceiver({ offersTls: false })
  receiver.publish(policyText('enforce'))
  await using flow = await startMailFlow({
    zone: receiver.zone,
    settings: { ...receiver.settings, TASSIS_MTA_STS: 'false' },
  })
  expect((await flow.outcome(TO)).recipient.status).toBe('sent')
  expect(flow.dns.queries.filter(({ name }) => name.startsWith('_mta-sts'))).toEqual([])
})
