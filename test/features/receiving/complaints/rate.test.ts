import { expect, test } from 'bun:test'
import { listNewestComplaints, readComplaintRate } from '#features/receiving/complaints/rate.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, hours } from '#platform/units.ts'
import { createTestAccount } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { NOW, UNVERIFIED } from '#test/support/email-api.ts'
import { createComplaints } from './fixture.ts'

const toMany = (domain: string) => ({
  to: Array.from({ length: 10 }, (_, i) => `u${i}@${domain}`),
  transactional: false,
})

// Proves: notify-40
test('the rate of a period is its complaints divided by its deliveries, each counted in the period in which it happened', async () => {
  await using complaints = await createComplaints()
  const { app, actor, clock } = complaints.service
  const rate = (from: number, to: number) => readComplaintRate(app.db, actor.accountId, { from, to })
  expect(rate(0, NOW)).toEqual({ delivered: 0, complaints: 0, rate: null })
  const first = await complaints.delivered(toMany('one.test'))
  for (const index of [0, 1]) await complaints.apply(await complaints.report('standard', first, index))
  clock.advance(days(40))
  const second = await complaints.delivered(toMany('two.test'))
  await complaints.apply(await complaints.report('fraud', first, 2))
  await complaints.apply(await complaints.report('virus', second, 0))
  await complaints.apply(await complaints.report('opt-out', second, 1))
  await complaints.apply(await complaints.report('comcast', second, 2))
  await complaints.apply(await complaints.report('not-spam', second, 3))
  const now = NOW + days(40)
  expect({
    all: rate(0, now),
    first: rate(NOW, NOW + days(39)),
    last: rate(now - days(30), now),
    hourBefore: rate(now - days(30), now - hours(1)),
    ofOther: readComplaintRate(app.db, (await createTestAccount(app)).accountId, { from: 0, to: now }),
  }).toEqual({
    all: { delivered: 20, complaints: 6, rate: 0.3 },
    first: { delivered: 10, complaints: 2, rate: 0.2 },
    last: { delivered: 10, complaints: 4, rate: 0.4 },
    hourBefore: { delivered: 0, complaints: 0, rate: null },
    ofOther: { delivered: 0, complaints: 0, rate: null },
  })
  expectBalanced({ ...complaints.service, delivery: undefined })
})

test('the newest complaints come first, of one account or of all', async () => {
  await using complaints = await createComplaints()
  const { app, actor } = complaints.service
  const email = await complaints.delivered(toMany('one.test'))
  await complaints.apply(await complaints.report('yahoo', email, 0))
  await complaints.apply(await complaints.report('comcast', email, 1), { feedbackLoop: 'Comcast' })
  const expected = ['ReturnPathFBL/1.0', 'Yahoo!-Mail-Feedback/2.0'].map((reporter, i) => ({
    id: expect.any(Number),
    accountId: actor.accountId,
    emailUuid: expect.any(Uint8Array),
    address: i === 0 ? null : 'u0@one.test',
    feedbackType: 'abuse',
    feedbackLoop: i === 0 ? 'Comcast' : null,
    reporter,
    createdAt: NOW,
  }))
  const all = listNewestComplaints(app.db, 10)
  expect(all).toEqual(expected)
  expect(all.map(({ emailUuid }) => emailUuid && formatUuid(emailUuid))).toEqual([email.id, email.id])
  expect(listNewestComplaints(app.db, 1)).toEqual(expected.slice(0, 1))
  expect(listNewestComplaints(app.db, 10, actor.accountId)).toEqual(expected)
  expect(listNewestComplaints(app.db, 10, (await createTestAccount(app)).accountId)).toEqual([])
})

test('sandbox mail does not lower the rate', async () => {
  await using complaints = await createComplaints()
  const { app, actor } = complaints.service
  await complaints.delivered({ ...toMany('one.test'), from: `ada@${UNVERIFIED}` })
  await complaints.delivered({ to: 'bob@one.test' })
  expect(readComplaintRate(app.db, actor.accountId, { from: 0, to: NOW })).toMatchObject({ delivered: 1 })
  expectBalanced({ ...complaints.service, delivery: undefined })
})
