import { describe, expect, test } from 'bun:test'
import { type ApiResponse, at } from '#test/support/api.ts'
import { expectError, NOW } from '#test/support/email-api.ts'
import { quotaOf, startPlanAccount } from './plan-account.ts'

const SENDS = 200
const SANDBOX = 'a@sandbox.plan.example'
const SUPPRESSED = 'gone@receiver.test'

/** An account on plan free with this quota, a verified and an unverified domain, and a suppressed address. */
async function startAccount(quota: number) {
  const account = await startPlanAccount('free', quotaOf(quota))
  expect((await account.api('POST', '/v1/domains', { domain: SANDBOX.slice(2) })).status).toBe(201)
  expect((await account.api('POST', '/v1/suppressions', { email_address: SUPPRESSED })).status).toBe(201)
  return {
    ...account,
    readSent: async () => at((await account.api('GET', '/v1/account')).body, 'data', 'emails_sent_this_month'),
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
    expect([account.used(), await account.readSent(), account.emails.stored()['emails']]).toEqual([quota, quota, quota])
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
      { to: `batch-${i}@receiver.test` },
      { to: [`batch-${i}-b@receiver.test`, SUPPRESSED] },
      { from: SANDBOX, to: createRecipients(5, 'sandbox') },
      { from: 'no address' },
    ]
    // How many recipients each send counts if accepted; the quota can reject those that count any.
    const kinds: readonly (readonly [counts: number, ask: (i: number) => Promise<ApiResponse>])[] = [
      [1, () => account.send()],
      [3, (i) => account.send({ to: createRecipients(2, `m-${i}`), cc: createRecipients(1, `n-${i}`) })],
      [2, (i) => account.batch(items(i))],
      [1, () => account.send({ to: ['x@receiver.test', SUPPRESSED] })],
      [0, () => account.send({ idempotency_key: 'seen', to: createRecipients(9, 'other') })],
      [0, () => account.send({ to: SUPPRESSED })],
      [0, () => account.send({ from: SANDBOX, to: createRecipients(9, 'sandbox') })],
    ]
    const cancelled = scheduled.map(({ body }) => account.cancel(at(body, 'data', 'id')))
    const asked = Array.from({ length: SENDS - cancelled.length }, (_, i) => {
      const [counts, ask] = kinds[i % kinds.length] as (typeof kinds)[number]
      return ask(i).then(({ status }) => ({ counts, status }))
    })
    expect((await Promise.all(cancelled)).map(({ status }) => status)).toEqual(Array(10).fill(200))
    const answers = await Promise.all(asked)
    expect([...new Set(answers.filter(({ counts }) => counts === 0).map(({ status }) => status))]).toEqual([202])
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
})
