import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startBackground } from '#app/schedules.ts'
import { days, hours } from '#platform/units.ts'
import { type ApiOptions, type ApiResponse, at } from '#test/support/api.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import {
  addContacts,
  createContacts,
  getOperation,
  newList,
  type OperationState,
  readBroadcastEmails,
  waitForOperation,
} from '#test/support/broadcasts.ts'
import { createEmailApi, EMAIL, type EmailApi, expectError, NOW, shareEmailApi, UUID } from '#test/support/email-api.ts'

type Json = Record<string, unknown>

const service = shareEmailApi(createEmailApi)

let created = 0
const createList = (target: EmailApi = service, key?: string) => newList(target, `List ${++created}`, key)
const NEWS = { from_address: 'Ada <ada@sender.test>', subject: 'News', text_body: 'Hello.' }

const post = (
  listId: string,
  request: Json = {},
  options?: ApiOptions,
  target: EmailApi = service,
): Promise<ApiResponse> =>
  target.api('POST', '/v1/emails/broadcast', { contact_list_id: listId, ...NEWS, ...request }, options)
/** Id of the operation of an accepted broadcast. */
const startBroadcast = async (listId: string, request: Json = {}, options?: ApiOptions, target: EmailApi = service) => {
  const answer = await post(listId, request, options, target)
  if (answer.status !== 202) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
  return String(at(answer.body, 'data', 'operation_id'))
}
const control = (id: string, verb: 'pause' | 'resume' | 'cancel', target: EmailApi = service) =>
  target.api('POST', `/v1/operations/${id}/${verb}`)

/** A separate service whose broadcasts run to the end: its mail is captured. */
const startService = (settings: Record<string, string> = {}) =>
  createEmailApi({ runsTasks: true, delivers: true, settings: { TASSIS_DELIVERY: 'capture', ...settings } })

