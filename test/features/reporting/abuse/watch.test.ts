/**
 * @module Pauses by an account's rates: from real bounces to a webhook, a mail to the owner, rejections and held mail.
 */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { getAccount } from '#features/core/accounts/accounts.ts'
import { toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { applyComplaint } from '#features/receiving/complaints/apply.ts'
import { resumeAccount } from '#features/reporting/abuse/pause.ts'
import { findExcess, readAbuseStats } from '#features/reporting/abuse/rates.ts'
import { startAbuseWatch } from '#features/reporting/abuse/watch.ts'
import type { FeedbackReport } from '#protocols/arf/parse.ts'
import { eventually } from '#test/support/app.ts'
import { EMAIL, expectError } from '#test/support/email-api.ts'
import { DELIVERED, dataOf, only, startWatched } from './fixture.ts'

// Events due within 30 s of the test clock may take longer on a busy machine.
setDefaultTimeout(90_000)

// Proves: notify-41
test.each([
  ['nothing', 0, 0, 0, 0, 0, undefined],
  ['too little mail, all of it bounced', 0, 199, 0, 0, 0, undefined],
  ['enough mail, all of it bounced', 0, 200, 0, 0, 0, 'bounces'],
  ['just below the bounce rate', 181, 20, 0, 0, 0, undefined],
  ['at the bounce rate', 180, 20, 0, 0, 0, 'bounces'],
  ['just below the complaint rate', 2000, 0, 5, 5, 2, undefined],
  ['at the complaint rate', 2000, 0, 6, 6, 2, 'complaints'],
  ['at the complaint rate with too few complaints', 1000, 0, 4, 4, 2, undefined],
  ['at the complaint rate with the fewest complaints', 1000, 0, 5, 3, 2, 'complaints'],
  ['many complaints of two recipients', 1000, 0, 50, 2, 2, undefined],
  ['many complaints by one provider', 1000, 0, 50, 50, 1, undefined],
  ['complaints about mail of earlier days', 190, 15, 50, 50, 5, undefined],
] as const)(
  '%s: %d delivered, %d bounced and %d complaints of %d recipients by %d providers give %p',
  (_, delivered, bounced, complained, complainers, complaintProviders, excess) => {
    expect(findExcess({ delivered, bounced, complained, complainers, complaintProviders })).toBe(excess)
  },
)

const NO_COMPLAINTS = { complained: 0, complainers: 0, complaintProviders: 0 }

// Proves: account-14, account-15, notify-29
test('an account whose mail bounces too often is paused: webhook within 30 s, owner mailed once, sends rejected', async () => {
  await using service = await startWatched()
  const { app, api, actor, receiver, sink, clock } = service
  await service.addWebhook(['account.auto_paused'])
  await service.addOutcomes(160, 30)
  await service.sendAll(10, 2)
  const tookMs = await service.within30s(() => receiver.requests.length > 0)
  expect(tookMs).toBeLessThanOrEqual(30_000)
  const reason = 'Too many of its emails went to addresses that do not exist or refuse them.'
  expect(only(receiver.requests)).toEqual({
    event: 'account.auto_paused',
    event_id: expect.any(String),
    account_id: actor.accountUuid,
    timestamp: expect.any(String),
    source: 'reputation',
    reason,
  })
  const notices = () => sink.messages.filter(({ rcptTo }) => rcptTo.includes('owner@tassis.test'))
  await eventually(() => notices().length > 0)
  clock.advance(60_000)
  await eventually(() => app.db.query('SELECT 1 FROM notices').all().length === 0)
  expect(notices().map(({ raw }) => /Subject: (.*)\r\n/.exec(raw)?.[1])).toEqual(['Sending is paused on your account'])

  const refused = await service.send()
  expectError(refused, 403, 'account_paused')
  expect(JSON.stringify(refused.body)).toContain(reason)
  // No threshold and no number.
  expect(JSON.stringify(refused.body)).not.toMatch(/\d+ ?%|per mille|1,000/)
  expectError(await api('POST', '/v1/emails/batch', { emails: [EMAIL] }), 403, 'account_paused')
  expect(dataOf(await api('GET', '/v1/account'))['paused']).toEqual({
    since: expect.any(String),
    source: 'reputation',
    reason,
  })
})

test('rates count only since the account was resumed, also within the hour', async () => {
  await using service = await startWatched()
  const { app, actor, clock, sink } = service
  const pauses = () => app.db.query<{ n: number }, []>('SELECT count(*) AS n FROM abuse_findings').get()?.n
  await service.addOutcomes(160, 30)
  await service.sendAll(10, 2)
  await service.within30s(() => pauses() === 1)
  await eventually(
    () => sink.messages.some(({ rcptTo }) => rcptTo.includes('owner@tassis.test')) && service.count(DELIVERED) === 11,
  )
  await app.commit.write((tx) =>
    resumeAccount(app, tx, toOperatorActor(getAccount(app.config, app.db, actor.accountId))),
  )
  expect(readAbuseStats(app.db, actor.accountId, app.eventTime())).toEqual({
    delivered: 0,
    bounced: 0,
    ...NO_COMPLAINTS,
  })
  await service.addOutcomes(171, 19)
  await service.sendAll(9, 1)
  expect(readAbuseStats(app.db, actor.accountId, app.eventTime())).toEqual({
    delivered: 180,
    bounced: 20,
    ...NO_COMPLAINTS,
  })
  await service.within30s(() => pauses() === 2)
  clock.advance(25 * 3_600_000)
  expect(readAbuseStats(app.db, actor.accountId, app.eventTime())).toEqual({
    delivered: 0,
    bounced: 0,
    ...NO_COMPLAINTS,
  })
})

// Proves: account-15
test('complaints from known feedback loops pause, also those that name none of several recipients', async () => {
  await using service = await startWatched()
  const { app, actor } = service
  await service.addOutcomes(185, 0)
  await service.sendAll(9, 0)
  const emails = []
  for (const number of [1, 2, 3]) {
    const email = await service.accepted({ to: [`yes-a${number}@receiver.test`, `yes-b${number}@receiver.test`] })
    await service.sent(email.id)
    emails.push(email)
  }
  let rawRef = 0
  const complain = async ({ message_id }: { message_id?: unknown }, feedbackLoop: string, named: string[]) => {
    const report = { ...REPORT, originalMessageId: String(message_id), originalRcptTo: named }
    const result = await app.commit.write((tx) =>
      applyComplaint(app, tx, report, { rawRef: ++rawRef, now: app.eventTime(), feedbackLoop }),
    )
    return result.kind
  }
  const [first = {}, second = {}, third = {}] = emails
  expect(await complain(first, 'Yahoo', ['yes-a1@receiver.test'])).toBe('applied')
  expect(await complain(first, 'Yahoo', ['yes-b1@receiver.test'])).toBe('applied')
  expect(await complain(second, 'Yahoo', ['yes-a2@receiver.test'])).toBe('applied')
  expect(await complain(second, 'Yahoo', [])).toBe('counted')
  const pause = () =>
    app.db
      .query<{ reason: string }, []>('SELECT pause_reason AS reason FROM accounts WHERE paused_at IS NOT NULL')
      .get()
  await startAbuseWatch(app).stop()
  expect(pause()).toBeNull()
  expect(await complain(third, 'Microsoft', [])).toBe('counted')
  await service.within30s(pause)
  expect([pause()?.reason, readAbuseStats(app.db, actor.accountId, app.eventTime())]).toEqual([
    'Too many recipients complained about its emails.',
    { delivered: 200, bounced: 0, complained: 5, complainers: 3, complaintProviders: 2 },
  ])
})

const REPORT: FeedbackReport = {
  feedbackType: 'abuse',
  userAgent: 'Test/1',
  reportingMta: null,
  originalRcptTo: [],
  originalMessageId: null,
  originalListUnsubscribe: null,
  ownLocalParts: [],
}

test('accounts on unmonitored plans are never paused for their rates', async () => {
  await using service = await startWatched({ TASSIS_PLANS: 'unlimited.abuse_watch=false' })
  await service.addOutcomes(0, 195)
  await service.sendAll(5, 10)
  // The watch checks immediately, and has finished when it stops.
  const watch = startAbuseWatch(service.app)
  await watch.stop()
  expect((await service.send()).status).toBe(202)
  expect(service.app.db.query('SELECT 1 FROM abuse_findings').all()).toEqual([])
})
