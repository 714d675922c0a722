/** @module What becomes of a submitted message: its email, as the API shows it, and the message that is sent. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { UNVERIFIED, VERIFIED } from '#test/support/email-api.ts'
import type { RawSmtp } from '#test/support/smtp-client.ts'
import {
  createMessage,
  idOf,
  type SubmissionFixture,
  sendMessage,
  startSubmissionFixture,
  type Transaction,
} from './fixture.ts'

let service: SubmissionFixture
let client: RawSmtp

beforeAll(async () => {
  service = await startSubmissionFixture()
  client = await service.connectLoggedIn()
})
afterAll(async () => {
  await client[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const send = (message: string, transaction?: Transaction): Promise<string> => sendMessage(client, message, transaction)

/** Sends a message and returns its email. */
const accept = async (message: string, transaction?: Transaction): Promise<Record<string, unknown>> =>
  service.detail(idOf(await send(message, transaction)))

const lines = (...text: readonly string[]): string => text.map((line) => `${line}\r\n`).join('')

describe('the message', () => {
  test('keeps Message-ID and Date, loses Bcc, traces and signatures, and carries further fields', async () => {
    const email = await accept(
      createMessage([
        'Message-ID: <own.1@app.test>',
        'Date: Sat, 14 Mar 2026 10:00:00 +0200',
        'Bcc: dora@receiver.test',
        'Received: from a by b; Sat, 14 Mar 2026 10:00:00 +0200',
        'DKIM-Signature: v=1; a=rsa-sha256; b=x',
        'Return-Path: <x@y.test>',
        'In-Reply-To: <q@receiver.test>',
        'References: <p@receiver.test>',
        ' <q@receiver.test>',
        'X-Mailer: Test',
        'X-Mailer: Second',
        'List-Unsubscribe: <https://app.test/leave>',
      ]),
      { to: ['bob@receiver.test', 'dora@receiver.test'] },
    )
    expect(email).toMatchObject({
      message_id: '<own.1@app.test>',
      to: 'bob@receiver.test',
      bcc: ['dora@receiver.test'],
    })
    const [header = ''] = (await service.readSource(String(email['id']))).split('\r\n\r\n')
    expect(header.split('\r\n').sort()).toEqual([
      'Content-Transfer-Encoding: 7bit',
      'Content-Type: text/plain; charset=utf-8',
      'Date: Sat, 14 Mar 2026 08:00:00 +0000',
      `From: ada@${VERIFIED}`,
      'In-Reply-To: <q@receiver.test>',
      'List-Unsubscribe: <https://app.test/leave>',
      'MIME-Version: 1.0',
      'Message-ID: <own.1@app.test>',
      'References: <p@receiver.test> <q@receiver.test>',
      'Subject: Hello',
      'To: bob@receiver.test',
      'X-Mailer: Test',
      'X-Tassis-Hops: 2',
    ])
  })

  test('gets our Message-ID and Date if its own cannot be sent', async () => {
    const email = await accept(createMessage(['Message-ID: <näh@app.test>', 'Date: soon']))
    expect(email['message_id']).toBe(`<${email['id']}@${VERIFIED}>`)
  })

  test('is decoded, whatever its charset and encoding', async () => {
    const email = await accept(
      lines(
        `From: =?utf-8?Q?J=C3=BCrgen?= <ada@${VERIFIED}>`,
        'To: "Doe, Jane" <bob@receiver.test>',
        'Subject: =?iso-8859-1?Q?Gr=FC=DFe?= =?utf-8?B?8J+Yig==?=',
        'Content-Type: text/html; charset=iso-8859-1',
        'Content-Transfer-Encoding: quoted-printable',
        '',
        '<b>Gr=FC=DFe</b>',
      ),
    )
    expect(email).toMatchObject({
      from_address: `"Jürgen" <ada@${VERIFIED}>`,
      subject: 'Grüße😊',
      html_body: expect.stringMatching(/^<b>Grüße<\/b>\s*$/),
      text_body: null,
    })
    expect(await service.readSource(String(email['id']))).toContain('To: "Doe, Jane" <bob@receiver.test>')
  })

  test('keeps attachments byte for byte, with and without names', async () => {
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7) % 256))
    const part = (...header: readonly string[]) => ['--x', ...header, 'Content-Transfer-Encoding: base64', '']
    const email = await accept(
      lines(
        `From: ada@${VERIFIED}`,
        'Subject: Files',
        'MIME-Version: 1.0',
        'Content-Type: multipart/mixed; boundary=x',
        '',
        ...part('Content-Type: application/pdf; name="=?utf-8?Q?=C3=9C.pdf?="'),
        bytes.toString('base64').replaceAll(/.{76}/g, '$&\r\n'),
        ...part('Content-Type: image/png', 'Content-Disposition: attachment'),
        'AQID',
        '--x--',
      ),
    )
    expect(email['attachments']).toEqual([
      { filename: 'Ü.pdf', content_type: 'application/pdf', size: bytes.length },
      { filename: 'attachment-2.png', content_type: 'image/png', size: 3 },
    ])
    const stored = service.app.db
      .query<{ ref: number }, []>("SELECT attachments ->> '$[0].ref' AS ref FROM emails ORDER BY id DESC LIMIT 1")
      .get()
    expect(Buffer.from(service.app.content.get(stored?.ref ?? 0)).equals(bytes)).toBe(true)
  })

  test('may have no subject, no text and no To', async () => {
    const email = await accept(lines(`From: ada@${VERIFIED}`, '', ''))
    expect(email).toMatchObject({ subject: '(no subject)', text_body: '\n', to: 'bob@receiver.test' })
  })

  test('shortens the references of a long thread to a line', async () => {
    const ids = Array.from({ length: 60 }, (_, i) => `<message-${i}@receiver.test>`)
    const email = await accept(createMessage([`References: ${ids.join('\r\n ')}`]))
    const { References: references = '' } = email['headers'] as Record<string, string>
    expect([references.length < 990, references.startsWith('<message-0@'), references.endsWith(ids[59] ?? '')]).toEqual(
      [true, true, true],
    )
  })
})

