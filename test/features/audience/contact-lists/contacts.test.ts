import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi, expectError, NOW, UUID } from '#test/support/email-api.ts'
import { countDuring } from '#test/support/event-loop.ts'
import { contactCount, createList } from './files.ts'
import { createListApi, expectCounts } from './fixture.ts'

let service: Awaited<ReturnType<typeof createListApi>>
beforeAll(async () => {
  service = await createListApi()
})
afterAll(() => service[Symbol.asyncDispose]())

// Proves: contact-8, contact-10, contact-11, contact-12, contact-13
test('a contact is added, read, changed and removed, each with an audit row that has no address', async () => {
  const { api, actor } = service
  const list = await service.newList()
  const metadata = { first_name: 'Ada', tags: ['a'], deep: { er: null } }
  const added = await service.add(list, { email: 'Ada <Ada.L@Bücher.example>', metadata })
  const contact = {
    id: expect.stringMatching(UUID),
    account_id: actor.accountUuid,
    list_id: list,
    email: 'Ada.L@xn--bcher-kva.example',
    metadata,
    status: 'active',
    subscribed_at: new Date(NOW).toISOString(),
    confirmed_at: null,
    unsubscribed_at: null,
    created_at: new Date(NOW).toISOString(),
  }
  expect({ status: added.status, body: added.body }).toEqual({ status: 201, body: { data: contact } })
  const id = at(added.body, 'data', 'id')
  expect((await api('GET', `/v1/contact-lists/${list}/contacts`)).body).toEqual({
    data: [contact],
    pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
  })
  const path = (email: string) => `/v1/contact-lists/${list}/contacts/${encodeURIComponent(email)}`
  for (const spelling of ['Ada.L@xn--bcher-kva.example', 'ADA.L@bücher.EXAMPLE', '"ada.l"@bücher.example'])
    expect((await api('GET', path(spelling))).body).toEqual({ data: contact })
  const changed = await api('PATCH', path('ada.l@bücher.example'), { metadata: { first_name: 'A.' } })
  expect({ status: changed.status, body: changed.body }).toEqual({
    status: 200,
    body: { data: { ...contact, metadata: { first_name: 'A.' } } },
  })
  const removed = await api('DELETE', path('ada.l@BÜCHER.example'))
  expect({ status: removed.status, body: removed.body }).toEqual({ status: 204, body: undefined })
  for (const [method, body] of [
    ['GET', undefined],
    ['PATCH', { metadata: {} }],
    ['DELETE', undefined],
  ] as const)
    expectError(await api(method, path('ada.l@bücher.example'), body), 404, 'contact_not_found')
  await expectCounts(service, list, {})
  const log = at((await api('GET', '/v1/audit-logs?per_page=3')).body, 'data') as Record<string, unknown>[]
  expect(log.map((row) => [row['action'], row['resource_id'], row['metadata']])).toEqual([
    ['contact.deleted', id, { list_id: list }],
    ['contact.updated', id, { list_id: list }],
    ['contact.created', id, { list_id: list }],
  ])
})

describe('metadata', () => {
  // Proves: contact-13
  test.each([
    ['left out', {}],
    ['null', { metadata: null }],
    ['an empty object', { metadata: {} }],
    ['the [] of PHP', { metadata: [] }],
  ])('that is %s is an empty object', async (_, fields) => {
    const list = await service.newList()
    const added = await service.add(list, { email: 'a@x.test', ...fields })
    expect(at(added.body, 'data', 'metadata')).toEqual({})
    const bulk = await service.add(list, { contacts: [{ email: 'b@x.test', ...fields }] })
    expect(bulk.body).toEqual({ data: { inserted: 1, duplicates: 0, total_requested: 1 }, errors: [] })
    const read = await service.api('GET', `/v1/contact-lists/${list}/contacts/b@x.test`)
    expect(at(read.body, 'data', 'metadata')).toEqual({})
  })

  // Proves: contact-12, contact-13
  test.each([['of over 16 KiB', { a: 'é'.repeat(8192) }]])(
    'that is %s is a 422 and adds nothing',
    async (_, metadata) => {
      const list = await service.newList()
      expectError(await service.add(list, { email: 'a@x.test', metadata }), 422, 'validation_failed', 'metadata')
      await service.add(list, { email: 'b@x.test', metadata: { kept: true } })
      const path = `/v1/contact-lists/${list}/contacts/b@x.test`
      expectError(await service.api('PATCH', path, { metadata }), 422, 'validation_failed', 'metadata')
      expect(at((await service.api('GET', path)).body, 'data', 'metadata')).toEqual({ kept: true })
      await expectCounts(service, list, { active: 1 })
    },
  )
})

