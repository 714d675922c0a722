import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Resend } from 'resend'
import { record } from '#features/core/events/record.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, NOW } from '#test/support/email-api.ts'
import { createResend, dataOf, errorOf } from './fixture.ts'

const EMAIL = { from: 'Ada <ada@sender.test>', to: 'bob@receiver.test', subject: 'Hello', html: '<p>Hello.</p>' }
const UNKNOWN = '01234567-89ab-7def-8123-456789abcdef'
const NOT_FOUND = { statusCode: 404, name: 'not_found', message: expect.any(String) }
const iso = (offset = 0) => new Date(NOW + offset).toISOString()

let service: EmailApi
let resend: Resend
/** The client of another account. */
let other: Resend
beforeAll(async () => {
  service = await createEmailApi()
  resend = createResend(service)
  other = createResend({ url: service.url, key: await service.newKey([], await service.newAccount()) })
})
afterAll(() => service[Symbol.asyncDispose]())

const send = async (change: object = {}, client = resend) =>
  (await dataOf(client.emails.send({ ...EMAIL, ...change }))).id

test('an email is read back with what was sent', async () => {
  const id = await send({
    to: ['Bob <bob@receiver.test>', 'cy@receiver.test'],
    cc: 'dan@receiver.test',
    bcc: ['eve@receiver.test'],
    replyTo: ['help@sender.test', 'Ada <ada@sender.test>'],
    text: 'Hello.',
    tags: [
      { name: 'category', value: 'welcome' },
      { name: 'plain', value: '' },
    ],
  })
  expect(await dataOf(resend.emails.get(id))).toEqual({
    object: 'email',
    id,
    message_id: `<${id}@sender.test>`,
    from: 'Ada <ada@sender.test>',
    to: ['bob@receiver.test', 'cy@receiver.test'],
    cc: ['dan@receiver.test'],
    bcc: ['eve@receiver.test'],
    reply_to: ['help@sender.test', 'Ada <ada@sender.test>'],
    subject: 'Hello',
    html: '<p>Hello.</p>',
    text: 'Hello.',
    tags: [
      { name: 'category', value: 'welcome' },
      { name: 'plain', value: '' },
    ],
    created_at: iso(),
    scheduled_at: null,
    last_event: 'queued',
  })
})

test('a scheduled email is moved and cancelled, once', async () => {
  const id = await send({ scheduledAt: 'in 1 hour' })
  expect(await dataOf(resend.emails.get(id))).toMatchObject({ last_event: 'scheduled', scheduled_at: iso(3_600_000) })
  const scheduledAt = iso(7_200_000)
  expect(await dataOf(resend.emails.update({ id, scheduledAt }))).toEqual({ object: 'email', id })
  expect(await dataOf(resend.emails.get(id))).toMatchObject({ scheduled_at: scheduledAt })
  expect(await dataOf(resend.emails.cancel(id))).toEqual({ object: 'email', id })
  expect(await dataOf(resend.emails.get(id))).toMatchObject({ last_event: 'canceled' })
  expect(await errorOf(resend.emails.cancel(id))).toEqual(NOT_FOUND)
  expect(await errorOf(resend.emails.update({ id, scheduledAt }))).toMatchObject({ statusCode: 409 })
  expect(await errorOf(resend.emails.update({ id, scheduledAt: '' }))).toMatchObject({ name: 'missing_required_field' })
})

describe('the last event', () => {
  test.each([
    ['sent', 'sent'],
    ['delivered', 'delivered'],
    ['deferred', 'delivery_delayed'],
    ['bounced', 'bounced'],
    ['failed', 'failed'],
    ['rejected', 'suppressed'],
    ['opened', 'opened'],
    ['clicked', 'clicked'],
    ['complained', 'complained'],
    ['uncertain', 'sent'],
    ['unsubscribed', 'queued'],
  ] as const)('%s is called %s', async (event, name) => {
    const id = await send()
    await service.app.commit.write((tx) => {
      const email = tx.db.query<{ id: number }, []>('SELECT max(id) AS id FROM emails').get()
      record(tx, { accountId: service.actor.accountId, type: event, at: NOW, emailId: email?.id ?? 0 })
    })
    const { data } = await dataOf(resend.emails.list({ limit: 1 }))
    expect([data[0]?.last_event, (await dataOf(resend.emails.get(id))).last_event]).toEqual([name, name])
  })
})

