import { describe, expect, test } from 'bun:test'
import { addSuppression } from '#features/audience/suppressions/suppressions.ts'
import type { Actor } from '#features/core/app/app.ts'
import { claimLane } from '#features/sending/delivery/attempt/claim.ts'
import { writeOutcome } from '#features/sending/delivery/verdict/outcome.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import {
  createEmailApi,
  EMAIL,
  type EmailApi,
  expectError,
  NOW,
  shareEmailApi,
  UNVERIFIED,
} from '#test/support/email-api.ts'
import { quotaOf, startPlanAccount } from './plan-account.ts'

const emails = shareEmailApi(createEmailApi)

const IN_AN_HOUR = new Date(NOW + 3_600_000).toISOString()
const NOW_TEXT = new Date(NOW).toISOString()

async function suppressAll(
  { app, actor }: EmailApi,
  addresses: readonly string[],
  reason = 'manual',
  of: Actor = actor,
) {
  for (const address of addresses) await addSuppression(app, of, { address, reason })
}

const queued = ({ app }: EmailApi) =>
  app.db.query<{ address: string }, []>('SELECT address FROM recipients WHERE next_at IS NOT NULL ORDER BY id').all()

const statuses = async (emails: EmailApi, id: string) => {
  const detail = await emails.detail(id)
  return [detail['status'], (detail['recipients'] as { status: string }[]).map(({ status }) => status)]
}

// Proves: send-49, status-7, status-19
test('an email to only suppressed addresses is accepted, rejected immediately, and wakes no lane', async () => {
  await suppressAll(emails, ['bob@receiver.test'])
  const woken: unknown[] = []
  emails.app.mailDue.listen((due) => woken.push(due))
  const sent = await emails.accepted()
  expect(sent).toMatchObject({ status: 'rejected', to: 'bob@receiver.test', sandbox: false, created_at: NOW_TEXT })
  expect(await emails.detail(sent.id)).toMatchObject({
    status: 'rejected',
    attempts: 0,
    error_message: 'The address is on the suppression list (manual), so nothing is sent to it.',
    smtp_response: null,
    next_retry_at: null,
    recipients: [{ address: 'bob@receiver.test', status: 'rejected', attempts: 0, next_retry_at: null }],
    events: [
      { type: 'queued', recipient: null, raw_payload: null },
      {
        type: 'rejected',
        recipient: 'bob@receiver.test',
        created_at: NOW_TEXT,
        raw_payload: { reason: 'suppressed', suppression: 'manual' },
      },
    ],
  })
  const page = await emails.api('GET', '/v1/emails?status=rejected')
  expect([at(page.body, 'data', 0, 'id'), at(page.body, 'pagination', 'total')]).toEqual([sent.id, 1])
  expect(queued(emails)).toEqual([])
  expect(emails.used()).toBe(0)
  await emails.app.commit.barrier()
  expect(woken).toEqual([])
  expectBalanced(emails)
})

// Proves: send-49
test('of several recipients, only those that are not suppressed are queued and counted', async () => {
  await suppressAll(emails, ['b@r.test', 'd@other.test'])
  const sent = await emails.accepted({ to: ['a@r.test', 'b@r.test'], cc: ['c@r.test'], bcc: ['d@other.test'] })
  expect(sent).toMatchObject({ status: 'queued', to: 'a@r.test, b@r.test' })
  expect(await statuses(emails, sent.id)).toEqual(['queued', ['queued', 'rejected', 'queued', 'rejected']])
  expect(queued(emails)).toEqual([{ address: 'a@r.test' }, { address: 'c@r.test' }])
  expect(emails.used()).toBe(2)
  expectBalanced(emails)
})

