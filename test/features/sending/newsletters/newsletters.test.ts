import { describe, expect, test } from 'bun:test'
import { changeNewsletter, sendNewsletter } from '#features/sending/newsletters/newsletters.ts'
import { finishRecipient } from '#features/sending/queue/attempt-transitions.ts'
import { claimDue } from '#features/sending/queue/queue.ts'
import { hours } from '#platform/units.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import {
  addContacts,
  createContacts,
  newList,
  readBroadcastEmails,
  waitForOperation,
} from '#test/support/broadcasts.ts'
import { createEmailApi, type EmailApi, expectError, NOW, shareEmailApi, UUID } from '#test/support/email-api.ts'

type Json = Record<string, unknown>

let list: string
const service = shareEmailApi(async () => {
  const created = await createEmailApi()
  list = await newList(created, 'News')
  await addContacts(created.app, list, createContacts(2))
  return created
})

const NEWS = { subject: 'News for {{ contact.number }}', from_address: 'Ada <ada@sender.test>', text_body: 'Hello.' }
const UNKNOWN = '01234567-89ab-7def-8123-456789abcdef'

const post = (request: Json = {}, target: EmailApi = service, listId = list): Promise<ApiResponse> =>
  target.api('POST', '/v1/newsletters', { list_id: listId, ...NEWS, ...request })
/** Id of a draft. */
const createDraft = async (request: Json = {}, target: EmailApi = service, listId = list): Promise<string> => {
  const answer = await post(request, target, listId)
  if (answer.status !== 201) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
  return String(at(answer.body, 'data', 'id'))
}
const get = async (id: string, target: EmailApi = service): Promise<Json> =>
  at((await target.api('GET', `/v1/newsletters/${id}`)).body, 'data') as Json
const put = (id: string, change: Json, target: EmailApi = service) => target.api('PUT', `/v1/newsletters/${id}`, change)
const send = (id: string, body: Json = {}, target: EmailApi = service) =>
  target.api('POST', `/v1/newsletters/${id}/send`, body)
const readOperationId = (answer: ApiResponse) => String(at(answer.body, 'data', 'operation_id'))

/** A separate service whose broadcasts run, with a list of some contacts. */
async function startService(contacts = 3, runs = true): Promise<{ own: EmailApi; listId: string }> {
  const own = await createEmailApi({ runsTasks: runs, delivers: runs, settings: { TASSIS_DELIVERY: 'capture' } })
  const listId = await newList(own, 'News')
  await addContacts(own.app, listId, createContacts(contacts))
  return { own, listId }
}
/** Acts like a delivery whose receiver accepts the mail of one waiting recipient. */
const sendOne = ({ commit, eventTime, db }: EmailApi['app']): Promise<void> =>
  commit.write((tx) => {
    const { lane } = db.query<{ lane: string }, []>('SELECT lane FROM recipients LIMIT 1').get() ?? { lane: '' }
    const now = eventTime()
    const [claimed] = claimDue(tx, lane, { now, eventTime: now, limit: 1, retryAt: () => now })
    if (!claimed) throw new Error('nobody waits')
    finishRecipient(tx, { ...claimed, now }, { status: 'sent' })
  })
const inAnHour = (target: EmailApi) => new Date(target.clock.now() + hours(1)).toISOString()

