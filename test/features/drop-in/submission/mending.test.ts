/**
 * @module What becomes of messages that the API would reject as requests: they are sent, and the reply and the log name
 * what was left out. Each message is also composed, as it is for its recipient.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createLog } from '#platform/log/log.ts'
import { at } from '#test/support/api.ts'
import { VERIFIED } from '#test/support/email-api.ts'
import type { RawSmtp } from '#test/support/smtp-client.ts'
import { createMessage, idOf, type SubmissionFixture, sendMessage, startSubmissionFixture } from './fixture.ts'

let service: SubmissionFixture
let client: RawSmtp
const logged: unknown[] = []

beforeAll(async () => {
  const log = createLog('info', { write: (line) => void logged.push(JSON.parse(line)) })
  service = await startSubmissionFixture({ log })
  client = await service.connectLoggedIn()
})
afterAll(async () => {
  await client[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
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
async function accept(message: string): Promise<Sent> {
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

const acceptFields = (...fields: readonly string[]): Promise<Sent> => accept(createMessage(fields))

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
    expect(await accept(createWithFrom(...fields))).toMatchObject({ dropped, email: { from_address: from } })
  })

  test('with several addresses is the first, and replies go to all', async () => {
    const from = `From: ada@${VERIFIED}, eve@other.test`
    expect(await accept(createWithFrom(from, `Sender: ada@${VERIFIED}`))).toMatchObject({
      dropped: 'Sender, From',
      email: { from_address: `ada@${VERIFIED}`, reply_to: `ada@${VERIFIED}, eve@other.test` },
    })
    expect(await accept(createWithFrom(from, 'Reply-To: x@y.test'))).toMatchObject({
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
    expect(await accept(message)).toMatchObject({
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
    const sent = await accept(createMessage().replace('Subject: Hello', `Subject: ${'a '.repeat(600)}`))
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
    expect((await service.api('POST', '/v1/streams', { name: 'Broadcast', slug: 'broadcast' })).status).toBe(201)
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
    const sent = await accept(createParts(createFile(type, name)))
    expect([sent.dropped, at(sent.email, 'attachments', 0, 'filename')]).toEqual([`the name ${name}`, filename])
  })

  test('of which there are more than 100 is left out', async () => {
    const files = Array.from({ length: 102 }, (_, i) => createFile('application/pdf', `${i}.pdf`))
    const sent = await accept(createParts(...files))
    expect([sent.dropped, (sent.email['attachments'] as unknown[]).length]).toEqual(['100.pdf, 101.pdf', 100])
  })
})
