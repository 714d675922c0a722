import { describe, expect, test } from 'bun:test'
import { consumeSandboxQuota } from '#features/core/accounts/limits.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, EMAIL, expectError, NOW, UNVERIFIED } from '#test/support/email-api.ts'
import { quotaOf, startPlanAccount } from './plan-account.ts'

describe('the monthly quota', () => {
  // Proves: quota-3
  test('counts every To, Cc and Bcc once, without duplicates', async () => {
    await using account = await startPlanAccount()
    await account.accepted({
      to: ['a@r.test', 'b@r.test', 'A@r.test'],
      cc: ['c@r.test'],
      bcc: ['d@r.test', 'a@r.test'],
    })
    expect(account.used()).toBe(4)
  })

  // Proves: quota-1
  test('rejects the whole of an email that would exceed it, with the time until next month, and stores nothing', async () => {
    await using account = await startPlanAccount('free', quotaOf(4))
    await account.accepted({ to: ['a@r.test', 'b@r.test', 'c@r.test'] })
    const before = account.emails.stored()
    const answer = await account.send({ to: ['x@r.test', 'y@r.test'], idempotency_key: 'k', text_body: 'never stored' })
    expectError(answer, 429, 'quota_exceeded')
    expect(Number(answer.headers.get('retry-after'))).toBe((Date.UTC(2026, 3, 1) - NOW) / 1000)
    expect(account.emails.stored()).toEqual(before)
    expect((await account.send()).status).toBe(202)
  })

  // Proves: quota-3
  test('is renewed on the first of the month, UTC', async () => {
    await using account = await startPlanAccount('free', quotaOf(4))
    await account.accepted({ to: ['a@r.test', 'b@r.test', 'c@r.test', 'd@r.test'] })
    const readAccount = async () => at((await account.api('GET', '/v1/account')).body, 'data')
    expect(await readAccount()).toMatchObject({ quota_reset_at: '2026-04-01T00:00:00.000Z' })
    account.clock.advance(Date.UTC(2026, 3, 1) - NOW - 1)
    expectError(await account.send(), 429, 'quota_exceeded')
    account.clock.advance(1)
    expect(await readAccount()).toMatchObject({ emails_sent_this_month: 0 })
    expect((await account.send()).status).toBe(202)
  })

  // Proves: quota-4
  test('is refunded for cancelled mail in the month in which it was counted', async () => {
    await using account = await startPlanAccount('free', quotaOf(4))
    const sent = await account.accepted({
      to: ['a@r.test', 'b@r.test'],
      bcc: ['c@r.test'],
      send_at: new Date(Date.UTC(2026, 3, 20)).toISOString(),
    })
    expect(account.used()).toBe(3)
    account.clock.advance(Date.UTC(2026, 3, 2) - NOW)
    await account.accepted()
    expect((await account.cancel(sent.id)).status).toBe(200)
    expect(
      account.emails.app.db.query('SELECT month % 12 + 1 AS month, recipients FROM usage ORDER BY month').all(),
    ).toEqual([
      { month: 3, recipients: 0 },
      { month: 4, recipients: 1 },
    ])
  })

  // Proves: quota-5
  test('counts neither sandbox mail nor replays', async () => {
    await using emails = await createEmailApi()
    await emails.accepted({ from: `a@${UNVERIFIED}`, to: ['a@r.test', 'b@r.test'] })
    await emails.accepted({ idempotency_key: 'k' })
    await emails.accepted({ idempotency_key: 'k' })
    expect(emails.used()).toBe(1)
  })

  test('of 0 still allows sandbox mail, which is not refunded when it is cancelled', async () => {
    await using account = await startPlanAccount('free', quotaOf(0))
    expectError(await account.send(), 429, 'quota_exceeded')
    account.emails.app.db.run("UPDATE domains SET verified_at = NULL WHERE domain = 'plan.test'")
    const sent = await account.accepted({ send_at: new Date(NOW + 60_000).toISOString() })
    expect(sent).toMatchObject({ sandbox: true })
    expect((await account.cancel(sent.id)).status).toBe(200)
    expect(account.used()).toBe(0)
  })
})

