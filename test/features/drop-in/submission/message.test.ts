/**
 * @module What becomes of a submitted message: its email, as the API shows it, and the message that is sent. What the API
 * would reject in a request is mended or left out, and the reply and the log name it.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createLog } from '#platform/log/log.ts'
import { at } from '#test/support/api.ts'
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
const logged: unknown[] = []

beforeAll(async () => {
  const log = createLog('info', { write: (line) => void logged.push(JSON.parse(line)) })
  service = await startSubmissionFixture({ log })
  await service.api('POST', '/v1/streams', { name: 'Broadcast', slug: 'broadcast' })
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

  test('keeps the references of a long thread, in several lines', async () => {
    const ids = Array.from({ length: 60 }, (_, i) => `<message-${i}@receiver.test>`)
    const email = await accept(createMessage([`References: ${ids.join('\r\n ')}`]))
    expect(email['headers']).toMatchObject({ References: ids.join(' ') })
    const { body } = await service.api('GET', `/v1/emails/${email['id']}/source`)
    const { headers } = at(body, 'data') as { headers: string }
    expect(Math.max(...headers.split('\r\n').map(({ length }) => length))).toBeLessThan(998)
    expect(headers.replaceAll('\r\n ', ' ')).toContain(ids.join(' '))
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
    const german = { name: 'Welcome', alias: 'welcome', locale: 'de', subject: 'Hallo {{ name }}', text_body: 'x' }
    await service.api('POST', '/v1/templates', german)
    const localised = lines(
      `From: ada@${VERIFIED}`,
      'To: bob@receiver.test',
      ...fields,
      'X-Tassis-Locale: de-AT',
      '',
      '',
    )
    expect(await accept(localised)).toMatchObject({ subject: 'Hallo Bob' })
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
      '554 5.6.0 The header x-tassis-tag is not known; those that set something are X-Tassis-Idempotency-Key, X-Tassis-Tags, X-Tassis-Stream, X-Tassis-Metadata, X-Tassis-Send-At, X-Tassis-Tracking, X-Tassis-Template, X-Tassis-Template-Data, X-Tassis-Locale.',
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
})

interface Sent {
  /** What the reply names, undefined: nothing. */
  readonly dropped: string | undefined
  readonly email: Record<string, unknown>
  /** The fields of the composed message, unfolded. */
  readonly fields: readonly string[]
  readonly longestLine: number
}

/** Sends a message and composes it. */
async function mend(message: string): Promise<Sent> {
  const reply = await sendMessage(client, message)
  const id = idOf(reply)
  const [header = ''] = (await service.readSource(id)).split('\r\n\r\n')
  return {
    dropped: / - dropped: (.*)$/.exec(reply)?.[1],
    email: await service.detail(id),
    fields: header.replaceAll(/\r\n[ \t]+/g, ' ').split('\r\n'),
    longestLine: Math.max(...header.split('\r\n').map((line) => Buffer.byteLength(line))),
  }
}

const acceptFields = (...fields: readonly string[]): Promise<Sent> => mend(createMessage(fields))

describe('a field with addresses', () => {
  test.each([
    ['Reply-To: <>', 'Reply-To', null],
    ['Reply-To:', undefined, null],
    ['Reply-To: Bob', 'Reply-To', null],
    ['Reply-To: bob@localhost', 'Reply-To', null],
    ['Reply-To: "Bob, from the web" <bob at example.test>', 'Reply-To', null],
    ['Reply-To: =?utf-8?Q?J=C3=BCrgen=2C_Office?= <j@receiver.test>', undefined, '"Jürgen, Office" <j@receiver.test>'],
    ['Reply-To: bob@localhost, Bob <bob@receiver.test>, <>', 'Reply-To', 'Bob <bob@receiver.test>'],
    ['Reply-To: Team: bob@receiver.test, eve@receiver.test;', undefined, 'bob@receiver.test, eve@receiver.test'],
    ['Reply-To: bob@receiver.test,', undefined, 'bob@receiver.test'],
  ])('%s', async (field, dropped, replyTo) => {
    const sent = await acceptFields(field)
    expect(sent).toMatchObject({ dropped, email: { reply_to: replyTo } })
  })

  const repeat = (count: number, create: (index: number) => string): string =>
    Array.from({ length: count }, (_, index) => create(index)).join(',\r\n ')
  test.each([
    ['a long name', `${'n'.repeat(300)} <bob@receiver.test>`, undefined, /^n{256} <bob@receiver\.test>$/],
    ['many addresses', repeat(120, (i) => `user${i}@receiver.test`), 'Reply-To', /^user0@.*, user99@receiver\.test$/],
    [
      'many long names',
      repeat(90, (i) => `${'n'.repeat(800)}${i} <u${i}@receiver.test>`),
      'Reply-To',
      / <u7\d@receiver\.test>$/,
    ],
  ])('with %s is shortened', async (_, value, dropped, replyTo) => {
    expect(await acceptFields(`Reply-To: ${value}`)).toMatchObject({
      dropped,
      email: { reply_to: expect.stringMatching(replyTo) },
    })
  })

  test('is the first valid one of several Reply-To', async () => {
    expect(
      await acceptFields('Reply-To: <>', 'Reply-To: bob@receiver.test', 'Reply-To: eve@receiver.test'),
    ).toMatchObject({ dropped: 'Reply-To', email: { reply_to: 'bob@receiver.test' } })
    expect(await acceptFields('Reply-To: bob@receiver.test', 'Reply-To: bob@receiver.test')).toMatchObject({
      dropped: undefined,
      email: { reply_to: 'bob@receiver.test' },
    })
  })

  test.each([['Disposition-Notification-To'], ['Return-Receipt-To'], ['Errors-To'], ['Mail-Followup-To']])(
    '%s is mended or left out',
    async (name) => {
      expect((await acceptFields(`${name}: nobody`)).dropped).toBe(name)
      const mended = await acceptFields(`${name}: Bob <bob@receiver.test>, nobody`)
      expect(mended.dropped).toBe(name)
      expect(mended.fields).toContain(`${name}: Bob <bob@receiver.test>`)
    },
  )

  test.each([
    [[`Sender: ada@${VERIFIED}`], 'Sender'],
    [['Sender: nobody'], 'Sender'],
  ])('%j is left out, because the service is the sender', async (fields, dropped) => {
    expect((await acceptFields(...fields)).dropped).toBe(dropped)
  })
})