describe('a draft', () => {
  // Proves: broadcast-3
  test('has every field of the record', async () => {
    const answer = await post()
    const now = new Date(NOW).toISOString()
    expect({ status: answer.status, body: answer.body }).toEqual({
      status: 201,
      body: {
        data: {
          id: expect.stringMatching(UUID),
          account_id: service.actor.accountUuid,
          list_id: list,
          ...NEWS,
          html_body: null,
          template_id: null,
          template_data: null,
          reply_to: null,
          stream: null,
          status: 'draft',
          operation_id: null,
          scheduled_at: null,
          sent_at: null,
          total_recipients: null,
          created_at: now,
          updated_at: now,
        },
      },
    })
    expect(await get(String(at(answer.body, 'data', 'id')))).toEqual(at(answer.body, 'data') as Json)
  })

  // Proves: broadcast-3
  test('keeps fields that a PUT omits, and loses those that it sets to null', async () => {
    const template = await service.api('POST', '/v1/templates', { alias: 'put', name: 'x', subject: 'x' })
    const id = await createDraft({ html_body: '<p>Hi</p>', template_data: { a: 1 }, reply_to: 'answers@sender.test' })
    const before = await get(id)
    const otherList = await newList(service, 'Other')
    const change = {
      list_id: otherList,
      subject: 'Other',
      from_address: 'eve@sender.test',
      html_body: null,
      template_id: at(template.body, 'data', 'id'),
      template_data: {},
    }
    const answer = await put(id, change)
    expect([answer.status, at(answer.body, 'data')]).toEqual([200, { ...before, ...change, template_data: null }])
    expect(await get(id)).toEqual(at(answer.body, 'data') as Json)
    expectError(await put(id, {}), 422, 'validation_failed', 'body')
  })

  const wrong: [string, Json, number, string, ...string[]][] = [
    ['an unknown list', { list_id: UNKNOWN }, 404, 'contact_list_not_found'],
    ['a sender that is no address', { from_address: 'Ada' }, 422, 'invalid_address', 'from_address'],
    ['a domain of others', { from_address: 'ada@others.test' }, 422, 'domain_not_found', 'from_address'],
    ['an unknown template', { template_id: UNKNOWN }, 422, 'template_not_found', 'template_id'],
    ['a subject of two lines', { subject: 'a\nb' }, 422, 'validation_failed', 'subject'],
    ['a subject of spaces', { subject: ' ' }, 422, 'validation_failed', 'subject'],
    ['a syntax error in the subject', { subject: '{{ x' }, 422, 'template_error', 'subject'],
    ['a syntax error in the HTML', { html_body: '{% endif %}' }, 422, 'template_error', 'html_body'],
    ['a body that is too large', { text_body: 'x'.repeat(1024 * 1024 + 1) }, 422, 'validation_failed', 'text_body'],
    ['too much data', { template_data: { x: 'x'.repeat(65_536) } }, 422, 'validation_failed', 'template_data'],
    ['an unknown stream', { stream: 'unknown' }, 422, 'stream_not_found', 'stream'],
    ['a wrong Reply-To', { reply_to: 'nobody' }, 422, 'invalid_address', 'reply_to'],
  ]
  // Proves: send-18
  test.each(wrong)('is rejected with %s, at POST and at PUT', async (_, request, status, code, ...fields) => {
    const id = await createDraft()
    const before = service.stored()
    expectError(await post(request), status, code, ...fields)
    expectError(await put(id, request), status, code, ...fields)
    expect(service.stored()).toEqual(before)
  })

  // Proves: broadcast-3
  test('is deleted permanently', async () => {
    const id = await createDraft()
    expect((await service.api('DELETE', `/v1/newsletters/${id}`)).status).toBe(204)
    expectError(await service.api('GET', `/v1/newsletters/${id}`), 404, 'newsletter_not_found')
  })
})

// Proves: broadcast-3
test('the list has limit and offset, newest first, and omits bodies of more than 64 KiB', async () => {
  const ids: string[] = []
  for (const text_body of ['first', 'x'.repeat(65_537), 'third']) ids.unshift(await createDraft({ text_body }))
  const page = async (query: string) => (await service.api('GET', `/v1/newsletters${query}`)).body
  expect(await page('?limit=2&offset=1')).toEqual({
    data: [
      { ...(await get(ids[1] ?? '')), text_body: null, truncated: true },
      { ...(await get(ids[2] ?? '')), truncated: false },
    ],
    pagination: { page: 1, per_page: 2, total: 3, total_pages: 2 },
  })
  expectError(await service.api('GET', '/v1/newsletters?limit=0'), 422, 'validation_failed', 'limit')
})