describe('a suppression', () => {
  const spellings: [listed: string, sent: string][] = [
    ['bob@receiver.test', 'BOB@Receiver.TEST'],
    ['BOB@RECEIVER.TEST', 'bob@receiver.test'],
    ['bob@bücher.test', 'bob@xn--bcher-kva.test'],
    ['bob@xn--bcher-kva.test', 'Bob@BÜCHER.test'],
    ['"bob"@receiver.test', 'bob@receiver.test'],
    ['JOS\u00c9@receiver.test', 'jose\u0301@receiver.test'],
    ['bob@receiver.test', 'Bob <bob@receiver.test>'],
  ]
  // Proves: suppress-7
  test('stops mail to every spelling of its address', async () => {
    for (const [listed, to] of spellings) {
      emails.app.db.run('DELETE FROM suppressions')
      await suppressAll(emails, [listed])
      expect({ listed, to, status: (await emails.accepted({ to }))['status'] }).toMatchObject({ status: 'rejected' })
    }
  })

  test('applies to one account only', async () => {
    const other = await emails.newAccount()
    await suppressAll(emails, [EMAIL.to], 'manual', other)
    expect(await emails.accepted()).toMatchObject({ status: 'queued' })
  })

  // Proves: suppress-6
  test('by an unsubscribe stops only mail with transactional: false; any other reason stops all mail', async () => {
    await suppressAll(emails, [EMAIL.to], 'unsubscribe')
    expect(await emails.accepted()).toMatchObject({ status: 'queued' })
    const { id } = await emails.accepted({ transactional: false })
    expect((await emails.detail(id))['events']).toMatchObject([
      { type: 'queued' },
      { type: 'rejected', raw_payload: { reason: 'suppressed', suppression: 'unsubscribe' } },
    ])
    await suppressAll(emails, [EMAIL.to], 'our own reason')
    expect(await emails.accepted()).toMatchObject({ status: 'rejected' })
    // With two suppressions, the error names the one that stops more mail.
    const both = await emails.accepted({ transactional: false })
    expect((await emails.detail(both.id))['error_message']).toContain('(our own reason)')
  })

  // Proves: suppress-6
  test('of one stream stops only marketing of that stream', async () => {
    const { app, actor } = emails
    await emails.api('POST', '/v1/streams', { slug: 'news', name: 'News' })
    await emails.api('POST', '/v1/streams', { slug: 'offers', name: 'Offers' })
    const { id: streamId } = app.db.query<{ id: number }, []>("SELECT id FROM streams WHERE slug = 'news'").get() ?? {
      id: 0,
    }
    await app.commit.write((tx) => {
      const place = { accountId: actor.accountId, address: EMAIL.to, covers: 'marketing', streamId } as const
      suppress(app, tx, { ...place, reason: 'unsubscribe' })
    })
    const statusOf = async (stream: string, transactional: boolean) =>
      (await emails.accepted({ stream, transactional }))['status']
    expect([
      await statusOf('news', false),
      await statusOf('news', true),
      await statusOf('offers', false),
      await statusOf('transactional', false),
    ]).toEqual(['rejected', 'queued', 'queued', 'queued'])
  })

  test('stops sandbox mail as well, which never counts against the quota', async () => {
    await suppressAll(emails, [EMAIL.to])
    expect(await emails.accepted({ from: `a@${UNVERIFIED}`, to: [EMAIL.to, 'x@r.test'] })).toMatchObject({
      status: 'queued',
      sandbox: true,
    })
    expect(queued(emails)).toEqual([{ address: 'x@r.test' }])
    expect(emails.used()).toBe(0)
  })

  test('after a send does not change the replay of its idempotency key', async () => {
    const first = await emails.accepted({ idempotency_key: 'k' })
    await suppressAll(emails, [EMAIL.to])
    expect(await emails.accepted({ idempotency_key: 'k' })).toEqual({ ...first, replayed: true })
    expect(emails.stored()).toMatchObject({ emails: 1 })
  })
})

