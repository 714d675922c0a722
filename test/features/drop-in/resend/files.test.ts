import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { simpleParser } from 'mailparser'
import type { Resend } from 'resend'
import { parseUuid } from '#platform/ids.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { type HttpsReceiver, startHttpsReceiver } from '#test/support/https-receiver.ts'
import { createResend, dataOf, errorOf } from './fixture.ts'

const EMAIL = { from: 'Ada <ada@sender.test>', to: 'bob@receiver.test', subject: 'Hello', html: '<p>Hello.</p>' }
const MAX_BYTES = 200_000

let files: HttpsReceiver
let service: EmailApi
let resend: Resend
beforeAll(async () => {
  files = await startHttpsReceiver({ names: ['127.0.0.1'] })
  service = await createEmailApi({
    delivers: true,
    settings: {
      TASSIS_DELIVERY: 'capture',
      TASSIS_EXTRA_CA_FILE: files.caFile,
      TASSIS_MAX_ATTACHMENT_BYTES: String(MAX_BYTES),
    },
  })
  resend = createResend(service)
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await files.close()
})

/** The message of an email as it was sent. */
async function readMessage(id: string) {
  const uuid = parseUuid(id)
  const row =
    uuid && service.app.db.query<{ id: number }, [Uint8Array]>('SELECT id FROM emails WHERE uuid = ?').get(uuid)
  if (!row) throw new Error(`there is no email ${id}`)
  const { raw } = await eventually(() => service.opened.captures.find(row.id))
  return simpleParser(Buffer.from(raw, 'latin1'), { skipImageLinks: true })
}

const sendFile = (path: string) => resend.emails.send({ ...EMAIL, attachments: [{ path }] })

test('files and an inline picture arrive octet by octet', async () => {
  const [random, picture] = [randomBytes(50_000), randomBytes(3_000)]
  const { id } = await dataOf(
    resend.emails.send({
      ...EMAIL,
      html: '<p><img src="cid:logo"></p>',
      attachments: [
        { filename: 'random.bin', content: random },
        { filename: 'text.pdf', content: Buffer.from('Grüße').toString('base64') },
        { filename: 'logo.png', content: new Uint8Array(picture), contentId: 'logo' },
        { filename: 'data.xyz', content: Buffer.from('x'), contentType: 'text/calendar; method=REQUEST' },
      ],
    }),
  )
  const { attachments, html } = await readMessage(id)
  expect(html).toContain('cid:logo')
  expect(attachments[3]?.headers.get('content-type')).toMatchObject({ params: { method: 'REQUEST' } })
  expect(
    attachments
      .map((file) => [file.filename, file.contentType, file.contentDisposition, file.cid, file.content.toBase64()])
      .sort(),
  ).toEqual([
    ['data.xyz', 'text/calendar', 'attachment', undefined, Buffer.from('x').toString('base64')],
    ['logo.png', 'image/png', 'inline', 'logo', picture.toString('base64')],
    ['random.bin', 'application/octet-stream', 'attachment', undefined, random.toString('base64')],
    ['text.pdf', 'application/pdf', 'attachment', undefined, Buffer.from('Grüße').toString('base64')],
  ])
})

