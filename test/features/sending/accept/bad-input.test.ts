import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createEmailApi, EMAIL, type EmailApi, expectError } from '#test/support/email-api.ts'

let emails: EmailApi
let before: Record<string, number>

beforeAll(async () => {
  emails = await createEmailApi()
  await emails.accepted()
})
afterAll(() => emails[Symbol.asyncDispose]())

// Nothing that a test here sends may be stored.
beforeEach(() => {
  before = emails.stored()
})
afterEach(() => {
  expect(emails.stored()).toEqual(before)
})

const PATHS = ['/v1/emails', '/v1/emails/batch'] as const

describe('text that is not JSON', () => {
  const texts: readonly [what: string, text: string | Uint8Array<ArrayBuffer>][] = [
    ['an open brace', '{'],
    ['a trailing comma', '{"from":"a@sender.test",}'],
    ['single quotes', "{'from':1}"],
    ['two values', '{} {}'],
    ['a NUL', '\0'],
    ['a form', 'from=a&to=b'],
    ['an unterminated string', '{"from":"a'],
    ['NaN', '{"from":NaN}'],
    ['a byte order mark and junk', '\ufeff{]'],
    ['bytes that are not UTF-8', new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d])],
    ['arrays 65 deep', `${'['.repeat(65)}${']'.repeat(65)}`],
    ['arrays a million deep', '['.repeat(1_000_000)],
    ['objects 10,000 deep', `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`],
  ]
  // Proves: send-2
  for (const [what, text] of texts)
    test(`${what}: 400`, async () => {
      for (const path of PATHS) expectError(await emails.raw(path, text), 400, 'invalid_json')
    })

  test('metadata nested too deeply: 400', async () => {
    const metadata = `${'{"a":'.repeat(80)}1${'}'.repeat(80)}`
    const { from, to } = EMAIL
    expectError(
      await emails.raw(
        '/v1/emails',
        `{"from":"${from}","to":"${to}","subject":"S","text_body":"T","metadata":${metadata}}`,
      ),
      400,
      'invalid_json',
    )
  })
})

describe('bodies that are not objects or are missing', () => {
  // Proves: send-4
  for (const text of ['', 'null', '[]', '{}'])
    test(`${JSON.stringify(text)}: 422 for the missing fields`, async () => {
      expectError(await emails.raw('/v1/emails', text), 422, 'validation_failed', 'from', 'to')
      expectError(await emails.raw('/v1/emails/batch', text), 422, 'validation_failed', 'emails')
    })

  for (const text of ['5', '"text"', 'true', '[1]', '[{}]'])
    test(`${text}: 422`, async () => {
      for (const path of PATHS) expectError(await emails.raw(path, text), 422, 'validation_failed', 'body')
    })
})

describe('the content type', () => {
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/json; charset=utf-16',
    'x',
  ])
    test(`${type}: 415`, async () => {
      for (const path of PATHS)
        expectError(
          await emails.raw(path, JSON.stringify(EMAIL), { 'content-type': type }),
          415,
          'unsupported_media_type',
        )
    })

  test('with a compressed body: 415', async () => {
    const body = Bun.gzipSync(JSON.stringify(EMAIL))
    expectError(await emails.raw('/v1/emails', body, { 'content-encoding': 'gzip' }), 415, 'unsupported_media_type')
  })
})

describe('unknown fields', () => {
  // Proves: http-14
  test('at the top level: 422 that names them', async () => {
    expectError(await emails.send({ bogus: 1, html: '<p>' }), 422, 'validation_failed', 'bogus', 'html')
  })

  // Proves: http-14
  test('in an attachment: 422 that names it', async () => {
    const attachments = [{ filename: 'a', content: 'aGk=', content_type: 'text/plain', bogus: 'x' }]
    expectError(await emails.send({ attachments }), 422, 'validation_failed', 'attachments.0.bogus')
  })

  test.each([
    ['html', 'html_body'],
    ['text', 'text_body'],
    ['HtmlBody', 'html_body'],
    ['replyTo', 'reply_to'],
    ['scheduled_at', 'send_at'],
    ['TemplateModel', 'template_data'],
    ['MessageStream', 'stream'],
    ['Tag', 'tags'],
  ])('%s, which other providers have: the error names %s', async (name, meant) => {
    const { body } = await emails.send({ [name]: 'x' })
    expect(body).toMatchObject({ message: `${name} is not a known field; did you mean ${meant}?` })
  })

  test('named like properties of JavaScript objects: 422', async () => {
    const { from, to } = EMAIL
    const body = `{"from":"${from}","to":"${to}","subject":"S","text_body":"T","__proto__":{"a":1}}`
    expectError(await emails.raw('/v1/emails', body), 422, 'validation_failed', '__proto__')
    expectError(await emails.send({ constructor: 1 }), 422, 'validation_failed', 'constructor')
  })

  test('in thousands: 422 that names at most 20 of them', async () => {
    const answer = await emails.send(Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`x${i}`, 1])))
    expect(answer.status).toBe(422)
    expect((answer.body as { details: unknown[] }).details.length).toBeLessThanOrEqual(20)
  })
})

describe('bodies that are too large', () => {
  // Proves: http-10
  test('by their Content-Length: 413', async () => {
    for (const path of PATHS)
      expectError(await emails.raw(path, ' '.repeat(40 * 1024 * 1024 + 1)), 413, 'payload_too_large')
  })

  // Proves: http-10
  test('in chunks without a length: 413', async () => {
    const chunk = new Uint8Array(1024 * 1024).fill(0x20)
    let left = 45
    const stream = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (left-- > 0) controller.enqueue(chunk)
        else controller.close()
      },
    })
    expectError(await emails.raw('/v1/emails', stream), 413, 'payload_too_large')
  })

  test('by the number of their values: 413', async () => {
    expectError(await emails.raw('/v1/emails', `{"a":[${'1,'.repeat(600_000)}1]}`), 413, 'payload_too_large')
  })
})