describe('POST /v1/emails/broadcast', () => {
  // Proves: operation-5, broadcast-1, broadcast-9
  test('takes a snapshot of active contacts that are not suppressed, and responds with an operation', async () => {
    const id = await createList()
    await addContacts(service.app, id, [
      ...createContacts(3),
      { email: 'pending@receiver.test', status: 'pending' },
      { email: 'suppressed@receiver.test' },
      { email: 'left@receiver.test' },
    ])
    await service.api('POST', '/v1/suppressions', { email_address: 'suppressed@receiver.test' })
    await service.api('POST', '/v1/suppressions', { email_address: 'left@receiver.test', reason: 'unsubscribe' })
    const answer = await post(id)
    expect({ status: answer.status, body: answer.body }).toEqual({
      status: 202,
      body: {
        data: {
          operation_id: expect.stringMatching(UUID),
          total_recipients: 3,
          message: 'It is being sent to 3 contacts.',
        },
      },
    })
    const operationId = at(answer.body, 'data', 'operation_id')
    const now = new Date(NOW).toISOString()
    const operation = {
      id: operationId,
      account_id: service.actor.accountUuid,
      operation_type: 'broadcast',
      status: 'processing',
      total_items: 3,
      completed_items: 0,
      failed_items: 0,
      error_summary: null,
      metadata: {
        contact_list_id: id,
        subject: 'News',
        sandbox: false,
        state: 'sending',
        begins_at: now,
        handed_over: 0,
        left_out: 0,
      },
      created_at: now,
      updated_at: now,
      completed_at: null,
      expires_at: new Date(NOW + days(90)).toISOString(),
    }
    const emails = {
      queued: 0,
      scheduled: 0,
      processing: 0,
      sent: 0,
      bounced: 0,
      failed: 0,
      rejected: 0,
      cancelled: 0,
      uncertain: 0,
    }
    expect((await service.api('GET', '/v1/operations')).body).toMatchObject({ data: [operation] })
    expect((await service.api('GET', `/v1/operations/${operationId}`)).body).toEqual({
      data: { ...operation, metadata: { ...operation.metadata, emails } },
    })
  })

  test('returns a completed operation for an empty list', async () => {
    const answer = await post(await createList())
    expect(at(answer.body, 'data')).toMatchObject({
      total_recipients: 0,
      message: 'No contact on the list can receive mail, so nothing is sent.',
    })
    expect(await getOperation(service, String(at(answer.body, 'data', 'operation_id')))).toMatchObject({
      status: 'completed',
      total_items: 0,
      metadata: { state: 'done' },
    })
  })

  test('creates the stream `broadcast` once, and uses another one by its slug', async () => {
    const id = await createList()
    await addContacts(service.app, id, createContacts(1))
    await service.api('POST', '/v1/streams', { slug: 'marketing', name: 'Marketing' })
    await Promise.all([startBroadcast(id), startBroadcast(id), startBroadcast(id, { stream: 'marketing' })])
    const streams = at((await service.api('GET', '/v1/streams')).body, 'data') as { slug: string }[]
    expect(streams.map(({ slug }) => slug).sort()).toEqual(['broadcast', 'marketing', 'transactional'])
    const used = service.app.db
      .query<{ slug: string }, []>('SELECT slug FROM broadcasts JOIN streams ON streams.id = stream_id ORDER BY slug')
      .all()
    expect(used.map(({ slug }) => slug)).toEqual(['broadcast', 'broadcast', 'marketing'])
  })

  const refused: [string, Json, number, string, ...string[]][] = [
    ['an unknown list id', { contact_list_id: '01234567-89ab-7def-8123-456789abcdef' }, 404, 'contact_list_not_found'],
    ['a sender that is no address', { from_address: 'Ada' }, 422, 'invalid_address', 'from_address'],
    [
      'a domain that the account does not have',
      { from_address: 'ada@others.test' },
      422,
      'domain_not_found',
      'from_address',
    ],
    ['no subject', { subject: '' }, 422, 'validation_failed', 'subject'],
    ['a subject of white space', { subject: ' \t' }, 422, 'validation_failed', 'subject'],
    ['a subject of two lines', { subject: 'Hello\r\nBcc: eve@evil.test' }, 422, 'validation_failed', 'subject'],
    ['no body', { text_body: null }, 422, 'validation_failed', 'text_body'],
    ['a locale without a template', { locale: 'de' }, 422, 'validation_failed', 'locale'],
    ['a body that is too large', { html_body: 'x'.repeat(1024 * 1024 + 1) }, 422, 'validation_failed', 'html_body'],
    ['a syntax error', { html_body: '{% if %}' }, 422, 'template_error', 'html_body'],
    ['an unknown template', { template_alias: 'nothing' }, 422, 'template_not_found', 'template_alias'],
    [
      'too much data, in octets',
      { template_data: { x: 'ü'.repeat(33_000) } },
      422,
      'validation_failed',
      'template_data',
    ],
    ['a time that is past', { send_at: '2020-01-01T00:00:00Z' }, 422, 'invalid_send_at', 'send_at'],
    ['an unknown stream', { stream: 'nothing' }, 422, 'stream_not_found', 'stream'],
  ]
  // Proves: send-18
  test.each(refused)('rejects %s and stores nothing', async (_, request, status, code, ...fields) => {
    const id = await createList()
    await addContacts(service.app, id, createContacts(1))
    const before = service.stored()
    expectError(await post(id, request), status, code, ...fields)
    expect(service.stored()).toEqual(before)
  })
})

