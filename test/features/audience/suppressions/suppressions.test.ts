import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, EMAIL, expectError, NOW, UUID } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const add = ({ api }: TestApi, email_address: unknown, reason?: unknown) =>
  api('POST', '/v1/suppressions', { email_address, ...(reason !== undefined && { reason }) })

const remove = ({ api }: TestApi, address: string) =>
  api('DELETE', `/v1/suppressions/${encodeURIComponent(address)}`).then(({ status, body }) => ({ status, body }))

const REMOVED = { status: 204, body: undefined }

async function addresses({ api }: TestApi, query = ''): Promise<unknown[]> {
  const { body } = await api('GET', `/v1/suppressions${query}`)
  const rows = at(body, 'data') as { email_address: string }[]
  expect(at(body, 'pagination', 'total')).toBe(rows.length)
  return rows.map(({ email_address }) => email_address)
}

/** For requests that change nothing, or nothing that others see. */
let shared: Awaited<ReturnType<typeof createTestApi>>
beforeAll(async () => {
  shared = await createTestApi()
})
afterAll(() => shared[Symbol.asyncDispose]())

// Proves: suppress-1, suppress-2, suppress-4, suppress-5
test('an address is suppressed, listed and unsuppressed; both changes are audited', async () => {
  await using service = await createTestApi({ clock: new ManualClock(NOW) })
  const created = await add(service, 'Bob@Bücher.test')
  const record = {
    id: expect.stringMatching(UUID),
    account_id: service.actor.accountUuid,
    email_address: 'bob@xn--bcher-kva.test',
    reason: 'manual',
    source_email_id: null,
    stream: null,
    list_id: null,
    created_at: new Date(NOW).toISOString(),
  }
  expect({ status: created.status, body: created.body }).toEqual({ status: 201, body: { data: record } })
  expect((await service.api('GET', '/v1/suppressions')).body).toEqual({
    data: [at(created.body, 'data')],
    pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
  })
  expect(await remove(service, 'BOB@bücher.test')).toEqual(REMOVED)
  expect(await addresses(service)).toEqual([])
  const log = at((await service.api('GET', '/v1/audit-logs?per_page=2')).body, 'data') as Record<string, unknown>[]
  expect(
    log.map(({ action, resource_type, resource_id, metadata }) => ({ action, resource_type, resource_id, metadata })),
  ).toEqual([
    {
      action: 'suppression.deleted',
      resource_type: 'suppression',
      resource_id: 'bob@xn--bcher-kva.test',
      metadata: { reasons: ['manual'] },
    },
    {
      action: 'suppression.created',
      resource_type: 'suppression',
      resource_id: 'bob@xn--bcher-kva.test',
      metadata: { reason: 'manual' },
    },
  ])
  expectBalanced(service)
})

describe('POST of an address that is on the list', () => {
  // Proves: suppress-3
  test('is a 201 with the first suppression, and changes nothing', async () => {
    await using service = await createTestApi()
    const first = await add(service, 'bob@x.test')
    for (const reason of ['complaint', 'hard_bounce', undefined, null, 'manual', 'something else']) {
      const again = await add(service, 'BOB@X.test', reason)
      expect({ status: again.status, body: again.body }).toEqual({ status: 201, body: first.body })
    }
    expect(at((await service.api('GET', '/v1/audit-logs?per_page=1')).body, 'data', 0, 'action')).toBe(
      'suppression.created',
    )
    expect(await addresses(service)).toEqual(['bob@x.test'])
    expectBalanced(service)
  })

  test('that only unsubscribed suppresses it for all mail as well; a removal removes both', async () => {
    await using service = await createTestApi()
    await add(service, 'bob@x.test', 'unsubscribe')
    await add(service, 'bob@x.test', 'hard_bounce')
    const { body } = await service.api('GET', '/v1/suppressions')
    expect((at(body, 'data') as { reason: string }[]).map(({ reason }) => reason)).toEqual([
      'hard_bounce',
      'unsubscribe',
    ])
    expect(await remove(service, 'bob@x.test')).toEqual(REMOVED)
    expect(await addresses(service)).toEqual([])
    expectBalanced(service)
  })
})

// Proves: suppress-6
test('a reason is stored as provided, and can be filtered by; none means manual', async () => {
  await using service = await createTestApi()
  await add(service, 'carol@x.test', 'another')
  for (const reason of [
    'hard_bounce',
    'complaint',
    'unsubscribe',
    'Called us | asked for 100 % silence',
    ' = 1',
    'a'.repeat(200),
    '\u{1f4a9}',
  ]) {
    expect(at((await add(service, 'bob@x.test', reason)).body, 'data', 'reason')).toBe(reason)
    expect(await addresses(service, `?reason=${encodeURIComponent(reason)}`)).toEqual(['bob@x.test'])
    expectBalanced(service)
    await remove(service, 'bob@x.test')
    expect(await addresses(service, `?reason=${encodeURIComponent(reason)}`)).toEqual([])
    expectBalanced(service)
  }
  for (const [address, reason] of [
    ['dan@x.test', ''],
    ['eve@x.test', null],
  ] as const)
    expect(at((await add(service, address, reason)).body, 'data', 'reason')).toBe('manual')
})