describe('From', () => {
  const createWithFrom = (...fields: readonly string[]): string =>
    createMessage().replace(`From: ada@${VERIFIED}`, fields.join('\r\n'))

  test.each([
    ['a long name', [`From: ${'n'.repeat(300)} <ada@${VERIFIED}>`], `${'n'.repeat(256)} <ada@${VERIFIED}>`, undefined],
    ['a control character', [`From: =?utf-8?Q?A=C2=85da?= <ada@${VERIFIED}>`], `A da <ada@${VERIFIED}>`, undefined],
    ['its address twice', [`From: ada@${VERIFIED}`, `From: ada@${VERIFIED}`], `ada@${VERIFIED}`, undefined],
    ['two fields', [`From: ada@${VERIFIED}`, 'From: eve@other.test'], `ada@${VERIFIED}`, 'From'],
    ['an address that is none', [`From: Ada <ada@${VERIFIED}>, root`], `Ada <ada@${VERIFIED}>`, 'From'],
    ['a quote that is not closed', [`From: "Ada <ada@${VERIFIED}>`], `ada@${VERIFIED}`, 'From'],
    ['a bracket that is not closed', [`From: Ada (Sales <ada@${VERIFIED}>`], `"Ada (Sales" <ada@${VERIFIED}>`, 'From'],
    ['a URL', [`From: Ada <mailto:ada@${VERIFIED}>`], `ada@${VERIFIED}`, 'From'],
    ['a dot too many', [`From: Ada <ada@${VERIFIED}.>`], `ada@${VERIFIED}`, 'From'],
    ['quotes around its address', [`From: 'ada@${VERIFIED}'`], `ada@${VERIFIED}`, 'From'],
    ['a local name', ['From: root (Cron Daemon)'], `ada@${VERIFIED}`, 'From'],
    ['nothing', ['From: <>'], `ada@${VERIFIED}`, 'From'],
    ['no field', ['X-From: none'], `ada@${VERIFIED}`, undefined],
  ])('with %s is mended', async (_, fields, from, dropped) => {
    expect(await mend(createWithFrom(...fields))).toMatchObject({ dropped, email: { from_address: from } })
  })

  test('with several addresses is the first, and replies go to all', async () => {
    const from = `From: ada@${VERIFIED}, eve@other.test`
    expect(await mend(createWithFrom(from, `Sender: ada@${VERIFIED}`))).toMatchObject({
      dropped: 'Sender, From',
      email: { from_address: `ada@${VERIFIED}`, reply_to: `ada@${VERIFIED}, eve@other.test` },
    })
    expect(await mend(createWithFrom(from, 'Reply-To: x@y.test'))).toMatchObject({
      dropped: 'From',
      email: { from_address: `ada@${VERIFIED}`, reply_to: 'x@y.test' },
    })
    expect(await sendMessage(client, createWithFrom(`From: eve@other.test, ada@${VERIFIED}`))).toStartWith(
      '550 5.7.1 The domain other.test ',
    )
  })
})

