/**
 * @module Sub-accounts in rare situations: the parent's quota is spent, the parent is being deleted, or its plan is not
 * paid yet.
 */
import { expect, test } from 'bun:test'
import { listOpenDeletions, startAccountRemoval } from '#features/lifecycle/privacy/delete-account.ts'
import { hashPassword } from '#features/people/team/passwords.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { addContacts, createContacts, newList } from '#test/support/broadcasts.ts'
import { expectError, NOW } from '#test/support/email-api.ts'
import { createFamily, type Family, PASSWORD, subAccount } from './fixture.ts'

const LATER = new Date(NOW + 3_600_000).toISOString()

/** Runs all deletions, moving the clock forward only when nothing can be done. */
async function deletionsEnd({ app, clock }: Family): Promise<void> {
  const removal = startAccountRemoval(app)
  await eventually(() => {
    const due = Math.min(...listOpenDeletions(app.db).map(({ dueAt }) => dueAt))
    if (Number.isFinite(due) && due > clock.now()) clock.advance(due - clock.now())
    removal.wake()
    return !Number.isFinite(due)
  })
  await removal.stop()
}

test("a send over the parent's quota stores nothing, for a sub-account and for the parent", async () => {
  await using service = await createFamily({ quota: 3 })
  const [one, other] = [await service.sender('one'), await service.sender('other')]
  expect((await one.send({ to: ['a@r.test', 'b@r.test', 'c@r.test'] })).status).toBe(202)
  const before = service.stored()
  expectError(await other.send({ text_body: 'never stored' }), 429, 'quota_exceeded')
  expectError(await service.sendAsParent({ text_body: 'not this either' }), 429, 'quota_exceeded')
  expect(service.stored()).toEqual(before)
})

test("quota of a deleted sub-account's unsent mail, scheduled or in waiting broadcasts, is returned to the parent", async () => {
  await using service = await createFamily({ quota: 30 })
  const shop = await service.sender('shop')
  expect((await shop.send({ to: ['a@r.test', 'b@r.test'] })).status).toBe(202)
  expect((await shop.send({ to: ['a@r.test', 'b@r.test', 'c@r.test'], send_at: LATER })).status).toBe(202)
  const list = await newList(service, 'readers', shop.key)
  await addContacts(service.app, list, createContacts(20))
  const broadcast = {
    contact_list_id: list,
    from_address: 'ada@shop.test',
    subject: 'S',
    text_body: 'T',
    send_at: LATER,
  }
  expect((await service.api('POST', '/v1/emails/broadcast', broadcast, { key: shop.key })).status).toBe(202)
  expect((await service.ask('DELETE', `/v1/accounts/${shop.id}`)).status).toBe(202)
  await deletionsEnd(service)
  // The two recipients of the first email count too: it waited for its first attempt and was not sent.
  const answers = await Promise.all(Array.from({ length: 32 }, () => service.sendAsParent()))
  expect(answers.filter(({ status }) => status === 202).length).toBe(30)
})

test('a sub-account does not outlive its parent if the parent is deleted while the sub-account is created', async () => {
  await using service = await createFamily()
  // The hash of the sub-account's password waits until these are computed.
  const before = Array.from({ length: 8 }, () => hashPassword(PASSWORD, 'somebody'))
  const making = service.ask('POST', '/v1/accounts', subAccount())
  const headers = { authorization: `Bearer ${service.parentKey}`, 'x-confirm-delete': 'DELETE' }
  const deletion = await fetch(`${service.url}/v1/account`, { method: 'DELETE', headers })
  expect(deletion.status).toBe(202)
  await making
  await Promise.all(before)
  expect(
    service.app.db.query('SELECT id FROM accounts WHERE parent_id IS NOT NULL AND deleted_at IS NULL').all(),
  ).toEqual([])
})

test('the quota shown to a sub-account never exceeds that of its parent', async () => {
  await using service = await createFamily({ quota: 500, settings: { TASSIS_PLANS: 'free.monthly_quota=20' } })
  const [none, own] = [await service.sender('none'), await service.sender('own', { monthly_quota: 400 })]
  const told = async () =>
    Promise.all(
      [none, own].map(async ({ key }) =>
        at((await service.api('GET', '/v1/account', undefined, { key })).body, 'data', 'monthly_quota'),
      ),
    )
  expect(await told()).toEqual([500, 400])
  // The parent has bought its plan and not paid yet.
  service.app.db.run('UPDATE accounts SET quota_held = 1 WHERE id = ?', [service.parent.accountId])
  expect(await told()).toEqual([20, 20])
  service.app.db.run('UPDATE accounts SET quota_held = 0, monthly_quota = 900 WHERE id = ?', [service.parent.accountId])
  expect(await told()).toEqual([900, 400])
})