describe('one contact', () => {
  // Proves: contact-8
  test('that is already on the list, in any spelling, is a 409 and stays as it is', async () => {
    const list = await service.newList()
    await service.add(list, { email: 'Bob@x.test', metadata: { a: 1 } })
    expectError(await service.add(list, { email: 'bOB@X.test', metadata: { a: 2 } }), 409, 'contact_exists')
    const read = await service.api('GET', `/v1/contact-lists/${list}/contacts/bob@x.test`)
    expect(at(read.body, 'data')).toMatchObject({ email: 'Bob@x.test', metadata: { a: 1 } })
    const other = await service.newList()
    expect((await service.add(other, { email: 'bob@x.test' })).status).toBe(201)
  })

  // Proves: contact-8
  test('is added once by 100 concurrent requests, and counted once', async () => {
    const list = await service.newList()
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) => service.add(list, { email: i % 2 ? 'bob@x.test' : 'BOB@X.TEST' })),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(99).fill(409)])
    await expectCounts(service, list, { active: 1 })
    expectBalanced(service)
  })

  // Proves: contact-8
  test.each([
    'bob',
    '',
    'bob@',
    '@x.test',
    'bob@x',
    'a b@x.test',
    'bob@x.test\r\nBcc: eve@x.test',
    'a@x.test, b@x.test',
  ])('with the address %j is a 422', async (email) => {
    const list = await service.newList()
    expectError(await service.add(list, { email }), 422, 'invalid_address', 'email')
    await expectCounts(service, list, {})
  })

  // Proves: contact-8
  test('that has neither email nor contacts, or both, or unknown fields, is a 422', async () => {
    const list = await service.newList()
    const contacts = [{ email: 'b@x.test' }]
    for (const [body, field] of [
      [{}, 'email'],
      [{ metadata: {} }, 'email'],
      [{ email: 'a@x.test', contacts }, 'contacts'],
      [{ metadata: {}, contacts }, 'contacts'],
      [{ email: 'a@x.test', name: 'Ada' }, 'name'],
      [{ contacts: [] }, 'contacts'],
    ] as const)
      expectError(await service.add(list, body), 422, 'validation_failed', field)
    await expectCounts(service, list, {})
  })

  // Proves: contact-8
  test('that is on the suppression list may be added, and stays suppressed', async () => {
    const list = await service.newList()
    await service.api('POST', '/v1/suppressions', { email_address: 'blocked@x.test' })
    expect((await service.add(list, { email: 'blocked@x.test' })).status).toBe(201)
    expect(await service.statuses(list)).toEqual({ 'blocked@x.test': 'active' })
    const suppressed = at((await service.api('GET', '/v1/suppressions?per_page=100')).body, 'data') as {
      email_address: string
    }[]
    expect(suppressed.map((row) => row.email_address)).toContain('blocked@x.test')
  })

  test.each([
    ['unsubscribe', 'unsubscribed'],
    ['hard_bounce', 'bounced'],
    ['complaint', 'complained'],
  ])('that is on the suppression list as %s is %s from the start, alone and in bulk', async (reason, status) => {
    await using service = await createListApi()
    const list = await service.newList()
    for (const name of ['a', 'b'])
      await service.api('POST', '/v1/suppressions', { email_address: `${name}@x.test`, reason })
    expect((await service.add(list, { email: 'A@x.test' })).status).toBe(201)
    expect((await service.add(list, { contacts: [{ email: 'b@x.test' }, { email: 'c@x.test' }] })).status).toBe(201)
    expect(await service.statuses(list)).toEqual({ 'A@x.test': status, 'b@x.test': status, 'c@x.test': 'active' })
  })
})