describe('recipients', () => {
  test.each([
    [
      'are those of the envelope',
      'To: other@receiver.test',
      ['bob@receiver.test', 'eve@receiver.test'],
      '',
      ['bob@receiver.test', 'eve@receiver.test'],
    ],
    ['are in To as the header has them', 'To: Bob <BOB@receiver.test>', ['bob@receiver.test'], 'BOB@receiver.test', []],
    [
      'are alone in To when the header names nobody',
      'To: undisclosed-recipients:;',
      ['bob@receiver.test'],
      'bob@receiver.test',
      [],
    ],
    [
      'stay hidden when they are several',
      'To: root',
      ['bob@receiver.test', 'eve@receiver.test'],
      '',
      ['bob@receiver.test', 'eve@receiver.test'],
    ],
  ])('%s', async (_, field, envelope, to, bcc) => {
    const message = lines(`From: ada@${VERIFIED}`, field, 'Subject: Hello', '', 'Hello')
    expect(await accept(message, { to: envelope })).toMatchObject({ to, bcc })
  })

  test('see the whole To and Cc, although a server in between has split the message', async () => {
    const message = createMessage(['Cc: Carol <carol@other.test>, dora@receiver.test']).replace(
      'To: bob@receiver.test',
      'To: bob@receiver.test, "Eve" <eve@other.test>',
    )
    const { id } = await accept(message, { to: ['bob@receiver.test', 'dora@receiver.test'] })
    const source = await service.readSource(String(id))
    expect([/^To: .*$/m.exec(source)?.[0].trim(), /^Cc: .*$/m.exec(source)?.[0].trim()]).toEqual([
      'To: bob@receiver.test, Eve <eve@other.test>',
      'Cc: dora@receiver.test, Carol <carol@other.test>',
    ])
  })
})

