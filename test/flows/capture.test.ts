import { describe, expect, test } from 'bun:test'
import type { Zone } from '#test/support/dns-server.ts'
import { type MailFlow, SENDER_DOMAIN, startMailFlow } from '#test/support/mail-flow.ts'
import { startSink } from '#test/support/sink.ts'
import { verifyWithMailauth } from '../protocols/dkim/verifiers.ts'

const ZONE: Zone = { 'receiver.test': { A: ['127.0.0.1'] }, 'other.test': { A: ['127.0.0.1'] } }

/** The captured messages of the only email. */
const captureOf = (flow: MailFlow) => flow.service.opened.captures.find(1)

describe('in delivery mode capture', () => {
  // Proves: delivery-19
  test('a message is composed, signed and captured for each recipient, without connecting to receivers or DNS', async () => {
    await using sink = await startSink()
    await using flow = await startMailFlow({
      zone: ZONE,
      smtpPort: sink.port,
      settings: { TASSIS_DELIVERY: 'capture' },
    })
    const sent = await flow.send({ to: 'bob@receiver.test', bcc: ['carol@other.test'], subject: 'Kept' })
    const email = await flow.settled(sent)
    expect(sent.sandbox).toBe(false)
    expect(email.recipients.map(({ address, status }) => ({ address, status }))).toEqual([
      { address: 'bob@receiver.test', status: 'sent' },
      { address: 'carol@other.test', status: 'sent' },
    ])
    const capture = captureOf(flow)
    expect(capture?.rcptTo).toEqual(['bob@receiver.test', 'carol@other.test'])
    const raw = capture?.raw ?? ''
    expect(raw).toContain('\r\nSubject: Kept\r\n')
    expect(raw).not.toContain('carol')
    expect(await verifyWithMailauth(Buffer.from(raw), flow.dkimRecord)).toBe('pass')
    expect(sink.messages).toEqual([])
    expect(flow.dns.queries).toEqual([])
  })

  test('outbound addresses are not used to connect to the local capture server', async () => {
    // TEST-NET-1 (RFC 5737): no machine has it.
    await using flow = await startMailFlow({
      settings: { TASSIS_DELIVERY: 'capture', TASSIS_OUTBOUND_IPS: '192.0.2.10' },
    })
    const email = await flow.settled(await flow.send({ to: 'bob@receiver.test' }))
    expect(email.status).toBe('sent')
  })
})

describe('mail from a domain that is not verified', () => {
  // Proves: send-6, accepted-3
  test('is captured as sandbox mail, also in delivery mode direct, and reaches no receiver', async () => {
    await using sink = await startSink()
    await using flow = await startMailFlow({ zone: ZONE, smtpPort: sink.port, verified: false })
    const sent = await flow.send({ to: 'bob@receiver.test' })
    expect(sent.sandbox).toBe(true)
    expect((await flow.settled(sent)).status).toBe('sent')
    expect(captureOf(flow)?.mailFrom).toEndWith(`@send.${SENDER_DOMAIN}`)
    expect(sink.messages).toEqual([])
    expect(flow.dns.queries).toEqual([])
  })

  // Proves: track-1
  test('is not tracked, even on request', async () => {
    await using flow = await startMailFlow({ zone: ZONE, smtpPort: 9, verified: false })
    const html_body = '<p><a href="https://shop.test/">Shop</a></p>'
    const sent = await flow.send({ to: 'bob@receiver.test', html_body, tracking: true })
    expect((await flow.settled(sent)).status).toBe('sent')
    expect(captureOf(flow)?.raw).toContain('https://shop.test/')
    expect(captureOf(flow)?.raw).not.toMatch(/\/t\/[oc]\//)
  })
})