test.each(['unsubscribed', 'Unsubscribe', ' UNSUBSCRIBED ', 'list-unsubscribe'])(
  'the reason %j, which other services use, is stored as unsubscribe: receipts are still sent',
  async (reason) => {
    await using service = await createEmailApi()
    const { api, accepted } = service
    const answer = await api('POST', '/v1/suppressions', { email_address: EMAIL.to, reason })
    expect(at(answer.body, 'data', 'reason')).toBe('unsubscribe')
    expect([await accepted(), await accepted({ transactional: false })].map(({ status }) => status)).toEqual([
      'queued',
      'rejected',
    ])
  },
)

describe('422 and nothing is stored for', () => {
  // Proves: suppress-2
  test.each([
    '',
    'bob',
    'bob@',
    '@x.test',
    'bob@localhost',
    'bob@[127.0.0.1]',
    'a@b@x.test',
    'bob@x.test\r\nBcc: eve@x.test',
    `${'a'.repeat(65)}@x.test`,
  ])('the address %j', async (address) => {
    const service = shared
    expectError(await add(service, address), 422, 'invalid_address', 'email_address')
    expect(await addresses(service)).toEqual([])
  })
})

describe('DELETE', () => {
  // Proves: suppress-4
  test('of what is not on the list, or cannot be, is a 204', async () => {
    await using service = await createTestApi()
    await add(service, 'bob@x.test')
    for (const address of ['nobody@x.test', 'no address', 'export', '%', "'; DROP TABLE suppressions"])
      expect(await remove(service, address)).toEqual(REMOVED)
    for (const path of ['%zz', '%F0%9F', '%00'])
      expect((await service.api('DELETE', `/v1/suppressions/${path}`)).status).toBe(204)
    expect(await addresses(service)).toEqual(['bob@x.test'])
  })

  test('accepts an address in every form in which it can be added, as does the filter of the list', async () => {
    await using service = await createTestApi()
    await add(service, 'Bob <Bob@X.test>')
    expect(await addresses(service, `?email=${encodeURIComponent('Bob <bob@x.test>')}`)).toEqual(['bob@x.test'])
    expect(await remove(service, '"B, b" <BOB@x.test>')).toEqual(REMOVED)
    expect(await addresses(service)).toEqual([])
  })

  // Proves: suppress-4
  test('reaches every address, whatever characters it has', async () => {
    await using service = await createTestApi()
    for (const address of ['a/b+c%25@x.test', '"a b"@x.test', 'josé@x.test', 'a?b#c@x.test']) {
      expect((await add(service, address)).status).toBe(201)
      expect(await remove(service, address)).toEqual(REMOVED)
      expect(await addresses(service)).toEqual([])
    }
  })
})

// Proves: suppress-1
test('the list is newest first, in pages, and filtered by reason and address', async () => {
  await using service = await createTestApi()
  const { api } = service
  for (let i = 0; i < 7; i++) await add(service, `r${i}@x.test`, i % 2 === 0 ? 'even' : 'odd')
  await add(service, 'r0@x.test', 'unsubscribe')
  const page = await api('GET', '/v1/suppressions?page=2&per_page=3')
  expect((at(page.body, 'data') as { email_address: string }[]).map(({ email_address }) => email_address)).toEqual([
    'r4@x.test',
    'r3@x.test',
    'r2@x.test',
  ])
  expect(at(page.body, 'pagination')).toEqual({
    page: 2,
    per_page: 3,
    total: 8,
    total_pages: 3,
    next_cursor: expect.any(String),
  })
  const odd = await api('GET', '/v1/suppressions?reason=odd&per_page=2&page=2')
  expect([at(odd.body, 'data'), at(odd.body, 'pagination', 'total')]).toMatchObject([
    [{ email_address: 'r1@x.test' }],
    3,
  ])
  expect(await addresses(service, '?email=R0%40X.test')).toEqual(['r0@x.test', 'r0@x.test'])
  expect(await addresses(service, '?email=r0%40x.test&reason=even')).toEqual(['r0@x.test'])
  expect(await addresses(service, '?email=nobody%40x.test')).toEqual([])
  expect(await addresses(service, '?reason=none')).toEqual([])
})
