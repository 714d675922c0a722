import { describe, expect, test } from 'bun:test'
import { type ApiResponse, at } from '#test/support/api.ts'
import { createTestAccount } from '#test/support/app.ts'
import { createEmailApi, expectError, NOW, UUID } from '#test/support/email-api.ts'

const SENDS = 200
const FROM = 'a@plan.test'
const SANDBOX = 'a@sandbox.plan.example'
const SUPPRESSED = 'gone@receiver.test'

/** An account on plan free with this quota, a verified and an unverified domain, and a suppressed address. */
async function startAccount(quota: number) {
  const service = await createEmailApi({ settings: { TASSIS_PLANS: `free.monthly_quota=${quota}` } })
  const actor = await createTestAccount(service.app, 'free')
  await service.addDomain(actor, 'plan.test')
  const key = await service.newKey([], actor)
  const api = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    service.api(method, path, body, { key, headers })
  expect((await api('POST', '/v1/domains', { domain: SANDBOX.slice(2) })).status).toBe(201)
  expect((await api('POST', '/v1/suppressions', { email_address: SUPPRESSED })).status).toBe(201)
  const count = (sql: string): number =>
    service.app.db.query<{ n: number }, [number]>(sql).get(actor.accountId)?.n ?? Number.NaN
  return {
    api,
    clock: service.clock,
    send: (more: Record<string, unknown> = {}) =>
      api('POST', '/v1/emails', { from: FROM, to: 'b@receiver.test', subject: 'S', text_body: 'T', ...more }),
    used: () => service.used(actor),
    readSent: async () => at((await api('GET', '/v1/account')).body, 'data', 'emails_sent_this_month'),
    emails: () => count('SELECT COUNT(*) AS n FROM emails WHERE account_id = ?'),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

const countsOf = (answers: readonly ApiResponse[]): Record<number, number> =>
  Object.fromEntries([202, 429].map((wanted) => [wanted, answers.filter(({ status }) => status === wanted).length]))

const createRecipients = (n: number, name: string): string[] =>
  Array.from({ length: n }, (_, i) => `${name}-${i}@receiver.test`)

describe('at the edge of the quota', () => {
  // Proves: quota-2
  test.each([1, 137])('200 parallel sends: exactly the %i that fit are accepted', async (quota) => {
    await using account = await startAccount(quota)
    const answers = await Promise.all(Array.from({ length: SENDS }, (_, i) => account.send({ subject: `S ${i}` })))
    expect(countsOf(answers)).toEqual({ 202: quota, 429: SENDS - quota })
    for (const answer of answers.filter(({ status }) => status === 429)) expectError(answer, 429, 'quota_exceeded')
    expect([account.used(), await account.readSent(), account.emails()]).toEqual([quota, quota, quota])
  })

  test('200 parallel emails with three recipients: those that fit completely are accepted, and emails with one recipient use the rest', async () => {
    await using account = await startAccount(50)
    const email = (i: number) => ({ to: createRecipients(2, `to-${i}`), bcc: createRecipients(1, `bcc-${i}`) })
    const answers = await Promise.all(Array.from({ length: SENDS }, (_, i) => account.send(email(i))))
    expect(countsOf(answers)).toEqual({ 202: 16, 429: SENDS - 16 })
    expect(account.used()).toBe(48)
    const singles = await Promise.all(Array.from({ length: 10 }, () => account.send()))
    expect(countsOf(singles)).toEqual({ 202: 2, 429: 8 })
    expect([account.used(), await account.readSent()]).toEqual([50, 50])
  })

  test('200 parallel sends with 20 keys: each key counts once', async () => {
    await using account = await startAccount(15)
    const answers = await Promise.all(
      Array.from({ length: SENDS }, (_, i) => account.send({ idempotency_key: `key-${i % 20}` })),
    )
    const ids = answers.filter(({ status }) => status === 202).map(({ body }) => at(body, 'data', 'id'))
    expect({ emails: new Set(ids).size, accepted: ids.length, used: account.used() }).toEqual({
      emails: 15,
      accepted: 150,
      used: 15,
    })
  })

  // Proves: quota-2
  test('parallel requests of all kinds use exactly the quota', async () => {
    const quota = 120
    await using account = await startAccount(quota)
    const later = new Date(NOW + 3_600_000).toISOString()
    const scheduled = await Promise.all(
      Array.from({ length: 10 }, (_, i) => account.send({ to: createRecipients(2, `later-${i}`), send_at: later })),
    )
    expect(account.used()).toBe(20)
    const original = await account.send({ idempotency_key: 'seen' })
    expect(original.status).toBe(202)
    const items = (i: number) => [
      { from: FROM, to: `batch-${i}@receiver.test`, subject: 'S', text_body: 'T' },
      { from: FROM, to: [`batch-${i}-b@receiver.test`, SUPPRESSED], subject: 'S', text_body: 'T' },
      { from: SANDBOX, to: createRecipients(5, 'sandbox'), subject: 'S', text_body: 'T' },
      { from: 'no address', to: 'x@receiver.test', subject: 'S', text_body: 'T' },
    ]
    // How many recipients each send counts if accepted, and whether the quota can reject it.
    const kinds = [
      { counts: 1, isFree: false, ask: () => account.send() },
      {
        counts: 3,
        isFree: false,
        ask: (i: number) => account.send({ to: createRecipients(2, `m-${i}`), cc: createRecipients(1, `n-${i}`) }),
      },
      { counts: 2, isFree: false, ask: (i: number) => account.api('POST', '/v1/emails/batch', { emails: items(i) }) },
      { counts: 1, isFree: false, ask: () => account.send({ to: ['x@receiver.test', SUPPRESSED] }) },
      {
        counts: 0,
        isFree: true,
        ask: () => account.send({ idempotency_key: 'seen', to: createRecipients(9, 'other') }),
      },
      { counts: 0, isFree: true, ask: () => account.send({ to: SUPPRESSED }) },
      { counts: 0, isFree: true, ask: () => account.send({ from: SANDBOX, to: createRecipients(9, 'sandbox') }) },
    ]
    const cancelled = scheduled.map(({ body }) => account.api('POST', `/v1/emails/${at(body, 'data', 'id')}/cancel`))
    const asked = Array.from({ length: SENDS - cancelled.length }, (_, i) => {
      const kind = kinds[i % kinds.length]
      if (!kind) throw new Error('no kind')
      return kind.ask(i).then(({ status }) => ({ ...kind, status }))
    })
    expect((await Promise.all(cancelled)).map(({ status }) => status)).toEqual(Array(10).fill(200))
    const answers = await Promise.all(asked)
    expect([...new Set(answers.filter(({ isFree }) => isFree).map(({ status }) => status))]).toEqual([202])
    expect([...new Set(answers.map(({ status }) => status))].sort()).toEqual([202, 429])
    const counted = answers.reduce((sum, { counts, status }) => sum + (status === 202 ? counts : 0), 0)
    const used = 1 + counted
    expect([account.used(), await account.readSent()]).toEqual([used, used])
    expect(used).toBeLessThanOrEqual(quota)
    // The remaining quota can be used completely, but not exceeded.
    const rest = await Promise.all(Array.from({ length: quota - used + 5 }, () => account.send()))
    expect(countsOf(rest)).toEqual({ 202: quota - used, 429: 5 })
    expect(account.used()).toBe(quota)
  })

  // Proves: quota-2
  test('a rejected email can be sent at quota_reset_at, and not before', async () => {
    await using account = await startAccount(1)
    const first = await account.send()
    expect(at(first.body, 'data', 'id')).toMatch(UUID)
    const refused = await account.send()
    expectError(refused, 429, 'quota_exceeded')
    const reset = at((await account.api('GET', '/v1/account')).body, 'data', 'quota_reset_at')
    const waitMs = Number(refused.headers.get('retry-after')) * 1000
    expect(Date.parse(String(reset)) - NOW).toBe(waitMs)
    account.clock.advance(waitMs - 1)
    expectError(await account.send(), 429, 'quota_exceeded')
    account.clock.advance(1)
    expect(await account.readSent()).toBe(0)
    expect((await account.send()).status).toBe(202)
    expect(await account.readSent()).toBe(1)
  })
})