describe('other fields', () => {
  const words = (count: number): string => Array.from({ length: count }, (_, i) => `word${i}`).join('\r\n ')

  test('that the service writes, or that cannot be sent, are named in the reply and in the log', async () => {
    const sent = await acceptFields(
      'DKIM-Filter: OpenDKIM Filter v2.11.0 relay.test 4F1B23C0A9',
      'DKIM-Signature: v=1; a=rsa-sha256; d=x.test; s=old; b=BBBB',
      'Authentication-Results: relay.test; dkim=none',
      'Received: from a by b',
      `${'X-Long-Name-'.repeat(8)}: 1`,
      'Content-Language: en-GB',
      'List-Unsubscribe-By: x',
      'X-Kept: 1',
    )
    const dropped = ['DKIM-Filter', 'X-Long-Name-'.repeat(8).slice(0, 80), 'Content-Language', 'List-Unsubscribe-By']
    expect([sent.dropped, sent.email['headers']]).toEqual([dropped.join(', '), { 'X-Kept': '1', 'X-Tassis-Hops': '2' }])
    expect(logged).toContainEqual(
      expect.objectContaining({ msg: 'submitted message: fields left out', email_id: sent.email['id'], dropped }),
    )
  })

  test.each([
    ['Autocrypt', `addr=ada@${VERIFIED}; prefer-encrypt=mutual; keydata=\r\n ${'QUJD'.repeat(18)}\r\n `.repeat(20)],
    ['X-SMTPAPI', `{"category": ["a"],\r\n "unique_args": {"text": "${words(300)}"}}`],
    ['X-Spam-Report', `\r\n\t* ${words(400)}`],
  ])('%s may be longer than a line, if it is folded', async (name, value) => {
    const sent = await acceptFields(`${name}: ${value}`)
    const unfolded = `${name}: ${value}`.replaceAll(/\s+/g, ' ').trim()
    expect([sent.dropped, sent.longestLine < 998]).toEqual([undefined, true])
    expect(sent.email['headers']).toMatchObject({ [name]: expect.any(String) })
    expect(sent.fields.map((field) => field.replaceAll(/\s+/g, ' ').trim())).toContain(unfolded)
  })

  test('without a place to fold are encoded, or left out if they must not be', async () => {
    const long = 'x'.repeat(2000)
    const sent = await acceptFields(
      `X-Token: ${long}`,
      `In-Reply-To: <${long}@a.test>`,
      `List-Help: <https://a.test/${long}>`,
    )
    expect([sent.dropped, sent.longestLine < 998]).toEqual(['In-Reply-To, List-Help', true])
    expect(sent.email['headers']).toMatchObject({ 'X-Token': long })
  })

  test('may be many, and may be repeated', async () => {
    const many = Array.from({ length: 70 }, (_, i) => `X-Field-${i}: ${i}`)
    const sent = await acceptFields(...many, 'X-Twice: a', 'x-twice: a', 'X-Other: a', 'X-Other: b')
    expect(sent.dropped).toBe('X-Other')
    expect(sent.email['headers']).toMatchObject({ 'X-Field-69': '69', 'X-Twice': 'a', 'X-Other': 'a' })
  })

  test('have at most as many octets as all fields of a request', async () => {
    const sent = await acceptFields(`X-First: ${words(2000)}`, `X-Huge: ${words(9000)}`, 'X-Last: a')
    expect(sent.dropped).toBe('X-Huge')
    expect(Object.keys(sent.email['headers'] as object).sort()).toEqual(['X-First', 'X-Last', 'X-Tassis-Hops'])
  })

  test('with raw octets, controls or an empty name are mended', async () => {
    const message = createMessage(['X-Raw: Gr\xfc\xdfe', 'X-Control: a\x01b\x7f', ': nameless', 'X-Empty:'])
    expect(await mend(message)).toMatchObject({
      dropped: undefined,
      email: { headers: { 'X-Raw': 'Grüße', 'X-Control': 'a b' } },
    })
  })

  test('that are equal, or that count once, do no harm', async () => {
    const sent = await acceptFields(
      'Subject: Hello',
      'Subject: Other',
      'Date: soon',
      'Message-ID: <n h@a.test',
      'X-Tassis-Tags: a',
      'X-Tassis-Tags: a',
    )
    expect(sent).toMatchObject({ dropped: 'Subject, Message-ID, Date', email: { subject: 'Hello', tags: ['a'] } })
  })

  test('of Postmark that are repeated or too long are left out, and those of the service are rejected', async () => {
    const tag = 't'.repeat(128)
    const sent = await acceptFields(`X-PM-Tag: ${tag}`, 'X-PM-Tag: other', 'X-PM-Metadata-a: 1', 'x-pm-metadata-a: 2')
    expect(sent).toMatchObject({ dropped: 'X-PM-Tag, x-pm-metadata-a', email: { tags: [tag], metadata: { a: '1' } } })
    expect(await acceptFields(`X-PM-Tag: ${tag}t`)).toMatchObject({ dropped: 'X-PM-Tag', email: { tags: [] } })
    expect(await sendMessage(client, createMessage(['X-Tassis-Tags: a', 'X-Tassis-Tags: b']))).toStartWith('554 5.6.0 ')
  })

  test('Subject is shortened', async () => {
    const sent = await mend(createMessage().replace('Subject: Hello', `Subject: ${'a '.repeat(600)}`))
    expect(sent).toMatchObject({ dropped: 'the end of Subject', email: { subject: 'a '.repeat(499) } })
  })
})