describe('control fields', () => {
  test('set what SMTP cannot, and are removed', async () => {
    const email = await accept(
      createMessage([
        'X-Tassis-Tags: welcome, new',
        'X-Tassis-Stream: transactional',
        'X-Tassis-Metadata: {"order": "42",',
        ' "note": "Grüße"}',
        'X-Tassis-Send-At: 2026-03-16T09:00:00Z',
        'X-Tassis-Tracking: off',
        'X-Tassis-Idempotency-Key: order-42',
      ]),
    )
    expect(email).toMatchObject({
      tags: ['welcome', 'new'],
      metadata: { order: '42', note: 'Grüße' },
      scheduled_at: '2026-03-16T09:00:00.000Z',
      status: 'scheduled',
      tracking_override: false,
      idempotency_key: 'order-42',
      headers: { 'X-Tassis-Hops': '1' },
    })
  })

  test('of Postmark and Resend mean the same', async () => {
    const email = await accept(
      createMessage([
        'X-PM-Tag: welcome',
        'X-PM-Message-Stream: outbound',
        'X-PM-Metadata-order: 42',
        'X-PM-TrackOpens: true',
        'Resend-Idempotency-Key: r-1',
      ]),
    )
    expect(email).toMatchObject({
      tags: ['welcome'],
      metadata: { order: '42' },
      tracking_override: true,
      idempotency_key: 'r-1',
      headers: { 'X-Tassis-Hops': '1' },
    })
  })

  // Proves: track-18
  test.each([
    [
      ['X-PM-TrackOpens: true', 'X-PM-TrackLinks: None'],
      [true, 'None'],
    ],
    [
      ['X-PM-TrackOpens: false', 'X-PM-TrackLinks: HtmlAndText'],
      [false, 'HtmlAndText'],
    ],
    [['X-PM-TrackOpens: true'], [true, 'None']],
    [['X-Tassis-Tracking: opens'], [true, 'None']],
    [['X-Tassis-Tracking: clicks'], [false, 'HtmlAndText']],
    [
      ['X-Tassis-Tracking: true', 'X-PM-TrackLinks: None'],
      [true, 'None'],
    ],
    [
      ['X-Tassis-Tracking: false', 'X-PM-TrackOpens: true'],
      [false, 'None'],
    ],
  ])('%j choose what is tracked, and a no counts', async (fields, tracked) => {
    const { id } = await accept(createMessage(fields))
    const details = await fetch(`${service.url}/postmark/messages/outbound/${id}/details`, {
      headers: { 'x-postmark-server-token': service.key },
    })
    const { TrackOpens, TrackLinks } = (await details.json()) as Record<string, unknown>
    expect([TrackOpens, TrackLinks]).toEqual(tracked)
  })

  test("of Postmark's stream for broadcasts make mail that can be unsubscribed from", async () => {
    expect((await service.api('POST', '/v1/streams', { name: 'Broadcast', slug: 'broadcast' })).status).toBe(201)
    expect(await accept(createMessage(['X-PM-Message-Stream: broadcast']))).toMatchObject({
      suppress_list_management_header: false,
    })
    expect(await accept(createMessage(['X-PM-Message-Stream: outbound']))).toMatchObject({
      suppress_list_management_header: true,
    })
  })

  test('render a template, whose parts the message overrides', async () => {
    const created = await service.api('POST', '/v1/templates', {
      name: 'Welcome',
      alias: 'welcome',
      subject: 'Welcome {{ name }}',
      html_body: '<p>Hi {{ name }}</p>',
      text_body: 'Hi {{ name }}',
    })
    expect(created.status).toBe(201)
    const fields = ['X-Tassis-Template: welcome', 'X-Tassis-Template-Data: {"name": "Bob"}']
    const empty = lines(`From: ada@${VERIFIED}`, 'To: bob@receiver.test', ...fields, '', '')
    expect(await accept(empty)).toMatchObject({
      subject: 'Welcome Bob',
      text_body: 'Hi Bob',
      html_body: '<p>Hi Bob</p>',
    })
    expect(await accept(createMessage(fields))).toMatchObject({ subject: 'Hello', text_body: 'Hello.\n' })
  })

  test('make a repeated message the first one, although its Message-ID and Date differ', async () => {
    const create = (name: string, body = 'Hello.') =>
      createMessage(
        ['X-Tassis-Idempotency-Key: again', `Message-ID: <${name}@app.test>`, `Received: from ${name}`],
        body,
      )
    const first = await send(create('a'))
    const again = await send(create('b'))
    const other = await send(create('c', 'Other.'))
    expect([again, other]).toEqual([
      `${first} (of the first message with this idempotency key)`,
      `${first} (of an earlier message with this idempotency key and other content; this one is not sent)`,
    ])
    expect(await service.detail(idOf(first))).toMatchObject({ message_id: '<a@app.test>' })
  })
})