describe('sending', () => {
  // Proves: operation-5, broadcast-4
  test('responds with an operation, whose status the newsletter follows to the end', async () => {
    const { own, listId } = await startService()
    await using _ = own
    const id = await createDraft({}, own, listId)
    own.clock.advance(1000)
    const answer = await send(id, {}, own)
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
    await waitForOperation(own, readOperationId(answer), 'done')
    expect(readBroadcastEmails(own.app)).toHaveLength(3)
    const now = new Date(own.clock.now()).toISOString()
    expect(await get(id, own)).toMatchObject({
      status: 'sent',
      operation_id: readOperationId(answer),
      scheduled_at: null,
      sent_at: now,
      total_recipients: 3,
      updated_at: now,
    })
    expect(readBroadcastEmails(own.app).map(({ subject }) => subject)).toEqual([
      'News for 1',
      'News for 2',
      'News for 3',
    ])
    const operations = at((await own.api('GET', '/v1/operations')).body, 'data') as Json[]
    expect(operations.map(({ operation_type }) => operation_type)).toEqual(['newsletter_send'])
    const audited = at((await own.api('GET', '/v1/audit-logs')).body, 'data', 0)
    expect(audited).toMatchObject({
      action: 'newsletter.started',
      resource_id: id,
      metadata: { operation_id: readOperationId(answer), total_recipients: 3 },
    })
  })

  // Proves: broadcast-6
  test('with send_at schedules the newsletter until that time', async () => {
    const { own, listId } = await startService()
    await using _ = own
    const id = await createDraft({}, own, listId)
    const send_at = inAnHour(own)
    const answer = await send(id, { send_at }, own)
    expect(await get(id, own)).toMatchObject({ status: 'scheduled', scheduled_at: send_at, sent_at: null })
    own.clock.advance(hours(1))
    await waitForOperation(own, readOperationId(answer), 'done')
    expect(await get(id, own)).toMatchObject({ status: 'sent', scheduled_at: send_at, sent_at: send_at })
  })

  test('to an empty list sets the status to sent', async () => {
    const empty = await newList(service, 'Empty')
    const id = await createDraft({}, service, empty)
    expect(at((await send(id)).body, 'data', 'total_recipients')).toBe(0)
    expect(await get(id)).toMatchObject({ status: 'sent', total_recipients: 0, sent_at: expect.any(String) })
  })

  test('uses its own bodies, and takes missing ones from its template at that time', async () => {
    const { own, listId } = await startService(1)
    await using _ = own
    const template = { alias: 'news', name: 'x', subject: 'Not this', html_body: '<p>old</p>', text_body: 'Not this' }
    const templateId = at((await own.api('POST', '/v1/templates', template)).body, 'data', 'id')
    const data = { template_id: templateId, template_data: { season: 'spring' }, reply_to: 'answers@sender.test' }
    const id = await createDraft({ ...data, text_body: 'Own {{ season }}' }, own, listId)
    await own.api('PUT', `/v1/templates/${templateId}`, { html_body: '<p>{{ season }}</p>' })
    await waitForOperation(own, readOperationId(await send(id, {}, own)), 'done')
    const row = at((await own.api('GET', '/v1/emails')).body, 'data', 0, 'id')
    expect(await own.detail(row)).toMatchObject({
      subject: 'News for 1',
      html_body: '<p>spring</p>',
      text_body: 'Own spring',
      template_id: templateId,
      reply_to: 'answers@sender.test',
    })
  })

  test('is rejected without a body, or when its list, template or domain was deleted; it stays a draft', async () => {
    const gone = await newList(service, 'Gone')
    const template = { alias: 'gone', name: 'x', subject: 'x', text_body: 'x' }
    const templateId = at((await service.api('POST', '/v1/templates', template)).body, 'data', 'id')
    const domain = at((await service.api('POST', '/v1/domains', { domain: 'gone.test' })).body, 'data', 'id')
    const drafts = await Promise.all([
      createDraft({ text_body: null }),
      createDraft({}, service, gone),
      createDraft({ template_id: templateId }),
      createDraft({ from_address: 'ada@gone.test' }),
      createDraft(),
    ])
    await service.api('DELETE', `/v1/contact-lists/${gone}`)
    await service.api('DELETE', `/v1/templates/${templateId}`)
    await service.api('DELETE', `/v1/domains/${domain}`)
    const [noBody = '', noList = '', noTemplate = '', noDomain = '', fine = ''] = drafts
    expectError(await send(noBody), 422, 'validation_failed', 'text_body')
    expectError(await send(noList), 422, 'contact_list_not_found', 'list_id')
    expectError(await send(noTemplate), 422, 'template_not_found', 'template_id')
    expectError(await send(noDomain), 422, 'domain_not_found', 'from_address')
    expectError(await send(fine, { send_at: '2020-01-01T00:00:00Z' }), 422, 'invalid_send_at', 'send_at')
    for (const id of drafts) expect(await get(id)).toMatchObject({ status: 'draft', operation_id: null })
    // Still named, so that users see what was deleted.
    expect(await get(noList)).toMatchObject({ list_id: gone })
    expect(await get(noTemplate)).toMatchObject({ template_id: templateId })
  })

  // Proves: broadcast-4
  test('twice concurrently returns one 202 and one 409, without duplicates', async () => {
    const { own, listId } = await startService(50)
    await using _ = own
    const id = await createDraft({}, own, listId)
    const answers = await Promise.all([send(id, {}, own), send(id, {}, own)])
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 409])
    const refused = answers.find(({ status }) => status === 409)
    if (refused) expectError(refused, 409, 'newsletter_not_draft')
    await eventually(async () => (await get(id, own))['status'] === 'sent')
    await eventually(() => own.stored()['broadcasts'] === 1)
    expect([readBroadcastEmails(own.app).length, own.stored()['broadcasts'], own.stored()['operations']]).toEqual([
      50, 1, 1,
    ])
  })

  test('is a 409 when it was changed during the snapshot; it stays a draft with the change', async () => {
    const { own, listId } = await startService(3, false)
    await using _ = own
    const { app, actor } = own
    const id = await createDraft({}, own, listId)
    // The first call reads it and the second changes it, with a single commit before the last one of the first.
    const sending = sendNewsletter(app, actor, id, {}, () => undefined)
    const changing = changeNewsletter(app, actor, id, { subject: 'Changed' })
    const [sent] = await Promise.allSettled([sending, changing])
    expect(sent).toMatchObject({ status: 'rejected', reason: { status: 409, code: 'newsletter_changed' } })
    expect(await get(id, own)).toMatchObject({ status: 'draft', subject: 'Changed' })
    expect([own.stored()['broadcasts'], own.stored()['broadcast_recipients']]).toEqual([0, 0])
    expect((await send(id, {}, own)).status).toBe(202)
  })
})