describe('the parts of a broadcast', () => {
  let own: EmailApi
  beforeAll(async () => {
    own = await startService()
  })
  afterAll(() => own[Symbol.asyncDispose]())

  test('are those of the template at the start, except provided ones', async () => {
    const { api, app } = own
    const template = {
      alias: 'news',
      name: 'News',
      subject: 'For\n{{ contact.name }}',
      html_body: '<p>{{ contact.name }}, {{ season }}, {{ list.name }}</p>',
      text_body: 'From the template',
    }
    const { body } = await api('POST', '/v1/templates', template)
    const id = await createList(own)
    await addContacts(app, id, [{ email: 'ben@receiver.test', metadata: { name: 'Ben & Co' } }])
    const operation = await startBroadcast(
      id,
      {
        subject: undefined,
        text_body: 'Hello {{ contact.name }}',
        template_alias: 'news',
        locale: 'sv-FI',
        template_data: { season: 'spring' },
        reply_to: 'answers@sender.test',
        headers: { 'X-Kind': 'news' },
        tags: ['spring'],
      },
      {},
      own,
    )
    // Later changes do not affect it.
    const templateId = String(at(body, 'data', 'id'))
    await api('PUT', `/v1/templates/${templateId}`, { html_body: 'changed' })
    await api('DELETE', `/v1/templates/${templateId}`)
    await waitForOperation(own, operation, 'done')
    const row = at((await api('GET', '/v1/emails')).body, 'data', 0)
    expect(await own.detail(at(row, 'id'))).toMatchObject({
      to_address: 'ben@receiver.test',
      from_address: 'Ada <ada@sender.test>',
      subject: 'For Ben & Co',
      html_body: `<p>Ben &amp; Co, spring, List ${created}</p>`,
      text_body: 'Hello Ben & Co',
      template_id: templateId,
      operation_id: operation,
      reply_to: 'answers@sender.test',
      headers: { 'X-Kind': 'news' },
      tags: ['spring'],
      suppress_list_management_header: false,
    })
  })

  test('of a template without variables may have a subject of two lines; it becomes one, and its text joins own HTML', async () => {
    await own.api('POST', '/v1/templates', { alias: 'plain', name: 'x', subject: ' Two\r\nlines ', text_body: 'x' })
    const id = await createList(own)
    await addContacts(own.app, id, createContacts(1))
    const request = { subject: null, html_body: '<p>Ours</p>', text_body: null, template_alias: 'plain' }
    await waitForOperation(own, await startBroadcast(id, request, {}, own), 'done')
    const row = at((await own.api('GET', '/v1/emails')).body, 'data', 0, 'id')
    expect(await own.detail(row)).toMatchObject({ subject: 'Two lines', html_body: '<p>Ours</p>', text_body: 'x' })
  })

  test('use the data of each contact at the time of the snapshot', async () => {
    const { clock, api, app } = own
    const id = await createList(own)
    await addContacts(app, id, createContacts(2))
    const later = new Date(clock.now() + hours(1)).toISOString()
    const operation = await startBroadcast(id, { subject: 'Number {{ contact.number }}', send_at: later }, {}, own)
    const path = `/v1/contact-lists/${id}/contacts/contact-1@receiver.test`
    expect((await api('PATCH', path, { metadata: { number: 'one' } })).status).toBe(200)
    await addContacts(app, id, [{ email: 'late@receiver.test', metadata: { number: 3 } }])
    clock.advance(hours(1))
    await waitForOperation(own, operation, 'done')
    expect(
      readBroadcastEmails(app)
        .slice(-2)
        .map(({ address, subject }) => [address, subject]),
    ).toEqual([
      ['contact-1@receiver.test', 'Number 1'],
      ['contact-2@receiver.test', 'Number 2'],
    ])
  })
})

describe('a broadcast with send_at', () => {
  test('waits until that time, across restarts', async () => {
    await using own = await createEmailApi()
    const id = await createList(own)
    await addContacts(own.app, id, createContacts(2))
    const later = new Date(NOW + hours(3)).toISOString()
    const operation = await startBroadcast(id, { send_at: later }, {}, own)
    expect(await getOperation(own, operation)).toMatchObject({
      status: 'pending',
      metadata: { state: 'waiting', begins_at: later },
    })
    own.clock.advance(hours(3) - 1)
    const first = startBackground(own.app)
    await first.stop()
    expect(await getOperation(own, operation)).toMatchObject({ metadata: { state: 'waiting', handed_over: 0 } })
    const second = startBackground(own.app)
    own.clock.advance(1)
    await eventually(() => readBroadcastEmails(own.app).length === 2)
    await second.stop()
  })

  // Proves: broadcast-7
  test('skips contacts who unsubscribed, were suppressed or were removed before that time, and reports their number', async () => {
    await using own = await startService()
    const { api, app, clock } = own
    const id = await createList(own)
    await addContacts(app, id, createContacts(4))
    const operation = await startBroadcast(id, { send_at: new Date(NOW + hours(1)).toISOString() }, {}, own)
    await api('POST', '/v1/suppressions', { email_address: 'contact-1@receiver.test' })
    await api('POST', '/v1/suppressions', { email_address: 'contact-2@receiver.test', reason: 'unsubscribe' })
    expect((await api('DELETE', `/v1/contact-lists/${id}/contacts/contact-3@receiver.test`)).status).toBe(204)
    clock.advance(hours(1))
    const over = await waitForOperation(own, operation, 'done')
    expect(over).toMatchObject({
      status: 'completed',
      total_items: 4,
      completed_items: 1,
      failed_items: 3,
      error_summary: { message: expect.stringContaining('3 of 4 contacts were skipped') },
    })
    expect(readBroadcastEmails(app).map(({ address }) => address)).toEqual(['contact-4@receiver.test'])
  })

  test('is sent to nobody when its list is deleted before that time', async () => {
    await using own = await startService()
    const id = await createList(own)
    await addContacts(own.app, id, createContacts(2))
    const operation = await startBroadcast(id, { send_at: new Date(NOW + hours(1)).toISOString() }, {}, own)
    expect((await own.api('DELETE', `/v1/contact-lists/${id}`)).status).toBe(204)
    own.clock.advance(hours(1))
    const over = await waitForOperation(own, operation, 'done')
    expect([over.completed_items, over.failed_items, readBroadcastEmails(own.app)]).toEqual([0, 2, []])
  })
})