describe('the list', () => {
  const ids: string[] = []
  let client: Resend
  beforeAll(async () => {
    const actor = await service.newAccount()
    await service.addDomain(actor, 'listed.test')
    client = createResend({ url: service.url, key: await service.newKey([], actor) })
    for (let n = 0; n < 5; n++) ids.unshift(await send({ from: 'a@listed.test', subject: `${n}` }, client))
  })

  const list = async (options: Parameters<Resend['emails']['list']>[0]) => {
    const { object, has_more, data } = await dataOf(client.emails.list(options))
    return [object, has_more, data.map(({ id }) => ids.indexOf(id))]
  }

  test('is newest first, and pages in both directions', async () => {
    const [first = '', second = '', , fourth = '', last = ''] = ids
    expect(await list({})).toEqual(['list', false, [0, 1, 2, 3, 4]])
    expect(await list({ limit: 2 })).toEqual(['list', true, [0, 1]])
    expect(await list({ limit: 2, after: second })).toEqual(['list', true, [2, 3]])
    expect(await list({ limit: 2, after: fourth })).toEqual(['list', false, [4]])
    expect(await list({ after: last })).toEqual(['list', false, []])
    expect(await list({ limit: 2, before: fourth })).toEqual(['list', true, [1, 2]])
    expect(await list({ limit: 2, before: second })).toEqual(['list', false, [0]])
    expect(await list({ before: first })).toEqual(['list', false, []])
  })

  test('has every field but bodies and tags', async () => {
    const { data } = await dataOf(client.emails.list({ limit: 1 }))
    expect(data[0]).toEqual({
      id: ids[0] ?? '',
      message_id: `<${ids[0]}@listed.test>`,
      from: 'a@listed.test',
      to: ['bob@receiver.test'],
      cc: [],
      bcc: [],
      reply_to: [],
      subject: '4',
      created_at: iso(),
      scheduled_at: null,
      last_event: 'queued',
    })
  })

  test.each([
    ['limit', { limit: 0 }],
    ['limit', { limit: 101 }],
    ['after', { after: UNKNOWN }],
    ['before', { before: 'x' }],
  ] as const)('refuses a wrong %s', async (name, options) => {
    expect(await errorOf(client.emails.list(options))).toEqual({
      statusCode: 422,
      name: 'validation_error',
      message: expect.stringContaining(name),
    })
  })

  test('refuses after together with before', async () => {
    const both = { after: ids[0], before: ids[1] } as never
    expect(await errorOf(client.emails.list(both))).toMatchObject({ name: 'validation_error' })
  })
})

test('attachments are listed with links that need no key, and expire', async () => {
  const content = Buffer.from('Grüße')
  const id = await send({
    attachments: [
      { filename: 'a.txt', content },
      { filename: 'logo.png', content: Buffer.from('x'), contentId: 'logo' },
    ],
  })
  const { data, ...page } = await dataOf(resend.emails.attachments.list({ emailId: id }))
  expect([page, data]).toMatchObject([
    { object: 'list', has_more: false },
    [
      { id: '0', filename: 'a.txt', size: 7, content_type: 'text/plain', content_disposition: 'attachment' },
      { id: '1', filename: 'logo.png', content_disposition: 'inline', content_id: 'logo' },
    ],
  ])
  const one = await dataOf(resend.emails.attachments.get({ emailId: id, id: '0' }))
  expect(one).toEqual({ object: 'attachment', ...data[0] } as never)
  const url = new URL(one.download_url)
  const path = `${service.url}${url.pathname}${url.search}`
  const file = await fetch(path)
  expect([file.status, file.headers.get('content-disposition'), Buffer.from(await file.bytes())]).toEqual([
    200,
    'attachment; filename="a.txt"',
    content,
  ])
  for (const wrong of [`${path}A`, path.replace('token=', 'token=A'), `${service.url}/resend/files`])
    expect((await fetch(wrong)).status).toBe(404)
  const late = Date.parse(one.expires_at) - service.clock.now() + 1
  await service.clock.advance(late)
  expect((await fetch(path)).status).toBe(404)
  await service.clock.advance(-late)
  expect(await errorOf(resend.emails.attachments.get({ emailId: id, id: '2' }))).toEqual(NOT_FOUND)
})

test('another account finds nothing of it', async () => {
  const id = await send({ scheduledAt: 'in 1 hour', attachments: [{ filename: 'a', content: 'SGk=' }] })
  const calls = [
    other.emails.get(id),
    other.emails.cancel(id),
    other.emails.update({ id, scheduledAt: iso(7_200_000) }),
    other.emails.attachments.list({ emailId: id }),
    other.emails.get('x'),
    other.emails.get(UNKNOWN),
  ]
  for (const call of calls) expect(await errorOf(call as never)).toEqual(NOT_FOUND)
  expect(await dataOf(other.emails.list())).toEqual({ object: 'list', has_more: false, data: [] })
})

test('a wrong method says which are right, and another path that it is none', async () => {
  const call = (method: string, path: string) =>
    fetch(`${service.url}${path}`, { method, headers: { authorization: `Bearer ${service.key}` } })
  const wrong = await call('DELETE', '/resend/emails')
  expect([wrong.status, wrong.headers.get('allow'), await wrong.json()]).toEqual([
    405,
    'GET, HEAD, POST',
    { statusCode: 405, name: 'method_not_allowed', message: expect.stringContaining('GET') },
  ])
  const none = await call('GET', '/resend/nothing')
  expect([none.status, at(await none.json(), 'name')]).toEqual([404, 'not_found'])
  expect((await call('GET', '/resend')).status).toBe(404)
})
