import { expect, test } from 'bun:test'
import { simpleParser } from 'mailparser'
import { hours } from '#platform/units.ts'
import { formatDkimRecord } from '#protocols/dkim/keys.ts'
import {
  ADDRESS,
  ask,
  createConfirmingService,
  PUBLIC_URL,
} from '#test/features/audience/contact-lists/confirmation-fixture.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createResolver } from '#test/support/resolver.ts'
import { type SinkMessage, startSink } from '#test/support/sink.ts'
import { verifyWithMailauth } from '../protocols/dkim/verifiers.ts'

// Proves: contact-15
test('from signup to welcome: the confirmation arrives signed, its link works, and the welcome arrives once, after its delay', async () => {
  await using sink = await startSink()
  const dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
  })
  await using service = await createConfirmingService({
    delivers: true,
    resolver: createResolver(dns, { timeoutMs: 60_000, attempts: 1 }),
    settings: { TASSIS_SMTP_PORT: String(sink.port) },
  })
  const key = service.app.db
    .query<{ key: string }, []>("SELECT dkim_public_key AS key FROM domains WHERE domain = 'sender.test'")
    .get()?.key
  const signature = ({ raw }: SinkMessage) =>
    verifyWithMailauth(Buffer.from(raw, 'latin1'), formatDkimRecord(String(key)))

  const list = await service.list({
    name: 'Nouvelles à lire',
    welcome_email_enabled: true,
    welcome_email_delay_seconds: 3600,
    welcome_email_from_address: 'Ada <ada@sender.test>',
    welcome_email_subject: 'Welcome, {{ contact.first_name }}',
    welcome_email_html_body: '<p>You read “{{ list.name }}”.</p>',
  })
  await service.add(list, { email: ADDRESS, metadata: { first_name: 'Zoë' } })

  const confirmation = await eventually(() => sink.messages[0])
  const confirmationMail = await simpleParser(confirmation.raw)
  expect({
    rcptTo: confirmation.rcptTo,
    from: confirmationMail.from?.text,
    to: [confirmationMail.to].flat()[0]?.text,
    subject: confirmationMail.subject,
    automatic: confirmationMail.headers.get('auto-submitted'),
    unsubscribe: confirmationMail.headers.has('list-unsubscribe'),
    pixel: String(confirmationMail.html).includes('<img'),
    signature: await signature(confirmation),
  }).toEqual({
    rcptTo: [ADDRESS],
    from: 'no-reply@sender.test',
    to: ADDRESS,
    subject: 'Please confirm your subscription to Nouvelles à lire',
    automatic: 'auto-generated',
    unsubscribe: false,
    pixel: false,
    signature: 'pass',
  })
  const links = [confirmationMail.text, String(confirmationMail.html)].map(
    (text) => /https:\/\/[^\s"<]+/.exec(text ?? '')?.[0] ?? '',
  )
  expect(new Set(links).size).toBe(1)
  const path = String(links[0]).slice(PUBLIC_URL.length)
  expect((await ask(service, 'GET', path)).heading).toBe('Confirm your subscription?')
  expect((await ask(service, 'POST', path)).heading).toBe('Your subscription is confirmed')

  service.clock.advance(hours(1) - 1)
  await service.app.commit.barrier()
  expect(sink.messages).toHaveLength(1)
  service.clock.advance(1)
  const welcome = await eventually(() => sink.messages[1])
  const welcomed = await simpleParser(welcome.raw)
  const unsubscribe = /<(https:[^>]+)>/.exec(
    /^List-Unsubscribe:((?:.*\r\n[ \t])*.*)/im.exec(welcome.raw)?.[1] ?? '',
  )?.[1]
  expect({
    from: welcomed.from?.text,
    subject: welcomed.subject,
    html: String(welcomed.html).trim(),
    oneClick: /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m.test(welcome.raw),
    signature: await signature(welcome),
  }).toEqual({
    from: '"Ada" <ada@sender.test>',
    subject: 'Welcome, Zoë',
    html: '<p>You read “Nouvelles à lire”.</p>',
    oneClick: true,
    signature: 'pass',
  })

  // It is list mail: its one-click link removes the contact from this list.
  await fetch(`${service.url}${String(unsubscribe).slice(PUBLIC_URL.length)}`, {
    method: 'POST',
    body: new URLSearchParams({ 'List-Unsubscribe': 'One-Click' }),
  })
  expect(await service.contact(list)).toMatchObject({ status: 'unsubscribed' })
  service.clock.advance(hours(24))
  await service.drained()
  expect([sink.messages.length, service.waiting()]).toEqual([2, []])
  await dns.close()
})
