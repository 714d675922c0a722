/**
 * @module The whole path of a late bounce over real sockets: a Postfix accepts an email and later fails to deliver it;
 * its bounce arrives over SMTP, corrects the status, suppresses the address, and is delivered to a webhook over TLS.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { systemClock } from '#platform/time/clock.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi, VERIFIED } from '#test/support/email-api.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { type HttpsReceiver, startHttpsReceiver } from '#test/support/https-receiver.ts'
import { isPostfixAvailable, type Postfix, startPostfix } from '#test/support/postfix.ts'
import { createResolver } from '#test/support/resolver.ts'
import { type ScriptedSmtp, startScriptedSmtp } from '#test/support/scripted-smtp.ts'

const suite = describe.skipIf(!isPostfixAvailable())

const HOOK_HOST = 'hooks.test'

suite('an email that a server accepts but cannot deliver', () => {
  let final: ScriptedSmtp
  let postfix: Postfix
  let receiver: HttpsReceiver
  let dns: DnsServer
  let service: EmailApi
  beforeAll(async () => {
    const inboundPort = await findFreePort()
    final = await startScriptedSmtp({
      // Without PIPELINING: with it Postfix would begin DATA before it knows that there is no recipient.
      extensions: [],
      rcpt: '550 5.1.1 <gone@receiver.test>: user unknown',
    })
    postfix = await startPostfix({
      mailboxes: [],
      relay: { port: inboundPort, portOf: { 'gone@receiver.test': final.port } },
    })
    receiver = await startHttpsReceiver({ names: [HOOK_HOST] })
    dns = await startDnsServer({
      'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
      'mx.receiver.test': { A: ['127.0.0.1'] },
      [HOOK_HOST]: { A: ['127.0.0.1'] },
    })
    service = await createEmailApi({
      clock: systemClock,
      delivers: true,
      receives: true,
      sendsWebhooks: true,
      resolver: createResolver(dns),
      settings: {
        TASSIS_SMTP_PORT: String(postfix.port),
        TASSIS_INBOUND_ADDR: `127.0.0.1:${inboundPort}`,
        TASSIS_EXTRA_CA_FILE: receiver.caFile,
      },
    })
  })
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]()
    await postfix?.[Symbol.asyncDispose]()
    await final?.[Symbol.asyncDispose]()
    await receiver?.[Symbol.asyncDispose]()
    await dns?.close()
  })

  // Proves: status-30
  test('is sent, then bounced: status, event, suppression and webhook; the next email is not sent at all', async () => {
    const { api } = service
    const hook = await api('POST', '/v1/webhooks', {
      url: receiver.url(HOOK_HOST, '/hook'),
      events: ['sent', 'bounced'],
    })
    expect(hook.status).toBe(201)
    const { id } = await service.accepted({ to: 'gone@receiver.test', from: `ada@${VERIFIED}` })
    const bounced = await eventually(async () => {
      const detail = await service.detail(id)
      return detail['status'] === 'bounced' && detail
    }, 110_000)
    expect(bounced['recipients']).toEqual([
      expect.objectContaining({
        address: 'gone@receiver.test',
        status: 'bounced',
        bounce_type: 'hard',
        bounce_category: 'invalid_recipient',
        delivered_at: null,
      }),
    ])
    const events = bounced['events'] as { type: string; diagnostic_code: string | null }[]
    expect(events.map(({ type }) => type).toSorted()).toEqual(['bounced', 'delivered', 'queued', 'sent'])
    expect(events.find(({ type }) => type === 'bounced')?.diagnostic_code).toContain('user unknown')

    const suppressions = await api('GET', '/v1/suppressions')
    expect(at(suppressions.body, 'data')).toEqual([
      expect.objectContaining({ email_address: 'gone@receiver.test', reason: 'hard_bounce', source_email_id: id }),
    ])
    const requests = await eventually(() => receiver.requests.length === 2 && receiver.requests, 60_000)
    const bodies = requests.map(({ text }) => JSON.parse(text) as Record<string, unknown>)
    expect(bodies.map(({ event, email_id }) => [event, email_id])).toEqual([
      ['sent', id],
      ['bounced', id],
    ])
    expect(bodies[1]).toMatchObject({
      to: 'gone@receiver.test',
      smtp_response: expect.stringContaining('user unknown'),
    })

    const next = await service.accepted({ to: 'gone@receiver.test', from: `ada@${VERIFIED}` })
    expect(next['status']).toBe('rejected')
  }, 240_000)
})
