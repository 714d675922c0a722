import { expect, test } from 'bun:test'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import type { SendRequest } from '#features/sending/accept/model.ts'
import { statusName } from '#features/sending/queue/status.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createTestAccount, createTestApp, eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { startSink } from '#test/support/sink.ts'

test('an accepted email reaches the MX of its recipient, signed', async () => {
  await using sink = await startSink()
  await using dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
  })
  await using service = await createTestApp({
    delivers: true,
    settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_SMTP_PORT: String(sink.port) },
  })
  const { app } = service
  const actor = await createTestAccount(app)
  await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  const request: SendRequest = {
    from: 'Ada <ada@sender.test>',
    to: 'bob@receiver.test',
    subject: 'Grüße',
    text_body: 'Hello',
  }
  const { response } = await acceptEmail(app, actor, createDraft(app, request, undefined))
  expect(response.status).toBe('queued')
  const message = await eventually(() => sink.messages[0])
  expect(message.rcptTo).toEqual(['bob@receiver.test'])
  expect(message.raw).toContain('DKIM-Signature:')
  const status = await eventually(() => {
    const row = app.db.query<{ status: number }, []>('SELECT status FROM emails').get()
    return row && statusName(row.status) === 'sent' ? 'sent' : undefined
  })
  expect(status).toBe('sent')
})