describe('the header Idempotency-Key', () => {
  // Proves: idem-11
  test('returns the first response again, even after the list is deleted, and a 409 for another body', async () => {
    const id = await createList()
    await addContacts(service.app, id, createContacts(2))
    const options = { headers: { 'Idempotency-Key': 'spring news' } }
    const first = await post(id, {}, options)
    const before = service.stored()
    expect((await post(id, {}, options)).body).toEqual(first.body)
    expectError(await post(id, { subject: 'Other' }, options), 409, 'idempotency_conflict')
    await service.api('DELETE', `/v1/contact-lists/${id}`)
    const again = await post(id, {}, options)
    expect([again.status, again.body]).toEqual([202, first.body])
    expect({ ...service.stored(), audit_logs: 0 }).toEqual({ ...before, audit_logs: 0 })
  })

  // Proves: idem-11
  test('creates one broadcast from five concurrent requests', async () => {
    const id = await createList()
    await addContacts(service.app, id, createContacts(50))
    const before = service.stored()
    const options = { headers: { 'Idempotency-Key': 'five at once' } }
    const answers = await Promise.all(Array.from({ length: 5 }, () => post(id, {}, options)))
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202, 202, 202])
    expect(new Set(answers.map(({ body }) => at(body, 'data', 'operation_id'))).size).toBe(1)
    const more = (table: string) => (service.stored()[table] ?? 0) - (before[table] ?? 0)
    // The snapshots of the others are removed after their responses.
    await eventually(() => more('broadcasts') === 1)
    expect([more('operations'), more('broadcast_recipients')]).toEqual([1, 50])
  })
})

describe('the quota', () => {
  const limited = async (quota: number) => {
    const own = await startService()
    const actor = await createTestAccount(own.app, 'free')
    own.app.db.run('UPDATE accounts SET monthly_quota = ? WHERE id = ?', [quota, actor.accountId])
    await own.addDomain(actor, 'limited.test')
    const key = await own.newKey([], actor)
    return { own, actor, key, request: { from_address: 'ada@limited.test' } }
  }

  test('counts the recipients of the snapshot; a larger list is a 429 that stores nothing', async () => {
    const { own, actor, key, request } = await limited(5)
    await using _ = own
    const [small, large] = [await createList(own, key), await createList(own, key)]
    await addContacts(own.app, small, createContacts(3))
    await addContacts(own.app, large, createContacts(3))
    const later = new Date(NOW + hours(1)).toISOString()
    await startBroadcast(small, { ...request, send_at: later }, { key }, own)
    const before = own.stored()
    const answer = await post(large, request, { key }, own)
    expect([answer.status, at(answer.body, 'code')]).toEqual([429, 'quota_exceeded'])
    // The source of its body stays in the content store, as for any rejected send.
    expect({ ...own.stored(), contentParts: 0 }).toEqual({ ...before, contentParts: 0 })
    expect(own.used(actor)).toBe(3)
  })

  test('is refunded for skipped recipients and for cancelled emails', async () => {
    const { own, actor, key, request } = await limited(5)
    await using _ = own
    const id = await createList(own, key)
    await addContacts(own.app, id, createContacts(5))
    const later = new Date(NOW + hours(1)).toISOString()
    const first = await startBroadcast(id, { ...request, send_at: later }, { key }, own)
    expect(own.used(actor)).toBe(5)
    expect((await own.api('POST', `/v1/operations/${first}/cancel`, undefined, { key })).status).toBe(200)
    await eventually(() => own.used(actor) === 0)
    await startBroadcast(id, { ...request, send_at: later }, { key }, own)
    await own.api('POST', '/v1/suppressions', { email_address: 'contact-1@receiver.test' }, { key })
    own.clock.advance(hours(1))
    await eventually(() => readBroadcastEmails(own.app).length === 4)
    expect(own.used(actor)).toBe(4)
  })

  test('of requests per second counts a broadcast as one', async () => {
    await using own = await createEmailApi({ settings: { TASSIS_SEND_BURST: '1', TASSIS_SEND_RATE_PER_SECOND: '1' } })
    const actor = await createTestAccount(own.app, 'free')
    await own.addDomain(actor, 'limited.test')
    const key = await own.newKey([], actor)
    const id = await createList(own, key)
    await startBroadcast(id, { from_address: 'ada@limited.test' }, { key }, own)
    expectError(await own.send({ from: 'ada@limited.test' }, { key }), 429, 'rate_limited')
    expectError(await post(id, { from_address: 'ada@limited.test' }, { key }, own), 429, 'rate_limited')
  })
})

