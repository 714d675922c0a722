import { expect, test } from 'bun:test'
import { createDomain } from '#features/setup/domains/domains.ts'
import { at, createTestApi } from '#test/support/api.ts'
import { createTestAccount } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

// Proves: account-1, account-2, account-7, billing-5
test('the account shows its plan, its usage this month and when the quota resets', async () => {
  const clock = new ManualClock(Date.UTC(2026, 11, 31, 23, 59))
  await using service = await createTestApi({ clock })
  const { api, app } = service
  const actor = await createTestAccount(app, 'free')
  const key = await service.newKey([], actor)
  await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  const send = await api(
    'POST',
    '/v1/emails',
    { from: 'ada@sender.test', to: ['b@x.test', 'c@x.test'], subject: 'Hi', text_body: 'Hi' },
    { key },
  )
  expect(send.status).toBe(202)
  const read = await api('GET', '/v1/account', undefined, { key })
  expect(read.status).toBe(200)
  expect(read.body).toEqual({
    data: {
      id: actor.accountUuid,
      name: 'Test',
      email: 'owner@tassis.test',
      plan: 'free',
      monthly_quota: 3000,
      emails_sent_this_month: 2,
      quota_reset_at: '2027-01-01T00:00:00.000Z',
      tracking_default: false,
      tracking_privacy: false,
      timezone: 'UTC',
      created_at: '2026-12-31T23:59:00.000Z',
    },
  })
  clock.advance(60_000)
  const january = await api('GET', '/v1/account', undefined, { key })
  expect(at(january.body, 'data', 'emails_sent_this_month')).toBe(0)
  expect(at(january.body, 'data', 'quota_reset_at')).toBe('2027-02-01T00:00:00.000Z')
})

// Proves: account-4, account-6
test('PATCH changes only provided fields, with an audit entry', async () => {
  await using service = await createTestApi()
  const { api } = service
  const renamed = await api('PATCH', '/v1/account', { name: ' Ada Ltd ' })
  expect(renamed.status).toBe(200)
  expect(renamed.body).toMatchObject({ data: { name: 'Ada Ltd', tracking_default: false } })
  const tracked = await api('PATCH', '/v1/account', { tracking_default: true })
  expect(tracked.body).toMatchObject({ data: { name: 'Ada Ltd', tracking_default: true } })
  const discreet = await api('PATCH', '/v1/account', { tracking_privacy: true })
  expect(discreet.body).toMatchObject({ data: { name: 'Ada Ltd', tracking_default: true, tracking_privacy: true } })
  expect((await api('GET', '/v1/account')).body).toEqual(discreet.body)
  const log = await api('GET', '/v1/audit-logs?per_page=3')
  expect(log.body).toMatchObject({
    data: [
      { action: 'account.updated', resource_id: service.actor.accountUuid, metadata: { tracking_privacy: true } },
      { action: 'account.updated', resource_id: service.actor.accountUuid, metadata: { tracking_default: true } },
      { action: 'account.updated', resource_type: 'account', metadata: { name: 'Ada Ltd' } },
    ],
  })
})

// Proves: account-5
test('PATCH without a field, with a blank name or with another field is a 422 that changes nothing', async () => {
  await using service = await createTestApi()
  const before = await service.api('GET', '/v1/account')
  for (const [body, field] of [
    [{}, 'body'],
    [null, 'body'],
    [{ name: '   ' }, 'name'],
    [{ name: 'x'.repeat(201) }, 'name'],
    [{ plan: 'unlimited' }, 'plan'],
  ] as const) {
    const refused = await service.api('PATCH', '/v1/account', body)
    expect([body, refused.status, at(refused.body, 'details', 0, 'field')]).toEqual([body, 422, field])
  }
  expect((await service.api('GET', '/v1/account')).body).toEqual(before.body)
})