describe('List-Unsubscribe', () => {
  const POST = 'List-Unsubscribe-Post: List-Unsubscribe=One-Click'
  const URL = '<https://app.test/leave?list=7&token=AABB>'

  test.each([
    ['is folded in a URL', ['List-Unsubscribe: <https://app.test/leave?list=7&token=AA', ' BB>', POST], URL, undefined],
    ['has no brackets', ['List-Unsubscribe: https://app.test/leave?list=7&token=AABB', POST], URL, undefined],
    ['has a comment', [`List-Unsubscribe: (leave now) ${URL} (or write)`, POST], URL, undefined],
    ['has a trailing comma', [`List-Unsubscribe: ${URL},`, POST], URL, undefined],
    ['has blanks', ['List-Unsubscribe: < https://app.test/leave?list=7& token=AABB >', POST], URL, undefined],
    ['has two URLs', [`List-Unsubscribe: <mailto:a@b.test>,,${URL}`, POST], `<mailto:a@b.test>, ${URL}`, undefined],
    ['is a bare list', [`List-Unsubscribe: mailto:a@b.test, ${URL}`, POST], `<mailto:a@b.test>, ${URL}`, undefined],
    [
      'is a mailto',
      ['List-Unsubscribe: <mailto:a@b.test?subject=off>', POST],
      '<mailto:a@b.test?subject=off>',
      'List-Unsubscribe-Post',
    ],
    ['is without TLS', ['List-Unsubscribe: <http://a.test/>', POST], '<http://a.test/>', 'List-Unsubscribe-Post'],
    ['is a text', ['List-Unsubscribe: write to us', POST], undefined, 'List-Unsubscribe, List-Unsubscribe-Post'],
    ['is missing', [POST], undefined, 'List-Unsubscribe-Post'],
    ['has an odd Post', [`List-Unsubscribe: ${URL}`, 'List-Unsubscribe-Post: yes'], URL, 'List-Unsubscribe-Post'],
  ])('%s', async (_, fields, value, dropped) => {
    const sent = await acceptFields(...fields)
    const headers = sent.email['headers'] as Record<string, unknown>
    expect([headers['List-Unsubscribe'], sent.dropped]).toEqual([value, dropped])
    expect(sent.fields.includes(POST)).toBe(dropped === undefined)
  })

  test('gives way to that of the service in mail of a stream for broadcasts', async () => {
    const sent = await acceptFields('X-PM-Message-Stream: broadcast', `List-Unsubscribe: ${URL}`, POST)
    expect(sent).toMatchObject({
      dropped: 'List-Unsubscribe, List-Unsubscribe-Post',
      email: { suppress_list_management_header: false, headers: { 'X-Tassis-Hops': '1' } },
    })
  })
})

describe('a part', () => {
  const createParts = (...parts: readonly string[][]): string =>
    createMessage(
      ['MIME-Version: 1.0', 'Content-Type: multipart/mixed; boundary=x'],
      [...parts.flatMap((part) => ['--x', ...part]), '--x--'].join('\r\n'),
    )
  const createFile = (type: string, name: string): string[] => [
    `Content-Type: ${type}`,
    `Content-Disposition: attachment; filename="${name}"`,
    '',
    'content',
  ]

  test.each([
    ['application/pdf', 'Contract with amazon.com', 'Contract with amazon.com.pdf'],
    ['message/rfc822', 'Re: node.js', 'Re: node.js.eml'],
    ['application/octet-stream', 'setup.exe', 'setup.exe.bin'],
    ['text/javascript', 'app.js', 'app.js.bin'],
  ])('%s with the name %s gets one that receivers accept', async (type, name, filename) => {
    const sent = await mend(createParts(createFile(type, name)))
    expect([sent.dropped, at(sent.email, 'attachments', 0, 'filename')]).toEqual([`the name ${name}`, filename])
  })

  test('of which there are more than 100 is left out', async () => {
    const files = Array.from({ length: 102 }, (_, i) => createFile('application/pdf', `${i}.pdf`))
    const sent = await mend(createParts(...files))
    expect([sent.dropped, (sent.email['attachments'] as unknown[]).length]).toEqual(['100.pdf, 101.pdf', 100])
  })
})