describe('a newsletter that is scheduled or sent', () => {
  // Proves: broadcast-6
  test('cannot be changed or sent again; it can be deleted once it is sent, and its emails stay', async () => {
    const { own, listId } = await startService()
    await using _ = own
    const scheduled = await createDraft({}, own, listId)
    const operation = readOperationId(await send(scheduled, { send_at: inAnHour(own) }, own))
    expectError(await put(scheduled, { subject: 'x' }, own), 409, 'newsletter_not_draft')
    expectError(await send(scheduled, {}, own), 409, 'newsletter_not_draft')
    const removal = await own.api('DELETE', `/v1/newsletters/${scheduled}`)
    expectError(removal, 409, 'newsletter_not_draft')
    expect(at(removal.body, 'message')).toContain(`/v1/operations/${operation}/cancel`)
    own.clock.advance(hours(1))
    await waitForOperation(own, operation, 'done')
    expectError(await put(scheduled, { subject: 'x' }, own), 409, 'newsletter_not_draft')
    expectError(await send(scheduled, {}, own), 409, 'newsletter_not_draft')
    expect((await own.api('DELETE', `/v1/newsletters/${scheduled}`)).status).toBe(204)
    await waitForOperation(own, operation, 'done')
    expect(readBroadcastEmails(own.app)).toHaveLength(3)
  })

  // Proves: broadcast-6
  test('becomes a draft again when it is cancelled before anything was enqueued, and can be sent again', async () => {
    const { own, listId } = await startService()
    await using _ = own
    const id = await createDraft({}, own, listId)
    const before = await get(id, own)
    const operation = readOperationId(await send(id, { send_at: inAnHour(own) }, own))
    for (const verb of ['pause', 'resume', 'cancel']) {
      expect((await own.api('POST', `/v1/operations/${operation}/${verb}`)).status).toBe(200)
      if (verb !== 'cancel') expect((await get(id, own))['status']).toBe('scheduled')
    }
    await waitForOperation(own, operation, 'cancelled')
    expect(await get(id, own)).toEqual(before)
    const again = readOperationId(await send(id, {}, own))
    await waitForOperation(own, again, 'done')
    expect(await get(id, own)).toMatchObject({ status: 'sent', operation_id: again })
    expect(readBroadcastEmails(own.app)).toHaveLength(3)
  })

  // Proves: broadcast-6
  test('is failed when it is cancelled while being sent, and names its operation', async () => {
    await using own = await createEmailApi({ runsTasks: true, broadcastAhead: 10 })
    const listId = await newList(own, 'News')
    await addContacts(own.app, listId, createContacts(20))
    const id = await createDraft({}, own, listId)
    const operation = readOperationId(await send(id, {}, own))
    await eventually(() => readBroadcastEmails(own.app).length >= 10)
    expect((await get(id, own))['status']).toBe('sending')
    await sendOne(own.app)
    await own.api('POST', `/v1/operations/${operation}/cancel`)
    await waitForOperation(own, operation, 'cancelled')
    expect(await get(id, own)).toMatchObject({ status: 'failed', operation_id: operation, sent_at: null })
    expectError(await send(id, {}, own), 409, 'newsletter_not_draft')
    expect((await own.api('DELETE', `/v1/newsletters/${id}`)).status).toBe(204)
  })

  test('is failed when its domain is deleted before its time', async () => {
    const { own, listId } = await startService()
    await using _ = own
    await own.addDomain(own.actor, 'soon-gone.test')
    const id = await createDraft({ from_address: 'ada@soon-gone.test' }, own, listId)
    const operation = readOperationId(await send(id, { send_at: inAnHour(own) }, own))
    const domains = at((await own.api('GET', '/v1/domains')).body, 'data') as Json[]
    const domain = domains.find((one) => one['domain'] === 'soon-gone.test')?.['id']
    expect((await own.api('DELETE', `/v1/domains/${domain}`)).status).toBe(204)
    own.clock.advance(hours(1))
    const over = await waitForOperation(own, operation, 'failed')
    expect([over.status, over.error_summary?.message, over.metadata.handed_over]).toEqual([
      'failed',
      'The domain soon-gone.test is not registered on this account; add it with POST /v1/domains.',
      0,
    ])
    expect([await get(id, own), own.used()]).toMatchObject([{ status: 'failed' }, 0])
  })
})