describe('many contacts', () => {
  // Proves: list-13, contact-9
  test('are added in one request; those on the list stay as they are, and problems are reported by index', async () => {
    await using service = await createListApi()
    const list = await service.newList()
    await service.add(list, { email: 'old@x.test', metadata: { old: true } })
    const answer = await service.add(list, {
      contacts: [
        { email: 'a@x.test', metadata: { a: 1 } },
        { email: 'OLD@x.test', metadata: { old: false } },
        { email: 'nobody' },
        { metadata: {} },
        { email: 'a@X.test' },
        { email: 'b@x.test', name: 'Bob' },
        'c@x.test',
        null,
        { email: 'd@x.test', metadata: { d: 'x'.repeat(17_000) } },
        { email: 'e@x.test' },
      ],
    })
    expect({ status: answer.status, body: answer.body }).toEqual({
      status: 201,
      body: {
        data: { inserted: 2, duplicates: 2, total_requested: 10 },
        errors: [
          { index: 2, error: '"nobody" is not an address: it has no @ after a local part.' },
          { index: 3, error: 'email is required' },
          { index: 5, error: expect.stringContaining('name') },
          { index: 6, error: 'contact must be an object' },
          { index: 7, error: 'contact must be an object' },
          { index: 8, error: 'metadata has 17008 bytes of JSON; at most 16384 are allowed.' },
        ],
      },
    })
    expect(await service.statuses(list)).toEqual({ 'old@x.test': 'active', 'a@x.test': 'active', 'e@x.test': 'active' })
    const [log] = at((await service.api('GET', '/v1/audit-logs')).body, 'data') as Record<string, unknown>[]
    expect([log?.['action'], log?.['resource_id'], log?.['metadata']]).toEqual([
      'contact.imported',
      list,
      { contacts: 10, confirmed: false },
    ])
  })

  // Proves: contact-9
  test('may be 10,000, with an exact count; one more is a 422 that adds none', async () => {
    await using service = await createListApi()
    const list = await service.newList()
    const contacts = Array.from({ length: 10_000 }, (_, i) => ({ email: `u${i}@x.test`, metadata: { i } }))
    const added = await service.add(list, { contacts })
    expect(added.body).toEqual({ data: { inserted: 10_000, duplicates: 0, total_requested: 10_000 }, errors: [] })
    await expectCounts(service, list, { active: 10_000 })
    const other = await service.newList()
    const more = await service.add(other, { contacts: [...contacts, { email: 'more@x.test' }] })
    expectError(more, 422, 'validation_failed', 'contacts')
    await expectCounts(service, other, {})
    expectBalanced(service)
  })

  // Proves: contact-9
  test('that are invalid are reported by their position in the request', async () => {
    const list = await service.newList()
    const contacts = Array.from({ length: 600 }, (_, i) => ({ email: i % 299 === 298 ? `u${i}` : `u${i}@x.test` }))
    const { body } = await service.add(list, { contacts })
    expect(at(body, 'data')).toEqual({ inserted: 598, duplicates: 0, total_requested: 600 })
    expect((at(body, 'errors') as { index: number }[]).map(({ index }) => index)).toEqual([298, 597])
  })

  // Proves: contact-9
  test('let other requests run in between', async () => {
    await using service = await createListApi()
    const list = await service.newList()
    const contacts = Array.from({ length: 10_000 }, (_, i) => ({ email: `u${i}@x.test` }))
    const adding = service.add(list, { contacts })
    const seen = await countDuring(adding, () => contactCount(service))
    expect((await adding).status).toBe(201)
    // Each batch of 250 is visible before the next; some were seen on their way.
    expect(seen.filter((count) => count > 0 && count < 10_000).length).toBeGreaterThan(2)
    expect(seen.every((count) => count % 250 === 0)).toBe(true)
  })

  // Proves: contact-9
  test('in several concurrent requests are each on the list once', async () => {
    await using service = await createListApi()
    const list = await service.newList()
    const contacts = Array.from({ length: 1_000 }, (_, i) => ({ email: `u${i}@x.test` }))
    const answers = await Promise.all([
      service.add(list, { contacts }),
      service.add(list, { contacts: contacts.toReversed() }),
      service.add(list, { contacts: contacts.slice(300, 700) }),
    ])
    const inserted = answers.map(({ body }) => Number(at(body, 'data', 'inserted')))
    expect(inserted.reduce((sum, n) => sum + n, 0)).toBe(1_000)
    await expectCounts(service, list, { active: 1_000 })
    expectBalanced(service)
  })
})

