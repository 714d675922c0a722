import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { removeDeletedLists } from '#features/audience/contact-lists/contacts.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { expectError, NOW, UNVERIFIED, UUID, VERIFIED } from '#test/support/email-api.ts'
import { createListApi, type ListApi } from './fixture.ts'

const EVERY_FIELD = {
  name: 'Newsletter',
  description: 'Once a month.',
  double_opt_in: true,
  welcome_email_enabled: true,
  welcome_email_delay_seconds: 3600,
  welcome_email_from_address: `Ada <ada@${VERIFIED}>`,
  welcome_email_subject: 'Welcome to {{ list.name }}',
  welcome_email_html_body: '<p>{{ contact.email }}</p>',
  welcome_email_text_body: '{{ contact.email }}',
}

// Proves: contact-1, contact-2, contact-3, contact-4, contact-5, contact-6
test('a list is created, read, listed, changed and deleted, each change with an audit row', async () => {
  await using service = await createListApi()
  const { api, actor, clock } = service
  const created = await api('POST', '/v1/contact-lists', { name: ' Friends ' })
  const id = String(at(created.body, 'data', 'id'))
  const made = {
    id: expect.stringMatching(UUID),
    account_id: actor.accountUuid,
    name: 'Friends',
    description: null,
    double_opt_in: false,
    contact_count: 0,
    welcome_email_enabled: false,
    welcome_email_delay_seconds: 0,
    welcome_email_from_address: null,
    welcome_email_subject: null,
    welcome_email_html_body: null,
    welcome_email_text_body: null,
    welcome_email_template_id: null,
    created_at: new Date(NOW).toISOString(),
    updated_at: new Date(NOW).toISOString(),
  }
  expect({ status: created.status, body: created.body }).toEqual({ status: 201, body: { data: made } })
  expect((await api('GET', `/v1/contact-lists/${id}`)).body).toEqual(created.body)
  expect((await api('GET', '/v1/contact-lists')).body).toEqual({
    data: [{ ...made, truncated: false }],
    pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
  })
  clock.advance(1000)
  const changed = await api('PUT', `/v1/contact-lists/${id}`, EVERY_FIELD)
  expect({ status: changed.status, body: changed.body }).toEqual({
    status: 200,
    body: { data: { ...made, ...EVERY_FIELD, updated_at: new Date(NOW + 1000).toISOString() } },
  })
  const deleted = await api('DELETE', `/v1/contact-lists/${id}`)
  expect({ status: deleted.status, body: deleted.body }).toEqual({ status: 204, body: undefined })
  for (const [method, body] of [
    ['GET', undefined],
    ['PUT', { name: 'Friends' }],
    ['DELETE', undefined],
  ] as const)
    expectError(await api(method, `/v1/contact-lists/${id}`, body), 404, 'contact_list_not_found')
  const log = at((await api('GET', '/v1/audit-logs?per_page=3')).body, 'data') as Record<string, unknown>[]
  expect(log.map((row) => [row['action'], row['resource_id'], row['metadata']])).toEqual([
    ['contact_list.deleted', id, { name: 'Newsletter' }],
    ['contact_list.updated', id, { name: 'Newsletter' }],
    ['contact_list.created', id, { name: 'Friends' }],
  ])
})

// Proves: contact-1, contact-2, contact-6
test('a list is created with every field set; contact_count is in every response', async () => {
  await using service = await createListApi()
  const { api } = service
  const created = await api('POST', '/v1/contact-lists', EVERY_FIELD)
  expect(at(created.body, 'data')).toMatchObject({ ...EVERY_FIELD, contact_count: 0 })
  const path = `/v1/contact-lists/${at(created.body, 'data', 'id')}`
  const contacts = ['a@x.test', 'b@x.test'].map((email) => ({ email }))
  await api('POST', `${path}/contacts`, { contacts, confirmed: true })
  const answers = [
    at((await api('GET', path)).body, 'data'),
    at((await api('GET', '/v1/contact-lists')).body, 'data', 0),
    at((await api('PUT', path, { name: 'Newsletter' })).body, 'data'),
  ]
  expect(answers.map((answer) => at(answer, 'contact_count'))).toEqual([2, 2, 2])
})