describe('a file by URL', () => {
  beforeEach(() => {
    files.requests.length = 0
  })

  test('is fetched when the email is accepted, by redirects too, and named by its URL', async () => {
    const content = randomBytes(90_000)
    files.answer(({ url }) =>
      url === '/moved'
        ? { status: 302, headers: { location: '/a/R%C3%A9sum%C3%A9.pdf?x=1' }, body: 'moved' }
        : { body: content },
    )
    const { id } = await dataOf(
      resend.emails.send({
        ...EMAIL,
        attachments: [
          { path: files.url('127.0.0.1', '/moved'), filename: 'own.bin' },
          { filename: 'a.txt', content: 'SGk=' },
          { path: files.url('127.0.0.1', '/a/R%C3%A9sum%C3%A9.pdf?x=1') },
        ],
      }),
    )
    const { attachments } = await readMessage(id)
    expect(
      attachments.map(({ filename, contentType, content: got }) => [filename, contentType, got.equals(content)]),
    ).toEqual([
      ['own.bin', 'application/octet-stream', true],
      ['a.txt', 'text/plain', false],
      ['Résumé.pdf', 'application/pdf', true],
    ])
  })

  test('is not fetched again for a repeated request', async () => {
    files.answer({ body: 'first' })
    const send = () =>
      dataOf(resend.emails.send({ ...EMAIL, attachments: [{ path: files.url() }] }, { idempotencyKey: 'fetched' }))
    const first = await send()
    files.answer({ body: 'other' })
    expect([await send(), files.requests.length]).toEqual([first, 1])
  })

  test('is not fetched for an email that is wrong otherwise', async () => {
    files.answer({ body: 'x' })
    await errorOf(resend.emails.send({ ...EMAIL, html: 5 as never, attachments: [{ path: files.url() }] }))
    expect(files.requests).toEqual([])
  })

  const drip = async function* () {
    yield 'x'.repeat(10_000)
    for (;;) {
      yield 'x'
      await Bun.sleep(5)
    }
  }
  const endless = async function* () {
    for (;;) yield Buffer.alloc(10_000)
  }
  test.each<[string, Parameters<HttpsReceiver['answer']>[0], RegExp]>([
    ['that is missing', { status: 404 }, /status 404/],
    ['without an end', { body: endless() }, /at most 200000 bytes together/],
    ['one octet too large', { body: Buffer.alloc(MAX_BYTES + 1) }, /at most 200000 bytes together/],
    ['with a reset', 'reset', /closed the connection/],
    ['that redirects for ever', { status: 302, headers: { location: '/' } }, /more than 3 redirects/],
    [
      'that redirects to plain http',
      { status: 302, headers: { location: 'http://127.0.0.1/' } },
      /must begin with https/,
    ],
    ['that redirects to nothing', { status: 302, headers: { location: 'https://' } }, /URL/],
    ['cut off', { raw: 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc', after: 'end' }, /ended too early/],
  ])('%s is an error that names it, and nothing is sent', async (_, reply, message) => {
    const before = service.stored()['emails']
    files.answer(reply)
    expect(await errorOf(sendFile(files.url()))).toEqual({
      statusCode: 422,
      name: 'invalid_attachment',
      message: expect.stringMatching(message),
    })
    expect([service.stored()['emails'], service.app.memory.inUseBytes]).toEqual([before, 0] as never)
  })

  test.each<[string, Parameters<HttpsReceiver['answer']>[0], RegExp]>([
    ['that never answers', 'hang', /did not answer within 20 seconds/],
    ['that comes octet by octet', { body: drip() }, /took too long/],
  ])('%s is given up after 20 seconds', async (_, reply, message) => {
    files.answer(reply)
    const error = errorOf(sendFile(files.url()))
    await files.received(1)
    if (reply !== 'hang') await eventually(() => service.app.memory.inUseBytes > 10_000)
    await service.clock.advance(20_000)
    expect(await error).toMatchObject({ name: 'invalid_attachment', message: expect.stringMatching(message) })
  })

  test('of this service itself, of a private network or of another scheme is refused', async () => {
    await using strict = await createEmailApi({ settings: { TASSIS_ALLOW_PRIVATE_NETWORKS: 'false' } })
    const closed = createResend(strict)
    for (const [client, path, message] of [
      [resend, service.url.replace('http:', 'https:'), /belongs to the service itself/],
      [closed, 'https://127.0.0.1/a', /private/],
      [closed, 'https://[::1]/a', /private/],
      [closed, 'https://169.254.169.254/latest', /private/],
      [resend, 'file:///etc/passwd', /https/],
      [resend, 'http://127.0.0.1/a', /https/],
      [resend, 'not a url', /URL/],
    ] as const) {
      const answer = client.emails.send({ ...EMAIL, attachments: [{ path }] })
      expect(await errorOf(answer)).toMatchObject({
        name: 'invalid_attachment',
        message: expect.stringMatching(message),
      })
    }
  })

  test('may be one of ten, and four emails may fetch at the same time', async () => {
    files.answer({ body: 'x' })
    const paths = (count: number) => Array.from({ length: count }, () => ({ path: files.url() }))
    expect(await dataOf(resend.emails.send({ ...EMAIL, attachments: paths(10) }))).toMatchObject({
      id: expect.any(String),
    })
    expect(await errorOf(resend.emails.send({ ...EMAIL, attachments: paths(11) }))).toMatchObject({
      message: expect.stringContaining('at most 10 files'),
    })
    files.requests.length = 0
    const held = Promise.withResolvers<void>()
    files.answer(() => held.promise.then(() => ({ body: 'x' })))
    const four = [1, 2, 3, 4].map(() => dataOf(sendFile(files.url())))
    await files.received(4)
    const fifth = await resend.emails.send({ ...EMAIL, attachments: [{ path: files.url() }] })
    expect([fifth.error, at(fifth.headers, 'retry-after')]).toEqual([
      { statusCode: 429, name: 'rate_limit_exceeded', message: expect.stringContaining('At most 4 emails') },
      '1',
    ] as never)
    held.resolve()
    expect((await Promise.all(four)).length).toBe(4)
  })
})
