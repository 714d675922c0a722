import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Resend } from 'resend'
import { at } from '#test/support/api.ts'
import { createTestAccount } from '#test/support/app.ts'
import { createEmailApi, type EmailApi, NOW, UUID } from '#test/support/email-api.ts'
import { createResend, dataOf, errorOf } from './fixture.ts'

const EMAIL = { from: 'Ada <ada@sender.test>', to: 'bob@receiver.test', subject: 'Hello', html: '<p>Hello, Bob.</p>' }
const MINUTE = 60_000

let service: EmailApi
let resend: Resend
beforeAll(async () => {
  service = await createEmailApi()
  resend = createResend(service)
})
afterAll(() => service[Symbol.asyncDispose]())

const countEmails = () => service.stored()['emails']
const iso = (offset: number) => new Date(service.clock.now() + offset).toISOString()

/** A POST as other clients make it, without the one from npm. */
async function post(path: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(`${service.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { status: response.status, headers: response.headers, body: (await response.json()) as unknown }
}

describe('a send', () => {
  test('of the client becomes an email with every field', async () => {
    const { id } = await dataOf(
      resend.emails.send({
        ...EMAIL,
        to: ['bob@receiver.test', 'Cy <cy@receiver.test>'],
        cc: 'dan@receiver.test',
        bcc: ['eve@receiver.test'],
        replyTo: ['help@sender.test', 'Ada <ada@sender.test>'],
        text: 'Hello, Bob.',
        headers: { 'X-Order': '47' },
        tags: [
          { name: 'category', value: 'welcome' },
          { name: 'plan', value: 'free' },
        ],
        attachments: [{ filename: 'a.txt', content: Buffer.from('Hello') }],
      }),
    )
    expect(id).toMatch(UUID)
    expect(await service.detail(id)).toMatchObject({
      from_address: 'Ada <ada@sender.test>',
      to: 'bob@receiver.test, cy@receiver.test',
      cc: ['dan@receiver.test'],
      bcc: ['eve@receiver.test'],
      reply_to: 'help@sender.test, Ada <ada@sender.test>',
      subject: 'Hello',
      html_body: '<p>Hello, Bob.</p>',
      text_body: 'Hello, Bob.',
      headers: { 'X-Order': '47' },
      tags: ['category:welcome', 'plan:free'],
      attachments: [{ filename: 'a.txt', content_type: 'text/plain', size: 5 }],
      status: 'queued',
    })
  })

  test('of a template takes its id or its alias, and the variables', async () => {
    const template = { alias: 'welcome', name: 'Welcome', subject: 'Hi {{ name }}', html_body: '<p>{{ name }}</p>' }
    const created = await service.api('POST', '/v1/templates', template)
    const from = EMAIL.from
    for (const id of ['welcome', String(at(created.body, 'data', 'id'))]) {
      const sent = await dataOf(
        resend.emails.send({ from, to: EMAIL.to, template: { id, variables: { name: 'Bob' } } }),
      )
      expect(await service.detail(sent.id)).toMatchObject({ subject: 'Hi Bob', html_body: '<p>Bob</p>' })
    }
    const german = await service.api('POST', '/v1/templates', {
      ...template,
      locale: 'de',
      subject: 'Hallo {{ name }}',
    })
    for (const { id = 'welcome', headers = {} } of [
      { headers: { 'X-Tassis-Locale': 'de-AT' } },
      { id: String(at(german.body, 'data', 'id')) },
    ]) {
      const email = { from, to: EMAIL.to, headers, template: { id, variables: { name: 'Bob' } } }
      expect(await service.detail((await dataOf(resend.emails.send(email))).id)).toMatchObject({ subject: 'Hallo Bob' })
    }
    const named = { id: 'welcome', locale: 'de-AT', variables: { name: 'Bob' } }
    const { body, headers } = await post('/emails', { from, to: EMAIL.to, template: named })
    expect(headers.get('tassis-ignored')).toBeNull()
    expect(await service.detail(at(body, 'id'))).toMatchObject({ subject: 'Hallo Bob', headers: {} })
  })

  test.each<[string, number]>([
    [new Date(NOW + 90 * MINUTE).toISOString(), 90 * MINUTE],
    ['in 1 min', MINUTE],
    ['in 2 hours', 120 * MINUTE],
    ['tomorrow at 9am', (24 - 12 - 0.5 + 9) * 60 * MINUTE],
    ['2026-03-15 14:30:00+00', 120 * MINUTE],
  ])('with scheduled_at "%s" is scheduled', async (scheduledAt, offset) => {
    service.clock.jumpTo(NOW)
    const { id } = await dataOf(resend.emails.send({ ...EMAIL, scheduledAt }))
    expect(await service.detail(id)).toMatchObject({ status: 'scheduled', scheduled_at: iso(offset) })
  })

  test('at the root is a 200, as clients need that can set only a host', async () => {
    // The shape of Symfony's bridge: reserved headers, Reply-To twice, tags by header name, base64 with line breaks.
    const { status, body, headers } = await post('/emails', {
      from: 'Ada <ada@sender.test>',
      to: ['bob@receiver.test'],
      subject: 'Hello',
      text: 'Hello.',
      reply_to: 'help@sender.test',
      attachments: [{ filename: 'a.txt', content: 'SGVs\nbG8=' }],
      headers: { 'Reply-To': 'help@sender.test', 'Message-ID': '<1@x.test>', 'X-List': ['a', 'b'], 'X-Empty': null },
      tags: [{ 'X-Tag': 'welcome' }],
    })
    expect([status, body]).toEqual([200, { id: expect.stringMatching(UUID) }])
    expect(headers.get('tassis-ignored')).toBe('headers.Reply-To, headers.Message-ID')
    expect(await service.detail(at(body, 'id'))).toMatchObject({
      reply_to: 'help@sender.test',
      headers: { 'X-List': 'a, b' },
      tags: ['welcome'],
      attachments: [{ filename: 'a.txt', size: 5 }],
    })
  })

  test('ignores fields that it does not know, and names them in a header', async () => {
    const { status, headers } = await post('/resend/emails', {
      ...EMAIL,
      region: 'x',
      'a\r\nb: ü,': 1,
      cc: '',
      bcc: null,
    })
    expect([status, headers.get('tassis-ignored')]).toEqual([200, 'region, a??b:???'])
  })

  test('takes a file as octets, and gives a file without a name one', async () => {
    const { id } = await dataOf(
      resend.emails.send({
        ...EMAIL,
        attachments: [{ content: 'SGVsbG8=' }, { filename: false, content: 'SGVsbG8=' }],
      }),
    )
    const { body } = await post('/emails', {
      ...EMAIL,
      attachments: [
        { filename: 'a.txt', content: [72, 105] },
        { filename: 'b.txt', content: { type: 'Buffer', data: [72, 105, 33] } },
      ],
    })
    const files = [
      ...((await service.detail(id))['attachments'] as []),
      ...((await service.detail(at(body, 'id')))['attachments'] as []),
    ]
    expect(files).toMatchObject([
      { filename: 'attachment-1', size: 5 },
      { filename: 'attachment-2', size: 5 },
      { filename: 'a.txt', size: 2 },
      { filename: 'b.txt', size: 3 },
    ])
  })
})

describe('an idempotency key', () => {
  test('returns the first email again, also when words for the time mean another one by then', async () => {
    const before = countEmails()
    const send = () => dataOf(resend.emails.send({ ...EMAIL, scheduledAt: 'in 1 hour' }, { idempotencyKey: 'one' }))
    const first = await send()
    await service.clock.advance(MINUTE)
    expect([await send(), countEmails()]).toEqual([first, Number(before) + 1])
  })

  test('with another body is a conflict, and nothing is sent', async () => {
    await dataOf(resend.emails.send(EMAIL, { idempotencyKey: 'two' }))
    const before = countEmails()
    expect(await errorOf(resend.emails.send({ ...EMAIL, subject: 'Other' }, { idempotencyKey: 'two' }))).toEqual({
      statusCode: 409,
      name: 'invalid_idempotent_request',
      message: expect.stringContaining('use a new key'),
    })
    expect(countEmails()).toBe(before)
  })

  test('of a batch returns the same ids, and with another body is a conflict', async () => {
    const send = (subject: string) =>
      resend.batch.send([{ ...EMAIL, subject, scheduledAt: 'in 1 hour' }], { idempotencyKey: 'three' })
    const first = await dataOf(send('a'))
    await service.clock.advance(MINUTE)
    expect(await dataOf(send('a'))).toEqual(first)
    expect(await errorOf(send('b'))).toMatchObject({ statusCode: 409, name: 'invalid_idempotent_request' })
  })
})

describe('a batch', () => {
  const batch = (count: number) => Array.from({ length: count }, (_, n) => ({ ...EMAIL, subject: `Hello ${n}` }))

  test('of 100 is sent in order', async () => {
    const { data, ...rest } = await dataOf(resend.batch.send(batch(100)))
    expect([data.length, rest]).toEqual([100, {}] as never)
    expect(await service.detail(data[99]?.id)).toMatchObject({ subject: 'Hello 99' })
  })

  test('with one error is rejected as a whole', async () => {
    const before = service.stored()
    const emails = batch(100)
    emails[47] = { ...EMAIL, to: 'nobody' }
    expect(await errorOf(resend.batch.send(emails))).toEqual({
      statusCode: 422,
      name: 'validation_error',
      message: expect.stringMatching(/^emails\.47: .*nobody.* Nothing was sent\.$/),
    })
    expect(service.stored()).toEqual(before)
  })

  test('with a template that fails in one email is rejected as a whole', async () => {
    await service.api('POST', '/v1/templates', {
      alias: 'strict',
      name: 'Strict',
      subject: '{{ name }}',
      text_body: 'Hi {{ name }}',
    })
    const before = service.stored()
    const send = (name?: string) => ({
      from: EMAIL.from,
      to: EMAIL.to,
      template: { id: 'strict', variables: name ? { name } : {} },
    })
    expect(await errorOf(resend.batch.send([send('Bob'), send()]))).toMatchObject({
      statusCode: 422,
      message: expect.stringMatching(/^emails\.1: /),
    })
    expect(service.stored()).toEqual(before)
  })

  test('in permissive mode sends what is right, and names the errors', async () => {
    const emails = [...batch(2), { ...EMAIL, to: 'nobody' }, { ...EMAIL, html: '' }]
    const { data, errors } = await dataOf(resend.batch.send(emails, { batchValidation: 'permissive' }))
    expect([data.length, errors]).toEqual([
      2,
      [
        { index: 2, message: expect.stringContaining('nobody') },
        { index: 3, message: expect.stringContaining('Missing `html` field') },
      ],
    ])
  })

  test.each<[string, unknown, RegExp]>([
    ['101 emails', batch(101), /1 to 100 emails; it has 101/],
    ['no email', [], /1 to 100 emails; it has 0/],
    ['an object', EMAIL, /must be an array/],
    ['a number in it', [EMAIL, 5], /^emails\.1: An email must be a JSON object/],
    ['a file by URL', [{ ...EMAIL, attachments: [{ path: 'https://x.test/a' }] }], /files of a batch are not fetched/],
  ])('of %s is refused', async (_, body, message) => {
    const before = countEmails()
    const answer = await post('/resend/emails/batch', body)
    expect([answer.status, at(answer.body, 'name')]).toEqual([422, 'validation_error'])
    expect(String(at(answer.body, 'message'))).toMatch(message)
    expect(countEmails()).toBe(before)
  })
})

describe('an error has the name that the client knows, and says what to do', () => {
  const cases: [string, Record<string, unknown>, number, string, RegExp][] = [
    ['no sender', { from: undefined }, 422, 'missing_required_field', /Missing `from` field/],
    ['no recipient', { to: '' }, 422, 'missing_required_field', /Missing `to` field/],
    ['no subject', { subject: undefined }, 422, 'missing_required_field', /Missing `subject` field/],
    ['no content', { html: undefined }, 422, 'missing_required_field', /Missing `html` field/],
    ['a sender that is no address', { from: 'Ada' }, 422, 'invalid_from_address', /from: /],
    [
      'the domain of somebody else',
      { from: 'ada@other.test' },
      422,
      'validation_error',
      /other\.test is not registered/,
    ],
    ['a number as html', { html: 5 }, 422, 'validation_error', /^html /],
    ['an object as cc', { cc: {} }, 422, 'validation_error', /^cc/],
    ['numbers as to', { to: [5] }, 422, 'validation_error', /^to/],
    ['a number as reply_to', { reply_to: 5 }, 422, 'validation_error', /^reply_to/],
    ['headers as a text', { headers: 'x' }, 422, 'validation_error', /headers/],
    ['tags as a text', { tags: 'x' }, 422, 'validation_error', /tags/],
    ['a tag as a number', { tags: [5] }, 422, 'validation_error', /tags\.0/],
    ['a time in the past', { scheduled_at: 'yesterday' }, 422, 'validation_error', /scheduled_at is in the past/],
    ['a time in two years', { scheduled_at: 'in 2 years' }, 422, 'validation_error', /scheduled_at must be within/],
    ['a time that is none', { scheduled_at: 'banana' }, 422, 'validation_error', /scheduled_at must be a date/],
    ['a long text as time', { scheduled_at: 'in 1 min '.repeat(99) }, 422, 'validation_error', /scheduled_at must be/],
    ['a number as time', { scheduled_at: 5 }, 422, 'validation_error', /scheduled_at must be/],
    ['a template as a text', { template: 'x' }, 422, 'validation_error', /template must be an object/],
    ['an unknown template', { template: { id: 'none' } }, 422, 'validation_error', /no template with the alias "none"/],
    ['attachments as a text', { attachments: 'x' }, 422, 'invalid_attachment', /attachments must be/],
    ['an attachment of nothing', { attachments: [{ filename: 'a' }] }, 422, 'invalid_attachment', /content.*or path/],
    ['invalid base64', { attachments: [{ filename: 'a', content: '%%%' }] }, 422, 'invalid_attachment', /valid base64/],
    ['a program', { attachments: [{ filename: 'a.exe', content: 'SGk=' }] }, 422, 'invalid_attachment', /\.exe/],
  ]
  test.each(cases)('%s', async (_, change, statusCode, name, message) => {
    const before = service.stored()
    const { status, body } = await post('/resend/emails', { ...EMAIL, ...change })
    expect([status, body]).toEqual([statusCode, { statusCode, name, message: expect.stringMatching(message) }])
    expect(service.stored()).toEqual(before)
  })

  test.each<[string, string, Record<string, string>, number, string]>([
    ['a body that is not JSON', '{', {}, 400, 'validation_error'],
    ['an array', '[]', {}, 422, 'validation_error'],
    ['no body', '', {}, 422, 'validation_error'],
    ['a form', 'a=b', { 'content-type': 'application/x-www-form-urlencoded' }, 415, 'validation_error'],
    ['too long a key', JSON.stringify(EMAIL), { 'idempotency-key': 'x'.repeat(257) }, 400, 'invalid_idempotency_key'],
    ['a wrong API key', JSON.stringify(EMAIL), { authorization: 'Bearer re_123' }, 403, 'invalid_api_key'],
    ['a key without Bearer', JSON.stringify(EMAIL), { authorization: 're_123' }, 403, 'invalid_api_key'],
    ['no API key', JSON.stringify(EMAIL), { authorization: '' }, 401, 'missing_api_key'],
  ])('%s', async (_, body, headers, status, name) => {
    const answer = await post('/resend/emails', body, headers)
    expect([answer.status, answer.body]).toEqual([status, { statusCode: status, name, message: expect.any(String) }])
  })

  test('a key of Resend itself says so, and where to make one of ours', async () => {
    const old = createResend({ url: service.url, key: 're_123456789_abcdef' })
    expect(await errorOf(old.emails.send(EMAIL))).toEqual({
      statusCode: 403,
      name: 'invalid_api_key',
      message: expect.stringMatching(/^Invalid API key\. This looks like a key of Resend\. .*tassis keys create/),
    })
  })

  test('a key without the scope', async () => {
    const limited = createResend({ url: service.url, key: await service.newKey(['emails:read']) })
    expect(await errorOf(limited.emails.send(EMAIL))).toEqual({
      statusCode: 401,
      name: 'restricted_api_key',
      message: expect.stringContaining('emails:send'),
    })
  })
})

test('the limits of an account have the names and headers that the client knows', async () => {
  await using limited = await createEmailApi({
    settings: { TASSIS_PLANS: 'free.monthly_quota=2', TASSIS_SEND_BURST: '3', TASSIS_SEND_RATE_PER_SECOND: '1' },
  })
  const actor = await createTestAccount(limited.app, 'free')
  await limited.addDomain(actor, 'limited.test')
  const client = createResend({ url: limited.url, key: await limited.newKey([], actor) })
  const send = () => client.emails.send({ ...EMAIL, from: 'a@limited.test' })
  expect(await send()).toMatchObject({ error: null, headers: { 'ratelimit-limit': '3', 'ratelimit-remaining': '2' } })
  expect((await send()).error).toBeNull()
  const overQuota = await send()
  expect([overQuota.error, overQuota.headers?.['retry-after']]).toEqual([
    { statusCode: 429, name: 'monthly_quota_exceeded', message: expect.stringContaining('first of next month') },
    expect.stringMatching(/^\d+$/),
  ] as never)
  const overRate = await send()
  expect(overRate).toMatchObject({
    error: { statusCode: 429, name: 'rate_limit_exceeded' },
    headers: { 'retry-after': '1', 'ratelimit-remaining': '0', 'ratelimit-reset': '1' },
  })
  limited.app.db.run("UPDATE accounts SET paused_at = 1, pause_reason = 'test' WHERE id = ?", [actor.accountId])
  await limited.clock.advance(5000)
  expect((await send()).error).toMatchObject({ statusCode: 403, name: 'validation_error' })
})