describe('the send rate', () => {
  const SLOW = { TASSIS_SEND_RATE_PER_SECOND: '2', TASSIS_SEND_BURST: '3' }

  // Proves: quota-1, quota-7
  test('rejects requests over it with the time to wait, and stores nothing', async () => {
    await using account = await startPlanAccount('pro', SLOW)
    const rateOf = ({ headers }: { readonly headers: Headers }) =>
      ['limit', 'remaining', 'reset'].map((name) => headers.get(`ratelimit-${name}`))
    expect(rateOf(await account.send())).toEqual(['3', '2', '1'])
    expect(rateOf(await account.send())).toEqual(['3', '1', '1'])
    expect(rateOf(await account.batch([]))).toEqual([null, null, null])
    await account.accepted()
    const before = account.emails.stored()
    const answer = await account.send({ text_body: 'never stored' })
    expectError(answer, 429, 'rate_limited')
    expect(answer.headers.get('retry-after')).toBe('1')
    expect(rateOf(answer)).toEqual(['3', '0', '1'])
    expect(account.emails.stored()).toEqual(before)
    account.clock.advance(1_000)
    await account.accepted()
    await account.accepted()
    expectError(await account.send(), 429, 'rate_limited')
  })

  test('counts a batch as one request', async () => {
    await using account = await startPlanAccount('pro', { ...SLOW, TASSIS_SEND_BURST: '2' })
    const items = Array.from({ length: 100 }, () => ({}))
    expect((await account.batch(items)).status).toBe(202)
    expect((await account.batch(items)).status).toBe(202)
    expectError(await account.batch(items), 429, 'rate_limited')
  })

  // Proves: quota-11
  test('is separate for each account, and plan unlimited has none', async () => {
    await using account = await startPlanAccount('pro', { ...SLOW, TASSIS_SEND_BURST: '1' })
    await account.accepted()
    expectError(await account.send(), 429, 'rate_limited')
    for (let i = 0; i < 20; i++) await account.emails.accepted()
  })
})

const SANDBOX = { from: `a@${UNVERIFIED}` }

/** A service whose account has five sandbox recipients left today. */
async function start() {
  const emails = await createEmailApi()
  const { app, actor } = emails
  await app.commit.write((tx) => consumeSandboxQuota(app, tx, actor.accountId, 9_995))
  return emails
}

// Proves: quota-8
test('sandbox mail has a daily limit of recipients; more are a 429 that names the limit and stores nothing', async () => {
  await using emails = await start()
  await emails.accepted({ ...SANDBOX, to: ['a@r.test', 'b@r.test', 'c@r.test'] })
  const before = emails.stored()
  const refused = await emails.send({ ...SANDBOX, to: ['d@r.test', 'e@r.test', 'f@r.test'], text_body: 'never stored' })
  expectError(refused, 429, 'sandbox_limit')
  expect(at(refused.body, 'message')).toContain('10000 sandbox recipients')
  expect(refused.headers.get('retry-after')).toBe(String((Date.UTC(2026, 2, 16) - NOW) / 1000))
  expect(emails.stored()).toEqual(before)
  // The limit does not apply to other mail.
  await emails.accepted({ to: ['d@r.test', 'e@r.test', 'f@r.test'] })
  await emails.accepted({ ...SANDBOX, to: ['d@r.test', 'e@r.test'] })
  expectError(await emails.send(SANDBOX), 429, 'sandbox_limit')
  emails.clock.advance(Date.UTC(2026, 2, 16) - NOW)
  await emails.accepted(SANDBOX)
})

// Proves: quota-8
test('parallel sends never exceed the daily sandbox limit', async () => {
  await using emails = await start()
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => emails.send({ ...SANDBOX, text_body: `text ${i}` })),
  )
  expect(answers.map(({ status }) => status).toSorted()).toEqual([...Array(5).fill(202), ...Array(15).fill(429)])
})

// Proves: quota-8
test('the sandbox mail of a batch counts as a whole, without repeats, and sub-accounts share the daily limit of their parent', async () => {
  await using emails = await start()
  const batch = (items: Record<string, unknown>[], key = emails.key) =>
    emails.api('POST', '/v1/emails/batch', { emails: items.map((item) => ({ ...EMAIL, ...item })) }, { key })
  expectError(await batch(Array.from({ length: 6 }, () => SANDBOX)), 429, 'sandbox_limit')
  expect(emails.stored()['emails']).toBe(0)
  const repeated = { ...SANDBOX, idempotency_key: 'k' }
  expect((await batch([repeated, repeated, ...Array.from({ length: 4 }, () => SANDBOX), {}])).status).toBe(202)

  const child = await emails.newAccount()
  emails.app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [emails.actor.accountId, child.accountId])
  await emails.addDomain(child, 'child.test')
  emails.app.db.run("UPDATE domains SET verified_at = NULL WHERE domain = 'child.test'")
  const key = await emails.newKey([], child)
  expectError(await emails.send({ from: 'a@child.test' }, { key }), 429, 'sandbox_limit')
})