describe('on a list with double opt-in', () => {
  test('confirmed contacts are active, get no confirmation request, and are welcomed', async () => {
    await using service = await createListApi()
    const list = await service.newList({
      double_opt_in: true,
      welcome_email_enabled: true,
      welcome_email_subject: 'Welcome',
      welcome_email_text_body: 'Hello.',
    })
    await service.add(list, { contacts: [{ email: 'a@x.test' }], confirmed: true })
    await service.add(list, { email: 'b@x.test', confirmed: true })
    await service.add(list, { email: 'c@x.test', confirmed: false })
    expect(await service.statuses(list)).toEqual({ 'a@x.test': 'active', 'b@x.test': 'active', 'c@x.test': 'pending' })
    expect(service.waiting()).toEqual([
      { email: 'a@x.test', kind: 'welcome' },
      { email: 'b@x.test', kind: 'welcome' },
      { email: 'c@x.test', kind: 'confirmation' },
    ])
  })
})

test('without double opt-in a contact is active immediately, and welcomed if the list has a welcome', async () => {
  await using service = await createListApi()
  const plain = await service.newList()
  const welcoming = await service.newList({
    welcome_email_enabled: true,
    welcome_email_subject: 'Welcome',
    welcome_email_text_body: 'Hello.',
  })
  await service.add(plain, { email: 'a@x.test' })
  await service.add(welcoming, { email: 'b@x.test' })
  await service.add(welcoming, { contacts: [{ email: 'c@x.test' }] })
  expect(service.waiting()).toEqual([
    { email: 'b@x.test', kind: 'welcome' },
    { email: 'c@x.test', kind: 'welcome' },
  ])
})

describe('the list of contacts', () => {
  // Proves: contact-7
  test('has pages, newest first, of all contacts, of one status, of one address', async () => {
    const { api } = service
    const list = await service.newList()
    await service.add(list, { contacts: [1, 2, 3, 4, 5].map((i) => ({ email: `u${i}@x.test` })) })
    for (const [email_address, reason] of [
      ['u2@x.test', 'hard_bounce'],
      ['u4@x.test', 'hard_bounce'],
      ['u5@x.test', 'complaint'],
    ])
      await api('POST', '/v1/suppressions', { email_address, reason })
    const page = async (query: string) => {
      const { body } = await api('GET', `/v1/contact-lists/${list}/contacts${query}`)
      return {
        emails: (at(body, 'data') as { email: string }[]).map(({ email }) => email),
        total: at(body, 'pagination', 'total'),
      }
    }
    expect(await page('?per_page=2&page=2')).toEqual({ emails: ['u3@x.test', 'u2@x.test'], total: 5 })
    expect(await page('?page=9')).toEqual({ emails: [], total: 5 })
    expect(await page('?status=active')).toEqual({ emails: ['u3@x.test', 'u1@x.test'], total: 2 })
    expect(await page('?status=bounced&per_page=1&page=2')).toEqual({ emails: ['u2@x.test'], total: 2 })
    expect(await page('?status=complained')).toEqual({ emails: ['u5@x.test'], total: 1 })
    expect(await page('?status=pending')).toEqual({ emails: [], total: 0 })
    expect(await page('?email=U5@X.test')).toEqual({ emails: ['u5@x.test'], total: 1 })
    expect(await page('?email=u5@x.test&status=active')).toEqual({ emails: [], total: 0 })
    expect(await page('?email=u6@x.test')).toEqual({ emails: [], total: 0 })
    expect(await page('?email=u5@x.test&page=2')).toEqual({ emails: [], total: 1 })
  })
})

