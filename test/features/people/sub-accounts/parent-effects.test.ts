/** @module How changes to a sub-account or its parent affect the mail, plan and abuse stats of the sub-account. */
import { expect, test } from 'bun:test'
import { setSubscription } from '#features/core/accounts/subscription.ts'
import type { App } from '#features/core/app/app.ts'
import { changeSubAccount } from '#features/people/sub-accounts/sub-accounts.ts'
import { startAbuseWatch } from '#features/reporting/abuse/watch.ts'
import { startHeldMailReleaser } from '#features/sending/delivery/verdict/held-mail.ts'
import { hours, seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { NOW } from '#test/support/email-api.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startSink } from '#test/support/sink.ts'
import { createFamily, subAccount } from './fixture.ts'

const ZONE = {
  'many.test': { MX: [{ preference: 10, exchange: 'mx.many.test' }] },
  'mx.many.test': { A: ['127.0.0.1'] },
}

const lastError = (app: App): string | null | undefined =>
  app.db.query<{ error: string | null }, []>('SELECT last_error AS error FROM recipients').get()?.error

test('mail of a disabled sub-account is held, and sent when it is enabled', async () => {
  const clock = new ManualClock(NOW)
  await using sink = await startSink()
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: sink.port, clock })
  const { app, actor } = flow
  const parent = await createTestAccount(app)
  app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [parent.accountId, actor.accountId])
  const releaser = startHeldMailReleaser(app)
  await flow.send({ to: 'bob@many.test', send_at: new Date(clock.now() + hours(1)).toISOString() })
  await changeSubAccount(app, parent, actor.accountUuid, { isActive: false })
  clock.advance(hours(1))
  await eventually(() => lastError(app))
  expect({ lastError: lastError(app), received: sink.messages.length }).toEqual({
    lastError: 'Held: The account is disabled.',
    received: 0,
  })
  await changeSubAccount(app, parent, actor.accountUuid, { isActive: true })
  await eventually(() => sink.messages.length === 1)
  await releaser.stop()
})

test('the plan of a sub-account follows that of its parent; its own quota stays', async () => {
  await using service = await createFamily({ quota: 500 })
  const [own, none] = [await service.made({ monthly_quota: 10 }), await service.made()]
  await service.app.commit.write((tx) =>
    setSubscription(
      tx,
      service.parent.accountId,
      {
        plan: 'starter',
        quotaHeld: false,
        subscriptionId: 's',
        status: 'active',
        billingEmail: null,
        trialEndsAt: null,
      },
      NOW,
    ),
  )
  expect(at((await service.ask('GET', '/v1/accounts')).body, 'data')).toMatchObject([
    { id: none.id, plan: 'starter', monthly_quota: 10_000 },
    { id: own.id, plan: 'starter', monthly_quota: 10 },
  ])
})

test('creating many sub-accounts in an hour pauses the account that created them', async () => {
  await using service = await createFamily({
    settings: { TASSIS_PLANS: 'pro.max_sub_accounts=20' },
  })
  const watch = startAbuseWatch(service.app)
  for (let n = 0; n < 20; n++) await service.ask('POST', '/v1/accounts', subAccount())
  const refused = await eventually(async () => {
    service.clock.advance(seconds(5))
    const answer = await service.sendAsParent()
    return answer.status === 403 && answer
  })
  expect(at(refused.body, 'code')).toBe('account_paused')
  await watch.stop()
})