describe('the quota', () => {
  /** An account of plan free with a quota of 4, and three suppressed addresses. */
  async function startAccount() {
    const account = await startPlanAccount('free', quotaOf(4))
    const SUPPRESSED = ['x@r.test', 'y@r.test', 'z@r.test']
    await suppressAll(account.emails, SUPPRESSED, 'manual', account.actor)
    return { ...account, SUPPRESSED }
  }

  // Proves: quota-5
  test('does not count suppressed recipients, even at its limit', async () => {
    await using account = await startAccount()
    const { SUPPRESSED } = account
    await account.accepted({ to: ['a@r.test', 'b@r.test', 'c@r.test'] })
    const before = account.emails.stored()
    expectError(await account.send({ to: ['d@r.test', 'e@r.test', ...SUPPRESSED] }), 429, 'quota_exceeded')
    expect(account.emails.stored()).toEqual(before)
    expect(await account.accepted({ to: ['d@r.test', ...SUPPRESSED] })).toMatchObject({ status: 'queued' })
    expect(account.used()).toBe(4)
    expect(await account.accepted({ to: SUPPRESSED })).toMatchObject({ status: 'rejected' })
    expectError(await account.send({ to: 'f@r.test' }), 429, 'quota_exceeded')
    // This also holds if the quota was lowered below the usage.
    account.emails.app.db.run('UPDATE accounts SET monthly_quota = 1')
    expect(await account.accepted({ to: SUPPRESSED })).toMatchObject({ status: 'rejected' })
    expectBalanced(account.emails)
  })

  // Proves: quota-6
  test('of a batch does not count suppressed recipients', async () => {
    await using account = await startAccount()
    const { SUPPRESSED } = account
    const before = account.emails.stored()
    const five = ['a', 'b', 'c', 'd', 'e'].map((name) => ({ to: [`${name}@r.test`, 'x@r.test'] }))
    expectError(await account.batch([{ to: SUPPRESSED }, ...five]), 429, 'quota_exceeded')
    expect(account.emails.stored()).toEqual(before)
    const answer = await account.batch([{ to: SUPPRESSED }, ...five.slice(1)])
    expect((at(answer.body, 'data') as { status: string }[]).map(({ status }) => status)).toEqual([
      'rejected',
      'queued',
      'queued',
      'queued',
      'queued',
    ])
    expect(account.used()).toBe(4)
    const rejected = await account.batch([{ to: SUPPRESSED }, { to: 'y@r.test' }])
    expect([rejected.status, account.used()]).toEqual([202, 4])
    expectBalanced(account.emails)
  })

  // Proves: quota-5
  test('is refunded only for the counted recipients of a cancelled email, whose status is cancelled, not rejected', async () => {
    await using account = await startAccount()
    const sent = await account.accepted({ to: ['a@r.test', 'x@r.test', 'b@r.test'], send_at: IN_AN_HOUR })
    expect(sent).toMatchObject({ status: 'scheduled', scheduled_at: IN_AN_HOUR })
    expect(account.used()).toBe(2)
    const answer = await account.cancel(sent.id)
    expect([answer.status, at(answer.body, 'data', 'status')]).toEqual([200, 'cancelled'])
    expect(account.used()).toBe(0)
    expect((await account.detail(sent.id))['recipients']).toMatchObject([
      { status: 'cancelled' },
      { status: 'rejected' },
      { status: 'cancelled' },
    ])
    expectBalanced(account.emails)
  })

  // Proves: quota-5
  test('is refunded once per recipient: for one when it is rejected at its due time, for the other at the cancellation', async () => {
    await using account = await startAccount()
    const { emails } = account
    const { app, clock } = emails
    const sent = await account.accepted({ to: ['a@one.test', 'b@two.test'], send_at: IN_AN_HOUR })
    const { accountId } = account.actor
    await app.commit.write((tx) => {
      suppress(app, tx, { accountId, address: 'a@one.test', reason: 'complaint', covers: 'all' })
    })
    clock.advance(3_600_000)
    const claim = (lane: string) =>
      app.commit.write((tx) => claimLane(app, tx, lane, { limit: 10, now: clock.now() }).length)
    expect(await claim(`${accountId}:one.test`)).toBe(0)
    expect(account.used()).toBe(1)
    expect((await account.detail(sent.id))['status']).toBe('scheduled')
    expect((await account.cancel(sent.id)).status).toBe(200)
    expect(account.used()).toBe(0)
    expect(await claim(`${accountId}:two.test`)).toBe(0)
    expectBalanced(emails)
  })

  test('an email rejected at acceptance cannot be cancelled', async () => {
    await using account = await startAccount()
    const { id, ...sent } = await account.accepted({ to: 'x@r.test', send_at: IN_AN_HOUR })
    expect(sent).toMatchObject({ status: 'rejected', scheduled_at: IN_AN_HOUR })
    expect((await account.detail(id))['events']).toMatchObject([{ type: 'scheduled' }, { type: 'rejected' }])
    expectError(await account.cancel(id), 404, 'email_not_found')
    expectBalanced(account.emails)
  })
})

test('of a concurrent suppression and claim, the first decides, and the quota is refunded at most once', async () => {
  const { app, clock } = emails
  const claim = () =>
    app.commit.write((tx) => claimLane(app, tx, '1:receiver.test', { limit: 10, now: clock.now() }).length)
  const add = () => suppressAll(emails, [EMAIL.to])
  for (const [order, claimed, used] of [
    [() => Promise.all([claim(), add()]), 1, 1],
    [() => Promise.all([add(), claim()]).then(([, n]) => [n] as const), 0, 0],
  ] as const) {
    app.db.run('DELETE FROM suppressions')
    app.db.run("DELETE FROM counters WHERE metric LIKE 'suppressions%'")
    const before = emails.used()
    const { id } = await emails.accepted()
    const [count] = await order()
    expect([count, emails.used() - before]).toEqual([claimed, used])
    expect((await statuses(emails, id))[0]).toBe(claimed === 1 ? 'processing' : 'rejected')
    expect(await claim()).toBe(0)
  }
  expectBalanced(emails)
})

test.each([
  ['a sandbox email suppresses nothing', UNVERIFIED, '1:sandbox', 0],
  ['any other email suppresses its address', 'sender.test', '1:receiver.test', 1],
] as const)('a hard bounce of %s', async (_, domain, lane, suppressions) => {
  const { app, clock } = emails
  const { id } = await emails.accepted({ from: `a@${domain}` })
  await app.commit.write((tx) => {
    for (const claimed of claimLane(app, tx, lane, { limit: 10, now: clock.now() })) {
      const reply = { category: 'invalid_recipient', reply: '550 5.1.1 No such user' } as const
      const verdict = { kind: 'bounced', bounceType: 'hard', isAddressDead: true, ...reply } as const
      writeOutcome(app, tx, { ...claimed, startedAt: undefined }, verdict, undefined)
    }
  })
  expect((await statuses(emails, id))[0]).toBe('bounced')
  expect(emails.stored()).toMatchObject({ suppressions })
  expectBalanced(emails)
})