// Proves: contact-10
test('a removed contact gets no waiting mail, and can be added again as a new one', async () => {
  await using service = await createListApi()
  const list = await service.newList({ double_opt_in: true })
  const first = await service.add(list, { email: 'a@x.test' })
  await service.api('DELETE', `/v1/contact-lists/${list}/contacts/a@x.test`)
  expect(service.waiting()).toEqual([])
  const second = await service.add(list, { email: 'a@x.test' })
  expect(second.status).toBe(201)
  expect(at(second.body, 'data', 'id')).not.toBe(at(first.body, 'data', 'id'))
  expect(service.waiting()).toEqual([{ email: 'a@x.test', kind: 'confirmation' }])
})

// Proves: contact-10
test('an address in a path with invalid percent-encoding is a 404', async () => {
  const list = await service.newList()
  expect((await service.api('DELETE', `/v1/contact-lists/${list}/contacts/%E0%A4%A`)).status).toBe(404)
})

async function createService(...emails: string[]): Promise<{ service: EmailApi; list: string } & AsyncDisposable> {
  const service = await createEmailApi()
  const list = await createList(service)
  await createList(service, { name: 'Others' })
  await service.api('POST', `/v1/contact-lists/${list}/contacts`, { contacts: emails.map((email) => ({ email })) })
  return { service, list, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() }
}

const search = async ({ api }: EmailApi, list: string, query: string) => {
  const { body } = await api('GET', `/v1/contact-lists/${list}/contacts?${query}`)
  return {
    emails: (at(body, 'data') as { email: string }[]).map(({ email }) => email),
    ...(at(body, 'pagination') as { total: number; next_cursor?: string }),
  }
}

describe('contacts whose address begins with a text', () => {
  // Proves: contact-22
  test('are found in any spelling, of every status, in the order of their addresses', async () => {
    await using created = await createService(
      'Bob@x.test',
      'anna@x.test',
      'bo@bücher.test',
      'bo_b@x.test',
      'carl@x.test',
    )
    const { service, list } = created
    await service.api('POST', '/v1/suppressions', { email_address: 'bo_b@x.test', reason: 'complaint' })
    expect(await search(service, list, 'starts_with=BO')).toMatchObject({
      emails: ['bo@xn--bcher-kva.test', 'bo_b@x.test', 'Bob@x.test'],
      total: 3,
    })
    expect((await search(service, list, 'starts_with=bo_')).emails).toEqual(['bo_b@x.test'])
    expect((await search(service, list, 'starts_with=bo%25')).emails).toEqual([])
    expect((await search(service, list, `starts_with=${encodeURIComponent('bo@bücher.test')}`)).emails).toEqual([
      'bo@xn--bcher-kva.test',
    ])
    expect((await search(service, list, 'starts_with=bo&status=complained')).emails).toEqual(['bo_b@x.test'])
    expect((await search(service, list, 'starts_with=zz')).total).toBe(0)
  })

  test('are paged by cursors and by numbers', async () => {
    const emails = Array.from({ length: 7 }, (_, index) => `p${index}@x.test`)
    await using created = await createService(...emails.toReversed())
    const { service, list } = created
    const found: string[] = []
    for (let cursor: string | undefined = '', pages = 0; cursor !== undefined && pages < 5; pages++) {
      const page = await search(service, list, `starts_with=p&per_page=3${cursor && `&cursor=${cursor}`}`)
      expect(page.total).toBe(7)
      found.push(...page.emails)
      cursor = page.next_cursor
    }
    expect(found).toEqual(emails)
    expect((await search(service, list, 'starts_with=p&per_page=3&page=2')).emails).toEqual(emails.slice(3, 6))
  })

  test('are not searched for with an exact address as well, an empty text, or the cursor of another order', async () => {
    await using created = await createService('a@x.test', 'b@x.test')
    const { service, list } = created
    const get = (query: string) => service.api('GET', `/v1/contact-lists/${list}/contacts?${query}`)
    expectError(await get('starts_with=a&email=a@x.test'), 422, 'validation_failed', 'starts_with')
    expect((await get('starts_with=')).status).toBe(422)
    const { next_cursor: cursor } = await search(service, list, 'per_page=1')
    expectError(await get(`starts_with=a&cursor=${cursor}`), 422, 'validation_failed', 'cursor')
  })
})