test('a paused account cannot start a broadcast', async () => {
  const id = await createList()
  service.app.db.run('UPDATE accounts SET paused_at = ?', [NOW])
  expectError(await post(id), 403, 'account_paused')
})

describe('pause, resume and cancel', () => {
  const scheduled = async (target: EmailApi, contacts = 2) => {
    const id = await createList(target)
    await addContacts(target.app, id, createContacts(contacts))
    return startBroadcast(id, { send_at: new Date(target.clock.now() + hours(1)).toISOString() }, {}, target)
  }
  const brief = ({ status, metadata, error_summary }: OperationState) => [
    status,
    metadata.state,
    error_summary?.message ?? null,
  ]

  // Proves: broadcast-5
  test('respond with the resulting operation, and do nothing when repeated', async () => {
    const id = await scheduled(service)
    const paused = ['processing', 'paused', 'Paused; emails not attempted before are not sent until it is resumed.']
    for (const [verb, expected] of [
      ['pause', paused],
      ['pause', paused],
      ['resume', ['pending', 'waiting', null]],
      ['resume', ['pending', 'waiting', null]],
      ['cancel', ['processing', 'cancelling', 'Cancelled; emails not attempted before are not sent.']],
      ['cancel', ['processing', 'cancelling', 'Cancelled; emails not attempted before are not sent.']],
    ] as const) {
      const answer = await control(id, verb)
      expect([verb, answer.status, brief(at(answer.body, 'data') as OperationState)]).toEqual([
        verb,
        200,
        [...expected],
      ])
    }
    const actions = (at((await service.api('GET', '/v1/audit-logs')).body, 'data') as { action: string }[]).slice(0, 4)
    expect(actions.map(({ action }) => action)).toEqual([
      'broadcast.cancelled',
      'broadcast.resumed',
      'broadcast.paused',
      'broadcast.created',
    ])
  })

  // Proves: broadcast-5
  test('are a 409 for a batch and an ended broadcast, and a 404 for an id of another account', async () => {
    const batch = await service.api('POST', '/v1/emails/batch', { emails: [EMAIL] })
    const over = await startBroadcast(await createList())
    for (const verb of ['pause', 'resume', 'cancel'] as const) {
      expectError(await control(String(at(batch.body, 'operation_id')), verb), 409, 'not_a_broadcast')
      expectError(await control(over, verb), 409, 'broadcast_over')
      expectError(await control('01234567-89ab-7def-8123-456789abcdef', verb), 404, 'operation_not_found')
    }
  })

  test('a paused broadcast stays paused when its time comes, and continues when it is resumed', async () => {
    await using own = await startService()
    const id = await scheduled(own)
    await control(id, 'pause', own)
    own.clock.advance(hours(2))
    // Another due broadcast passes it, so the loop has checked it.
    const otherList = await createList(own)
    await addContacts(own.app, otherList, createContacts(1))
    await waitForOperation(own, await startBroadcast(otherList, {}, {}, own), 'done')
    expect(brief(await getOperation(own, id))[1]).toBe('paused')
    await control(id, 'resume', own)
    expect(brief(await waitForOperation(own, id, 'done'))).toEqual(['completed', 'done', null])
    expect(readBroadcastEmails(own.app)).toHaveLength(3)
  })
})