// Proves: contact-4
test('PUT keeps every field that is left out; null clears one', async () => {
  await using service = await createListApi()
  const { api } = service
  const id = await service.newList(EVERY_FIELD)
  const renamed = await api('PUT', `/v1/contact-lists/${id}`, { name: 'Letters' })
  expect(at(renamed.body, 'data')).toMatchObject({ ...EVERY_FIELD, name: 'Letters' })
  const less = await api('PUT', `/v1/contact-lists/${id}`, {
    name: 'Letters',
    description: null,
    welcome_email_enabled: false,
    welcome_email_from_address: null,
    welcome_email_subject: null,
    welcome_email_html_body: null,
    welcome_email_text_body: '',
  })
  expect(at(less.body, 'data')).toMatchObject({
    name: 'Letters',
    description: null,
    double_opt_in: true,
    welcome_email_enabled: false,
    welcome_email_delay_seconds: 3600,
    welcome_email_from_address: null,
    welcome_email_subject: null,
    welcome_email_html_body: null,
    welcome_email_text_body: null,
  })
  expectError(
    await api('PUT', `/v1/contact-lists/${id}`, { description: 'No name.' }),
    422,
    'validation_failed',
    'name',
  )
})

// Proves: contact-2, contact-4
test('a name is unique among the lists of an account: a duplicate is a 409 with the name; after a deletion it is free again', async () => {
  await using service = await createListApi()
  const { api } = service
  const first = await service.newList({ name: 'News' })
  const second = await service.newList({ name: 'Offers' })
  expectError(await api('POST', '/v1/contact-lists', { name: ' News' }), 409, 'contact_list_exists')
  expectError(await api('PUT', `/v1/contact-lists/${second}`, { name: 'News' }), 409, 'contact_list_exists')
  expect((await api('PUT', `/v1/contact-lists/${first}`, { name: 'News' })).status).toBe(200)
  const other = await service.newKey([], await service.newAccount())
  await service.newList({ name: 'News' }, { key: other })
  await api('DELETE', `/v1/contact-lists/${first}`)
  expect(await service.newList({ name: 'News' })).not.toBe(first)
})

describe('422, and nothing is stored, for', () => {
  let service: ListApi
  beforeAll(async () => {
    service = await createListApi()
  })
  afterAll(() => service[Symbol.asyncDispose]())

  // Proves: contact-2, contact-4
  test.each<[string, Record<string, unknown>, string, string]>([
    ['no name', {}, 'name', 'validation_failed'],
    ['an empty name', { name: '  ' }, 'name', 'validation_failed'],
    ['a name of two lines', { name: 'a\nb' }, 'name', 'validation_failed'],
    [
      'a sender that is not an address',
      { welcome_email_from_address: 'ada' },
      'welcome_email_from_address',
      'invalid_address',
    ],
    [
      'a sender at a domain that is not registered',
      { welcome_email_from_address: 'ada@elsewhere.test' },
      'welcome_email_from_address',
      'domain_not_found',
    ],
    [
      'a sender at a domain that is not verified',
      { welcome_email_from_address: `ada@${UNVERIFIED}` },
      'welcome_email_from_address',
      'domain_not_verified',
    ],
    ['a long subject', { welcome_email_subject: 's'.repeat(999) }, 'welcome_email_subject', 'validation_failed'],
    [
      'a body of over 1 MiB',
      { welcome_email_text_body: 'b'.repeat(1_048_577) },
      'welcome_email_text_body',
      'validation_failed',
    ],
    [
      'a template that does not exist',
      { welcome_email_template_id: '01234567-89ab-7def-8123-456789abcdef' },
      'welcome_email_template_id',
      'template_not_found',
    ],
    [
      'a body that can never be rendered',
      { welcome_email_html_body: '<p>{{ contact.email </p>' },
      'welcome_email_html_body',
      'template_error',
    ],
    [
      'a welcome without subject and body',
      { welcome_email_enabled: true },
      'welcome_email_enabled',
      'validation_failed',
    ],
    [
      'a welcome without a body',
      { welcome_email_enabled: true, welcome_email_subject: 'Hello' },
      'welcome_email_enabled',
      'validation_failed',
    ],
  ])('%s', async (name, fields, field, code) => {
    const body = name === 'no name' ? fields : { name: 'News', ...fields }
    expectError(await service.api('POST', '/v1/contact-lists', body), 422, code, field)
    const id = await service.newList()
    const before = (await service.api('GET', `/v1/contact-lists/${id}`)).body
    expectError(await service.api('PUT', `/v1/contact-lists/${id}`, body), 422, code, field)
    expect((await service.api('GET', `/v1/contact-lists/${id}`)).body).toEqual(before)
  })
})

