import { describe, expect, test } from 'bun:test'
import { createDomain } from '#features/setup/domains/domains.ts'
import { type ApiOptions, at } from '#test/support/api.ts'
import {
  createEmailApi,
  EMAIL,
  type EmailApi,
  expectError,
  shareEmailApi,
  UNVERIFIED,
  UUID,
} from '#test/support/email-api.ts'
import { quotaOf, startPlanAccount } from './plan-account.ts'

const emails = shareEmailApi(createEmailApi)

const batch = (emails: EmailApi, items: unknown, options?: ApiOptions) =>
  emails.api('POST', '/v1/emails/batch', { emails: items }, options)
const item = (change: Record<string, unknown> = {}) => ({ ...EMAIL, ...change })
const withKey = (key: string): ApiOptions => ({ headers: { 'idempotency-key': key } })
const idsOf = (answer: { body: unknown }) => (at(answer.body, 'data') as { id: string }[]).map(({ id }) => id)
const tosOf = (answer: { body: unknown }) => (at(answer.body, 'data') as { to: string }[]).map(({ to }) => to)

// Proves: list-10, batch-1, batch-2, batch-5
test('a batch returns its operation, the emails in order, and the errors by index', async () => {
  const sendAt = new Date(emails.clock.now() + 60_000).toISOString()
  const answer = await batch(emails, [
    item({ to: 'a@r.test' }),
    item({ to: 'nobody' }),
    item({ to: ['b@r.test', 'c@r.test'], from: `x@${UNVERIFIED}` }),
    item({ from: 'x@unknown.test' }),
    item({ to: 'd@r.test', send_at: sendAt }),
  ])
  const ids = idsOf(answer)
  const sent = (index: number, domain: string, more: object) => ({
    id: ids[index],
    message_id: `<${ids[index]}@${domain}>`,
    status: 'queued',
    sandbox: false,
    created_at: new Date(emails.clock.now()).toISOString(),
    ...more,
  })
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 202,
    body: {
      operation_id: expect.stringMatching(UUID),
      data: [
        sent(0, 'sender.test', { to: 'a@r.test' }),
        sent(1, UNVERIFIED, { to: 'b@r.test, c@r.test', sandbox: true }),
        sent(2, 'sender.test', { to: 'd@r.test', status: 'scheduled', scheduled_at: sendAt }),
      ],
      errors: [
        { index: 1, error: expect.stringContaining('nobody') },
        { index: 3, error: expect.stringContaining('unknown.test') },
      ],
    },
  })
  const operationId = at(answer.body, 'operation_id')
  for (const id of ids) expect((await emails.detail(id))['operation_id']).toBe(operationId)
  const operation = emails.app.db
    .query('SELECT operation_type, status, total_items, completed_items, failed_items FROM operations')
    .all()
  expect(operation).toEqual([
    { operation_type: 'batch', status: 'completed', total_items: 5, completed_items: 3, failed_items: 2 },
  ])
})

// Proves: batch-3
test.each<[rule: string, body: unknown, field: string]>([
  ['no items', { emails: [] }, 'emails'],
  ['501 items', { emails: Array.from({ length: 501 }, () => item()) }, 'emails'],
  ['an object for items', { emails: { 0: item() } }, 'emails'],
  ['an unknown field', { emails: [item()], dry_run: true }, 'dry_run'],
])('the whole request is a 422: %s', async (_, body, field) => {
  const before = emails.stored()
  expectError(await emails.api('POST', '/v1/emails/batch', body), 422, 'validation_failed', field)
  expect(emails.stored()).toEqual(before)
})

// Proves: batch-2, batch-4
test('each malformed item has an error of its own, and a batch of only those is a 202 without emails', async () => {
  const wrong = [
    null,
    5,
    'text',
    true,
    [],
    [item()],
    {},
    item({ to: null }),
    item({ bogus: 1 }),
    item({ attachments: [{ filename: 'a', content: '', content_type: 'b', bogus: 1 }] }),
  ]
  const { contentParts } = emails.stored()
  const answer = await batch(emails, wrong)
  expect(answer.status).toBe(202)
  expect(at(answer.body, 'data')).toEqual([])
  const errors = at(answer.body, 'errors') as { index: number; error: string }[]
  expect(errors.map(({ index }) => index)).toEqual(wrong.map((_, index) => index))
  for (const { error } of errors) expect(error).toMatch(/^\S.{5,}/)
  expect(errors[7]?.error).toContain('to')
  expect(errors[8]?.error).toContain('bogus')
  expect(errors[9]?.error).toContain('attachments.0.bogus')
  expect(emails.stored()).toMatchObject({ emails: 0, operations: 1, contentParts, recipientsUsed: 0 })
})

// Proves: batch-5
test('500 emails are one operation', async () => {
  const to = Array.from({ length: 500 }, (_, i) => `r${i}@r.test`)
  const answer = await batch(
    emails,
    to.map((address) => item({ to: address, text_body: `Hello ${address}` })),
  )
  expect(answer.status).toBe(202)
  expect(tosOf(answer)).toEqual(to)
  expect(new Set(idsOf(answer)).size).toBe(500)
  expect(emails.stored()).toMatchObject({
    emails: 500,
    recipients: 500,
    events: 500,
    operations: 1,
    recipientsUsed: 500,
  })
})

