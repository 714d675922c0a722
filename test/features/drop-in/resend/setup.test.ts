import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import type { Resend } from 'resend'
import { createDomain } from '#features/setup/domains/domains.ts'
import { startDkimRotation } from '#features/setup/domains/rotate-dkim.ts'
import { days, MiB } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, UUID } from '#test/support/email-api.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { createResend, dataOf, errorOf } from './fixture.ts'

const UNKNOWN = '01234567-89ab-7def-8123-456789abcdef'
const NOT_FOUND = { statusCode: 404, name: 'not_found', message: expect.any(String) }
const TIME = expect.stringMatching(/^2026-03-\d\dT/) as unknown as string

let service: EmailApi
let resend: Resend
/** The client of another account. */
let other: Resend
beforeAll(async () => {
  service = await createEmailApi()
  // The client fetches files from the public URL.
  Object.assign(service.app.config, { publicUrl: service.url })
  resend = createResend(service)
  other = createResend({ url: service.url, key: await service.newKey([], await service.newAccount()) })
})
afterAll(() => service[Symbol.asyncDispose]())

/** The status of a POST, which the client does not show. */
async function statusOf(path: string, body: object): Promise<number> {
  const response = await fetch(`${service.url}/resend${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return response.status
}

/** What the response to a POST or PATCH names as ignored. */
async function ignoredBy(key: string, method: string, path: string, body: object): Promise<string | null> {
  const response = await fetch(`${service.url}/resend${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect([path, response.ok]).toEqual([path, true])
  return response.headers.get('tassis-ignored')
}

test('every route names the fields that it ignores, also those within others', async () => {
  const key = await service.newKey([], await service.newAccount())
  const domain = { name: 'ignored.example.com', tls: 'enforced', capabilities: { sending: 'disabled' } }
  expect(await ignoredBy(key, 'POST', '/domains', domain)).toBe('tls, capabilities.sending')
  expect(await ignoredBy(key, 'POST', '/api-keys', { name: 'CI', expires: 1 })).toBe('expires')
  const hook = { endpoint: 'https://127.0.0.1/hook', events: ['email.sent', 'contact.created'], name: 'CRM' }
  expect(await ignoredBy(key, 'POST', '/webhooks', hook)).toBe('name, events.contact.created')
  expect(await ignoredBy(key, 'POST', '/suppressions', { email: 'a@receiver.test', reason: 'x' })).toBe('reason')
  expect(await ignoredBy(key, 'POST', '/suppressions/batch/add', { emails: ['b@receiver.test'], origin: 'x' })).toBe(
    'origin',
  )
  expect(
    await ignoredBy(key, 'POST', '/suppressions/batch/remove', { emails: ['b@receiver.test'], x: null }),
  ).toBeNull()
  const email = {
    from: 'ada@ignored.example.com',
    to: 'bob@receiver.test',
    subject: 'Hello',
    text: 'Hello.',
    scheduled_at: 'in 1 hour',
    attachments: [{ filename: 'a.txt', content: 'YQ==', content_disposition: 'inline' }],
  }
  expect(await ignoredBy(key, 'POST', '/emails', email)).toBe('attachments.content_disposition')
  const { id } = await dataOf(
    createResend({ url: service.url, key }).emails.send({ ...email, scheduledAt: 'in 1 hour' } as never),
  )
  expect(await ignoredBy(key, 'PATCH', `/emails/${id}`, { scheduled_at: 'in 2 hours', subject: 'x' })).toBe('subject')
})

describe('domains', () => {
  test('are created with their records, read, changed, verified and deleted', async () => {
    const created = await dataOf(
      resend.domains.create({
        name: 'mail.example.com',
        region: 'us-east-1',
        capabilities: { receiving: 'enabled' },
        trackingSubdomain: 'links',
      }),
    )
    const { id } = created
    const dkim = expect.stringMatching(/^ts[0-9a-z]{8}\._domainkey\.mail$/)
    const record = { ttl: 'Auto', status: 'not_started' }
    expect(created).toEqual({
      object: 'domain',
      id: expect.stringMatching(UUID),
      name: 'mail.example.com',
      status: 'not_started',
      created_at: TIME,
      region: 'eu-west-1',
      capabilities: { sending: 'enabled', receiving: 'enabled' },
      tracking_subdomain: 'links',
      records: [
        { record: 'SPF', name: 'send.mail', type: 'MX', value: 'mail.tassis.test', priority: 10, ...record },
        { record: 'SPF', name: 'send.mail', type: 'TXT', value: expect.stringMatching(/^v=spf1 /), ...record },
        { record: 'DKIM', name: dkim, type: 'TXT', value: expect.stringMatching(/^v=DKIM1;.*p=/), ...record },
        { record: 'Receiving', name: 'mail', type: 'MX', value: 'mail.tassis.test', priority: 10, ...record },
        { record: 'Tracking', name: 'links.mail', type: 'CNAME', value: expect.any(String), ...record },
      ],
    } as never)
    expect(await dataOf(resend.domains.get(id))).toEqual(created as never)
    expect(await dataOf(resend.domains.update({ id, capabilities: { receiving: 'disabled' } }))).toEqual({
      object: 'domain',
      id,
    })
    expect(await dataOf(resend.domains.get(id))).toMatchObject({ capabilities: { receiving: 'disabled' } })
    expect(await dataOf(resend.domains.verify(id))).toEqual({ object: 'domain', id })
    expect(await dataOf(resend.domains.remove(id))).toEqual({ object: 'domain', id, deleted: true })
    expect(await errorOf(resend.domains.get(id))).toEqual(NOT_FOUND)
  })

  test('list the record of the next DKIM key, and of the former one as long as it must stay', async () => {
    const { id } = await dataOf(resend.domains.create({ name: 'rotated.example.com' }))
    const readKeys = async () =>
      (await dataOf(resend.domains.get(id))).records.flatMap(({ record, name, status }) =>
        record === 'DKIM' ? [[name.replace('._domainkey.rotated', ''), status]] : [],
      )
    const [[present]] = (await readKeys()) as [[string]]
    const { nextDkim } = await startDkimRotation(service.app, service.actor, id)
    expect(await readKeys()).toEqual([
      [present, 'not_started'],
      [nextDkim?.selector ?? '', 'not_started'],
    ])
    // As the check that finds the record leaves it.
    service.app.db.run('UPDATE dkim_keys SET retired_at = ?', [service.app.clock.now() - days(6)])
    expect(await readKeys()).toEqual([
      [present, 'not_started'],
      [nextDkim?.selector ?? '', 'verified'],
    ])
    service.app.db.run('UPDATE dkim_keys SET retired_at = ?', [service.app.clock.now() - days(8)])
    expect(await readKeys()).toEqual([[present, 'not_started']])
    await dataOf(resend.domains.remove(id))
  })

  test('are listed, newest first, with pages in both directions', async () => {
    const ids: string[] = []
    for (const name of ['a.test', 'b.test', 'c.test']) ids.unshift((await dataOf(other.domains.create({ name }))).id)
    const list = async (options: object) => {
      const { has_more, data } = await dataOf(other.domains.list(options as never))
      return [has_more, data.map(({ id }) => ids.indexOf(id))]
    }
    expect(await list({})).toEqual([false, [0, 1, 2]])
    expect(await list({ limit: 1 })).toEqual([true, [0]])
    expect(await list({ limit: 1, after: ids[0] })).toEqual([true, [1]])
    expect(await list({ limit: 1, before: ids[2] })).toEqual([true, [1]])
    expect(await list({ limit: 2, before: ids[2] })).toEqual([false, [0, 1]])
  })

  test.each([
    ['pending', { verifiedAt: null, checkedAt: 1, lostAt: null }],
    ['verified', { verifiedAt: 1, checkedAt: 1, lostAt: null }],
    ['partially_failed', { verifiedAt: 1, checkedAt: 1, lostAt: 1 }],
    ['failed', { verifiedAt: null, checkedAt: 1, lostAt: 1 }],
  ] as const)('have the status %s', async (status, { verifiedAt, checkedAt, lostAt }) => {
    const { domain } = await createDomain(service.app, service.actor, `${status.replace('_', '-')}.test`)
    service.app.db.run('UPDATE domains SET verified_at = ?, checked_at = ?, records_lost_at = ? WHERE id = ?', [
      verifiedAt,
      checkedAt,
      lostAt,
      domain.id,
    ])
    const { data } = await dataOf(resend.domains.list({ limit: 1 }))
    expect(data[0]?.status).toBe(status)
  })

  test('are a 201; what is wrong creates nothing', async () => {
    expect(await statusOf('/domains', { name: 'status.test' })).toBe(201)
    const cases: [object, number, string, RegExp][] = [
      [{}, 422, 'missing_required_field', /`name`/],
      [{ name: 5 }, 422, 'validation_error', /name must be a string/],
      [{ name: 'com' }, 422, 'validation_error', /com/],
      [{ name: 'status.test' }, 409, 'validation_error', /already registered/],
      [{ name: 'x.test', capabilities: { receiving: 'on' } }, 422, 'validation_error', /one of enabled, disabled/],
      [{ name: 'x.test', capabilities: [] }, 422, 'validation_error', /an object/],
      [{ name: 'x.test', trackingSubdomain: 5 }, 422, 'validation_error', /tracking_subdomain/],
    ]
    const before = service.stored()
    for (const [payload, statusCode, name, message] of cases)
      expect(await errorOf(resend.domains.create(payload as never))).toEqual({
        statusCode,
        name,
        message: expect.stringMatching(message),
      })
    expect(service.stored()).toEqual(before)
    const wrong = resend.domains.create({ name: 'x.test', trackingSubdomain: 'a b' })
    expect(await errorOf(wrong)).toMatchObject({ statusCode: 422 })
    expect((await dataOf(resend.domains.create({ name: 'x.test' }))).name).toBe('x.test')
  })
})

describe('API keys', () => {
  test('are created with the rights of their permission, listed and deleted', async () => {
    const full = await dataOf(resend.apiKeys.create({ name: 'Full' }))
    const { id, token } = await dataOf(resend.apiKeys.create({ name: 'Sends', permission: 'sending_access' }))
    const sends = createResend({ url: service.url, key: token })
    expect(await errorOf(sends.domains.list())).toMatchObject({ name: 'restricted_api_key' })
    expect((await dataOf(createResend({ url: service.url, key: full.token }).domains.list())).object).toBe('list')
    const { data } = await dataOf(resend.apiKeys.list({ limit: 2 }))
    expect(data).toEqual([
      { id, name: 'Sends', created_at: TIME, last_used_at: null },
      { id: full.id, name: 'Full', created_at: TIME, last_used_at: null },
    ])
    const rest = await dataOf(resend.apiKeys.list({ after: id, limit: 1 }))
    expect([rest.has_more, rest.data[0]?.id]).toEqual([true, full.id])
    expect((await dataOf(resend.apiKeys.list({ before: full.id, limit: 5 }))).data.map((key) => key.id)).toEqual([id])
    expect(await errorOf(other.apiKeys.remove(id))).toEqual(NOT_FOUND)
    expect(await dataOf(resend.apiKeys.update(id, { name: 'Renamed' }))).toEqual({ object: 'api_key', id })
    expect((await dataOf(resend.apiKeys.list({ limit: 1 }))).data[0]?.name).toBe('Renamed')
    expect(await dataOf(resend.apiKeys.remove(id))).toEqual({ object: 'api_key', id, deleted: true })
    expect(await errorOf(sends.emails.send({} as never))).toMatchObject({ statusCode: 403, name: 'invalid_api_key' })
    expect(await statusOf('/api-keys', { name: 'Status' })).toBe(201)
  })

  test('of one domain send from no other', async () => {
    const { id: domain_id } = await dataOf(resend.domains.create({ name: 'only.test' }))
    const { token } = await dataOf(resend.apiKeys.create({ name: 'One', permission: 'sending_access', domain_id }))
    const client = createResend({ url: service.url, key: token })
    const send = (from: string) => client.emails.send({ from, to: 'bob@receiver.test', subject: 'Hi', text: 'Hi' })
    expect((await dataOf(send('a@only.test'))).id).toMatch(UUID)
    expect(await errorOf(send('a@sender.test'))).toMatchObject({
      statusCode: 403,
      message: expect.stringContaining('sender.test'),
    })
  })

  test.each([
    [{}, /`name`/],
    [{ name: 'x', permission: 'all' }, /one of full_access, sending_access/],
    [{ name: 'x', domain_id: UNKNOWN }, /domain of this account/],
  ])('%j is refused', async (payload, message) => {
    expect(await errorOf(resend.apiKeys.create(payload as never))).toMatchObject({
      statusCode: 422,
      message: expect.stringMatching(message),
    })
  })
})

describe('suppressions', () => {
  test('are added, found by id and by address in any spelling, and removed', async () => {
    const { id, object } = await dataOf(resend.suppressions.add({ email: 'Bob@Receiver.test' }))
    const expected = {
      object: 'suppression',
      id,
      email: 'bob@receiver.test',
      origin: 'manual',
      source_id: null,
      created_at: TIME,
    }
    expect([object, await dataOf(resend.suppressions.get(id))]).toEqual(['suppression', expected] as never)
    expect(await dataOf(resend.suppressions.get('BOB@receiver.test'))).toEqual(expected as never)
    expect(await dataOf(resend.suppressions.add({ email: 'bob@receiver.test' }))).toEqual({ object, id })
    for (const name of [id, 'bob@receiver.test', UNKNOWN, 'x'])
      expect(await errorOf(other.suppressions.remove(name))).toEqual(NOT_FOUND)
    expect(await dataOf(resend.suppressions.remove('bob@receiver.TEST'))).toEqual({ object, id, deleted: true })
    expect(await errorOf(resend.suppressions.get(id))).toEqual(NOT_FOUND)
    const again = await dataOf(resend.suppressions.add({ email: 'bob@receiver.test' }))
    expect(await dataOf(resend.suppressions.remove(again.id))).toEqual({ object, id: again.id, deleted: true })
    expect(await errorOf(resend.suppressions.add({ email: 'nobody' }))).toMatchObject({ name: 'validation_error' })
    expect(await errorOf(resend.suppressions.add({} as never))).toMatchObject({ name: 'missing_required_field' })
  })

  test('are added and removed in batches, and listed by origin with pages in both directions', async () => {
    const emails = ['a@x.test', 'b@x.test', 'c@x.test']
    const { data } = await dataOf(other.suppressions.batch.add({ emails }))
    const ids = data.map(({ id }) => id).reverse()
    service.app.db.run("UPDATE suppressions SET reason = 'hard_bounce' WHERE address = 'b@x.test'")
    const list = async (options: object) => {
      const page = await dataOf(other.suppressions.list(options as never))
      return [page.has_more, page.data.map(({ id, origin }) => [ids.indexOf(id), origin])]
    }
    expect(await list({})).toEqual([
      false,
      [
        [0, 'manual'],
        [1, 'bounce'],
        [2, 'manual'],
      ],
    ])
    expect(await list({ limit: 1, after: ids[0] })).toEqual([true, [[1, 'bounce']]])
    expect(await list({ limit: 1, before: ids[2] })).toEqual([true, [[1, 'bounce']]])
    expect(await list({ origin: 'manual', before: ids[2] })).toEqual([false, [[0, 'manual']]])
    expect(await errorOf(other.suppressions.list({ origin: 'x' as never }))).toMatchObject({ statusCode: 422 })
    expect(await dataOf(other.suppressions.batch.remove({ emails: ['A@x.test', 'none@x.test'] }))).toEqual({
      data: [
        { object: 'suppression', id: ids[2] ?? '', deleted: true },
        { object: 'suppression', id: 'none@x.test', deleted: false },
      ],
    })
    const rest = ids.slice(0, 2)
    expect(await dataOf(other.suppressions.batch.remove({ ids: rest }))).toMatchObject({
      data: rest.map((id) => ({ id, deleted: true })),
    })
    expect(await list({})).toEqual([false, []])
  })

  test.each([
    [{ emails: [] }, /`emails`/],
    [{ emails: 'a@x.test' }, /an array/],
    [{ emails: Array.from({ length: 101 }, (_, n) => `${n}@x.test`) }, /at most 100/],
    [{ emails: ['a@x.test', 'nobody'] }, /emails\.1: /],
  ])('%# a wrong batch adds nothing', async (payload, message) => {
    const before = service.stored()['suppressions']
    expect(await errorOf(resend.suppressions.batch.add(payload as never))).toMatchObject({
      statusCode: 422,
      message: expect.stringMatching(message),
    })
    expect(service.stored()['suppressions']).toBe(before)
  })
})

describe('webhooks', () => {
  test('are created, read without their secret, changed and deleted', async () => {
    const endpoint = 'https://hooks.example.com/resend'
    const { id, ...created } = await dataOf(
      resend.webhooks.create({ endpoint, events: ['email.delivered', 'email.bounced', 'contact.created'] }),
    )
    expect(created).toEqual({ object: 'webhook', signing_secret: expect.stringMatching(/^whsec_/) })
    expect((await service.api('GET', `/v1/webhooks/${id}`)).body).toMatchObject({ data: { format: 'resend' } })
    const read = { id, endpoint, created_at: TIME, status: 'enabled', events: ['email.delivered', 'email.bounced'] }
    expect(await dataOf(resend.webhooks.get(id))).toEqual({ object: 'webhook', ...read, signing_secret: '' } as never)
    expect((await dataOf(resend.webhooks.list())).data).toEqual([read] as never)
    expect(await dataOf(resend.webhooks.update(id, { status: 'disabled' }))).toEqual({ object: 'webhook', id })
    expect(await dataOf(resend.webhooks.update(id, { events: ['email.received'] }))).toEqual({ object: 'webhook', id })
    expect(await dataOf(resend.webhooks.get(id))).toMatchObject({
      endpoint,
      status: 'disabled',
      events: ['email.received'],
    })
    expect(await errorOf(other.webhooks.get(id))).toEqual(NOT_FOUND)
    expect(await dataOf(resend.webhooks.remove(id))).toEqual({ object: 'webhook', id, deleted: true })
    expect(await errorOf(resend.webhooks.get(id))).toEqual(NOT_FOUND)
    expect(await statusOf('/webhooks', { endpoint, events: ['email.sent'] })).toBe(201)
  })

  test.each([
    [{ events: ['email.sent'] }, 'missing_required_field'],
    [{ endpoint: 'https://x.test' }, 'missing_required_field'],
    [{ endpoint: 'http://x.test', events: ['email.sent'] }, 'validation_error'],
    [{ endpoint: 'https://x.test', events: ['contact.created'] }, 'validation_error'],
    [{ endpoint: 'https://x.test', events: [5] }, 'validation_error'],
  ])('%j is refused', async (payload, name) => {
    expect(await errorOf(resend.webhooks.create(payload as never))).toMatchObject({ statusCode: 422, name })
  })
})

describe('received emails', () => {
  let domainId = 0
  beforeAll(async () => {
    domainId = (await createDomain(service.app, service.actor, 'inbound.test')).domain.id
  })
  const store = (given: Parameters<typeof storeTestInbound>[2]) =>
    storeTestInbound(service.app, { accountId: service.actor.accountId, domainId }, given)

  test('are listed and read with headers, attachments and the raw message', async () => {
    const content = randomBytes(1000)
    const id = await store({
      text: 'Hello.',
      html: '<p>Hello.</p>',
      rcptTo: ['support@inbound.test'],
      headers: [
        ['Subject', 'Hello'],
        ['Reply-To', 'Ada <ada@reply.test>'],
        ['Received', 'a'],
        ['Received', 'b'],
      ],
      attachments: [{ filename: 'a.pdf', contentType: 'application/pdf', content }],
    })
    const listed = {
      id,
      to: ['Support <support@inbound.test>'],
      from: 'Ada <ada@customer.test>',
      created_at: TIME,
      subject: 'Hello',
      bcc: [],
      cc: [],
      reply_to: null,
      received_for: ['support@inbound.test'],
      message_id: '<1@customer.test>',
      attachments: [
        {
          id: '0',
          filename: 'a.pdf',
          size: 1000,
          content_type: 'application/pdf',
          content_id: null,
          content_disposition: 'attachment',
        },
      ],
    }
    const list = await dataOf(resend.emails.receiving.list({ limit: 1 }) as never)
    expect(list).toEqual({ object: 'list', has_more: expect.any(Boolean), data: [listed] } as never)
    const email = await dataOf(resend.emails.receiving.get(id))
    expect(email).toEqual({
      object: 'email',
      ...listed,
      reply_to: ['Ada <ada@reply.test>'],
      html: '<p>Hello.</p>',
      text: 'Hello.',
      headers: { subject: 'Hello', 'reply-to': 'Ada <ada@reply.test>', received: 'a, b' },
      raw: { download_url: expect.stringContaining('/resend/files?token='), expires_at: TIME },
    } as never)
    const download = async (url = '') => (await fetch(url)).bytes()
    expect(Buffer.from(await download(email.raw?.download_url)).toString()).toContain('From: Ada <ada@customer.test>')
    const { data } = await dataOf(resend.emails.receiving.attachments.list({ emailId: id }))
    const file = await dataOf(resend.emails.receiving.attachments.get({ emailId: id, id: '0' }))
    expect(file).toEqual({ object: 'attachment', ...data[0] } as never)
    expect(Buffer.from(await download(file.download_url)).equals(content)).toBe(true)
    for (const call of [
      other.emails.receiving.get(id),
      other.emails.receiving.attachments.list({ emailId: id }),
      resend.emails.receiving.attachments.get({ emailId: id, id: '1' }),
      resend.emails.receiving.get(UNKNOWN),
    ])
      expect(await errorOf(call as never)).toEqual(NOT_FOUND)
  })

  test('have their pictures in the HTML unless the references are wanted', async () => {
    const html = '<img src="cid:logo@x"><img src="cid:none@x"><img src="cid:large@x">'
    const image = { contentType: 'image/png', filename: 'a.png' }
    const id = await store({
      html,
      attachments: [
        { ...image, contentId: 'logo@x', content: Buffer.from('logo') },
        { ...image, contentId: 'large@x', content: Buffer.alloc(4 * MiB) },
      ],
    })
    const read = async (options?: { html_format: 'cid' | 'data_uri' }) =>
      (await dataOf(resend.emails.receiving.get(id, options))).html
    const embedded = html.replace('cid:logo@x', 'data:image/png;base64,bG9nbw==')
    expect([await read(), await read({ html_format: 'data_uri' }), await read({ html_format: 'cid' })]).toEqual([
      embedded,
      embedded,
      html,
    ])
    expect(await errorOf(resend.emails.receiving.get(id, { html_format: 'x' as never }))).toEqual({
      statusCode: 422,
      name: 'validation_error',
      message: expect.stringContaining('data_uri or cid'),
    })
  })

  test('are forwarded by the client, as new mail and as a file', async () => {
    const raw = [
      'From: ada@customer.test',
      'Subject: Hello',
      'Content-Type: multipart/mixed; boundary=b',
      '',
      '--b',
      'Content-Type: text/plain; charset=utf-8',
      '',
      'Grüße',
      '--b',
      'Content-Type: application/pdf',
      'Content-Disposition: attachment; filename=a.pdf',
      'Content-Transfer-Encoding: base64',
      '',
      'SGVsbG8=',
      '--b--',
      '',
    ]
    const emailId = await store({ raw: raw.join('\r\n') })
    const to = 'bob@receiver.test'
    const from = 'ada@sender.test'
    const { id } = await dataOf(resend.emails.receiving.forward({ emailId, to, from }))
    expect(await service.detail(id)).toMatchObject({
      subject: 'Hello',
      text_body: expect.stringContaining('Grüße'),
      attachments: [{ filename: 'a.pdf', content_type: 'application/pdf', size: 5 }],
    })
    const wrapped = { emailId, to, from, passthrough: false as const, text: 'See below.' }
    expect(await service.detail((await dataOf(resend.emails.receiving.forward(wrapped))).id)).toMatchObject({
      subject: 'Fwd: Hello',
      attachments: [{ filename: 'forwarded_message.eml', content_type: 'message/rfc822' }],
    })
  })

  test('have pages in both directions, and no raw message after its retention', async () => {
    const ids: string[] = []
    for (let n = 0; n < 3; n++) ids.unshift(await store({ receivedAt: service.clock.now() - days(31) }))
    const list = async (options: object) => {
      const { data } = (await dataOf(resend.emails.receiving.list(options as never) as never)) as {
        data: { id: string }[]
      }
      return data.map(({ id }) => ids.indexOf(id))
    }
    expect(await list({ limit: 2 })).toEqual([0, 1])
    expect(await list({ limit: 1, after: ids[0] })).toEqual([1])
    expect(await list({ limit: 2, before: ids[2] })).toEqual([0, 1])
    expect((await dataOf(resend.emails.receiving.get(ids[0] ?? ''))).raw).toBeNull()
  })
})

test('every route needs its own scope', async () => {
  const key = await service.newKey(['emails:send'])
  const routes = {
    'emails:read': ['GET /emails', 'GET /emails/ID', 'GET /emails/ID/attachments', 'GET /topics'],
    'inbound:read': ['GET /emails/receiving', 'GET /emails/receiving/ID'],
    'domains:read': ['GET /domains'],
    'domains:write': ['POST /domains', 'PATCH /domains/ID', 'DELETE /domains/ID', 'POST /domains/ID/verify'],
    'account:admin': ['GET /api-keys', 'POST /api-keys', 'DELETE /api-keys/ID'],
    'account:read': ['GET /logs'],
    'webhooks:read': ['GET /webhooks'],
    'webhooks:write': ['POST /webhooks', 'PATCH /webhooks/ID', 'DELETE /webhooks/ID'],
    'suppressions:read': ['GET /suppressions'],
    'suppressions:write': ['POST /suppressions', 'POST /suppressions/batch/add', 'DELETE /suppressions/ID'],
    'contacts:read': ['GET /contacts', 'GET /broadcasts', 'POST /broadcasts/ID/send'],
    'contacts:write': ['POST /segments', 'POST /contacts', 'POST /topics'],
    'templates:read': ['GET /templates'],
  }
  for (const [scope, needing] of Object.entries(routes))
    for (const route of needing) {
      const [method = '', path = ''] = route.split(' ')
      const response = await fetch(`${service.url}/resend${path.replace('ID', UNKNOWN)}`, {
        method,
        headers: { authorization: `Bearer ${key}` },
      })
      const body = await response.json()
      expect([route, response.status, at(body, 'name')]).toEqual([route, 401, 'restricted_api_key'])
      expect(at(body, 'message')).toContain(scope)
    }
})