describe('the reply to a message says that it is not sent', () => {
  test('when the domain of From is not verified', async () => {
    const reply = await send(createMessage().replace(VERIFIED, UNVERIFIED))
    expect(reply).toEndWith(' (not sent: the domain of From is not verified, or the simulator gets it)')
  })

  test('when every recipient is suppressed', async () => {
    const address = 'suppressed@receiver.test'
    expect((await service.api('POST', '/v1/suppressions', { email_address: address })).status).toBe(201)
    expect(await send(createMessage(), { to: [address] })).toEndWith(' (not sent: every recipient is suppressed)')
    expect(await send(createMessage(), { to: [address, 'bob@receiver.test'] })).toMatch(/ queued as \S+$/)
  })
})

describe('a rejection', () => {
  const received = (count: number) => Array.from({ length: count }, () => 'Received: from a by b')

  test.each([
    [
      'a domain of somebody else',
      createMessage().replace(VERIFIED, 'other.test'),
      '550 5.7.1 The domain other.test is not registered on this account; add it with POST /v1/domains.',
    ],
    ['a loop', createMessage(received(101)), '554 5.4.6 Too many hops: the message has passed 101 servers.'],
    [
      'a loop through services like this one',
      createMessage(['X-Tassis-Hops: 99', ...received(2)]),
      '554 5.4.6 Too many hops: the message has passed 101 servers.',
    ],
    [
      'an unknown control field',
      createMessage(['X-Tassis-Tag: a']),
      '554 5.6.0 The header x-tassis-tag is not known; those that set something are X-Tassis-Idempotency-Key, X-Tassis-Tags, X-Tassis-Stream, X-Tassis-Metadata, X-Tassis-Send-At, X-Tassis-Tracking, X-Tassis-Template, X-Tassis-Template-Data.',
    ],
    [
      'metadata that is no JSON',
      createMessage(['X-Tassis-Metadata: {order: 42}']),
      '554 5.6.0 X-Tassis-Metadata must be a JSON object, such as {"order": "42"}.',
    ],
    [
      'a time in the past',
      createMessage(['X-Tassis-Send-At: 2020-01-01T00:00:00Z']),
      '554 5.6.0 send_at is in the past; omit it to send now.',
    ],
    [
      'a stream that does not exist',
      createMessage(['X-Tassis-Stream: none']),
      '554 5.6.0 There is no stream "none" on this account; POST /v1/streams creates one.',
    ],
    [
      'too many parts',
      createMessage(['Content-Type: multipart/mixed; boundary=x'], '--x\r\n\r\n'.repeat(10_001)),
      expect.stringMatching(/^554 5\.6\.0 The message has more than 10000 parts/),
    ],
  ])('answers %s with the sentence of the API', async (_, message, reply) => {
    const before = service.stored()
    expect(await send(message)).toEqual(reply)
    expect(service.stored()).toEqual(before)
    await client.say('NOOP')
  })

  test('is that of a message without From and without a sender', async () => {
    expect(await sendMessage(client, lines('Subject: Hello', '', 'Hello'), { from: '' })).toBe(
      '550 5.7.1 The header From is missing; it must be one address.',
    )
  })

  test('does not end the session of a client that then sends a good message', async () => {
    expect(await send(createMessage().replace(VERIFIED, 'other.test'))).toMatch(/^550/)
    expect(await send(createMessage().replace(VERIFIED, UNVERIFIED))).toMatch(/^250/)
  })
})