// Proves: contact-2
test('a welcome may use a template of the account in place of bodies, but not one of another account', async () => {
  await using service = await createListApi()
  const { api } = service
  const template = { alias: 'welcome', name: 'Welcome', subject: 'Hello', text_body: 'Hello' }
  const id = at((await api('POST', '/v1/templates', template)).body, 'data', 'id')
  const list = await service.newList({ welcome_email_enabled: true, welcome_email_template_id: id })
  expect(at((await api('GET', `/v1/contact-lists/${list}`)).body, 'data')).toMatchObject({
    welcome_email_enabled: true,
    welcome_email_template_id: id,
  })
  const other = await service.newKey([], await service.newAccount())
  const theirs = await api('POST', '/v1/contact-lists', { name: 'X', welcome_email_template_id: id }, { key: other })
  expectError(theirs, 422, 'template_not_found', 'welcome_email_template_id')
  // A value that was valid when it was set does not prevent another change.
  await api('DELETE', `/v1/templates/${id}`)
  expect((await api('PUT', `/v1/contact-lists/${list}`, { name: 'Renamed' })).status).toBe(200)
})

// Proves: contact-1
test('bodies of more than 64 KiB are left out of the list of lists, and marked as such', async () => {
  await using service = await createListApi()
  const html = 'h'.repeat(64 * 1024 + 1)
  const id = await service.newList({ welcome_email_html_body: html, welcome_email_text_body: 'short' })
  expect(at((await service.api('GET', '/v1/contact-lists')).body, 'data', 0)).toMatchObject({
    id,
    welcome_email_html_body: null,
    welcome_email_text_body: 'short',
    truncated: true,
  })
  expect(at((await service.api('GET', `/v1/contact-lists/${id}`)).body, 'data', 'welcome_email_html_body')).toBe(html)
})

// Proves: contact-5
test('a deleted list is gone immediately; its contacts and their waiting mail are deleted in batches, and other lists keep theirs', async () => {
  await using service = await createListApi()
  const { api, app } = service
  const list = await service.newList({ double_opt_in: true })
  const kept = await service.newList()
  const contacts = Array.from({ length: 601 }, (_, i) => ({ email: `u${i}@x.test` }))
  expect((await service.add(list, { contacts })).status).toBe(201)
  await service.add(kept, { email: 'u1@x.test' })
  await api('DELETE', `/v1/contact-lists/${list}`)
  expectError(await api('GET', `/v1/contact-lists/${list}/contacts`), 404, 'contact_list_not_found')
  expectError(await service.add(list, { email: 'new@x.test' }), 404, 'contact_list_not_found')
  expectBalanced(service)
  const left = () => app.db.query<{ n: number }, []>('SELECT count(*) AS n FROM contacts').get()?.n
  // A service that ends stops between the batches; the next run continues.
  let asked = 0
  const ending = Object.defineProperty(new AbortController().signal, 'aborted', { get: () => ++asked > 1 })
  expect([await removeDeletedLists(app, ending), left()]).toEqual([0, 352])
  expect(await removeDeletedLists(app)).toBe(1)
  expect(await removeDeletedLists(app)).toBe(0)
  const counts = app.db
    .query<{ contacts: number; mails: number; counters: number }, []>(
      `SELECT (SELECT count(*) FROM contacts) AS contacts, (SELECT count(*) FROM notices) AS mails,
       (SELECT count(*) FROM counters WHERE metric LIKE 'contacts:%') AS counters`,
    )
    .get()
  expect(counts).toEqual({ contacts: 1, mails: 0, counters: 1 })
  expect(await service.statuses(kept)).toEqual({ 'u1@x.test': 'active' })
  expectBalanced(service)
})
