import { expect, test } from 'bun:test'
import { consumeSandboxQuota } from '#features/core/accounts/limits.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, EMAIL, expectError, NOW, UNVERIFIED } from '#test/support/email-api.ts'

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