describe('keys of items', () => {
  // Proves: idem-8
  test('of two items with one key, the second returns the email of the first, and counts nothing', async () => {
    const answer = await batch(emails, [
      item({ idempotency_key: 'k' }),
      item({ to: 'x@r.test' }),
      item({ idempotency_key: 'k', subject: 'Other' }),
    ])
    const ids = idsOf(answer)
    expect(ids[2]).toBe(ids[0] ?? '')
    expect(emails.stored()).toMatchObject({ emails: 2, recipientsUsed: 2 })
  })

  test('of two items with one key, the second returns the email of the first, even if that is sandbox mail', async () => {
    await batch(emails, [item({ idempotency_key: 'k', from: `x@${UNVERIFIED}` }), item({ idempotency_key: 'k' })])
    expect(emails.stored()).toMatchObject({ emails: 1, recipientsUsed: 0 })
  })

  test('if the first item with a key is invalid, the next item may use the key', async () => {
    const answer = await batch(emails, [item({ idempotency_key: 'k', to: 'nobody' }), item({ idempotency_key: 'k' })])
    expect(at(answer.body, 'data')).toHaveLength(1)
    expect(at(answer.body, 'errors')).toMatchObject([{ index: 0 }])
  })

  test('a key used before returns its email, whatever the item contains', async () => {
    const sendAt = new Date(emails.clock.now() + 60_000).toISOString()
    const sent = await emails.accepted({ idempotency_key: 'k', send_at: sendAt })
    emails.clock.advance(3_600_000)
    const answer = await batch(emails, [
      item({ idempotency_key: 'k', send_at: sendAt }),
      item({ idempotency_key: 'k', to: 'nobody' }),
    ])
    expect(answer.body).toEqual({
      operation_id: expect.any(String),
      data: [
        { ...sent, replayed: true },
        { ...sent, replayed: true, mismatch: true },
      ],
      errors: [],
    })
    expect(emails.used()).toBe(1)
  })
})

describe('the header Idempotency-Key', () => {
  // Proves: idem-9
  test('returns the whole stored response for a day', async () => {
    const items = [item(), item({ to: 'nobody' })]
    const first = await batch(emails, items, withKey('k'))
    const stored = emails.stored()
    for (let day = 0; day < 2; day++) {
      expect(await batch(emails, items, withKey('k'))).toMatchObject({ status: 202, body: first.body as object })
      emails.clock.advance(24 * 3_600_000 - 1000)
    }
    expect(emails.stored()).toEqual(stored)
  })

  // Proves: idem-10
  test('with a different body is a 409', async () => {
    await batch(emails, [item()], withKey('k'))
    const stored = emails.stored()
    expectError(await batch(emails, [item({ subject: 'Other' })], withKey('k')), 409, 'idempotency_conflict')
    expectError(await batch(emails, [item(), item()], withKey('k')), 409, 'idempotency_conflict')
    expect(emails.stored()).toEqual(stored)
  })

  test('is independent of the keys of single sends', async () => {
    await emails.accepted({}, withKey('k'))
    expect((await batch(emails, [item()], withKey('k'))).status).toBe(202)
    expect(emails.stored()['emails']).toBe(2)
  })

  test('creates one batch from 20 parallel requests', async () => {
    const items = Array.from({ length: 10 }, (_, i) => item({ to: `r${i}@r.test` }))
    const answers = await Promise.all(Array.from({ length: 20 }, () => batch(emails, items, withKey('k'))))
    expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).toBe(1)
    expect(emails.stored()).toMatchObject({ emails: 10, operations: 1, recipientsUsed: 10, batch_replies: 1 })
  })
})

describe('the quota of a batch', () => {
  // Proves: quota-6
  test('is checked as a whole: if exceeded, nothing is accepted or stored', async () => {
    await using account = await startPlanAccount('free', quotaOf(5))
    const before = account.emails.stored()
    const answer = await account.batch([{ to: ['a@r.test', 'b@r.test', 'c@r.test'] }, { cc: ['d@r.test', 'e@r.test'] }])
    expectError(answer, 429, 'quota_exceeded')
    expect(account.emails.stored()).toEqual(before)
  })

  // Proves: quota-6
  test('does not count invalid, sandbox and repeated items', async () => {
    await using account = await startPlanAccount('free', quotaOf(5))
    await createDomain(account.emails.app, account.actor, 'unverified.test')
    const answer = await account.batch([
      { to: ['a@r.test', 'b@r.test', 'c@r.test', 'd@r.test', 'e@r.test'], idempotency_key: 'k' },
      { to: 'nobody' },
      { from: 'a@unverified.test' },
      { idempotency_key: 'k' },
      { from: 'a@unknown.test' },
    ])
    expect(answer.status).toBe(202)
    expect(at(answer.body, 'data')).toHaveLength(3)
    expect(account.used()).toBe(5)
  })
})

test('storing batches does not block other requests of their account', async () => {
  const { fairScheduler: turns } = emails.app
  let isOver = false
  let mostPieces = 0
  const look = (): void => {
    mostPieces = Math.max(mostPieces, turns.size)
    if (!isOver) setImmediate(look)
  }
  look()
  const items = (name: string) =>
    Array.from({ length: 500 }, (_, i) => item({ from: `x@${UNVERIFIED}`, text_body: `${name} ${i}` }))
  const answers = await Promise.all(['one', 'two', 'three'].map((name) => batch(emails, items(name))))
  isOver = true
  expect(answers.map(({ status }) => status)).toEqual([202, 202, 202])
  // Waiting pieces of all three batches: a few, not one for each email.
  expect(mostPieces).toBeLessThan(20)
})
