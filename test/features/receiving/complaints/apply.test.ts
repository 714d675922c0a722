import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { applyComplaint } from '#features/receiving/complaints/apply.ts'
import { listComplaints, readComplaintRate } from '#features/receiving/complaints/rate.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, hours } from '#platform/units.ts'
import { createTestAccount } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { NOW, shareEmailApi, UNVERIFIED } from '#test/support/email-api.ts'
import { addComplaints, type Complaints, createComplaintApi, type DeliveredEmail } from './fixture.ts'

const service = shareEmailApi(createComplaintApi)
let complaints: Complaints<typeof service>
beforeEach(() => {
  complaints = addComplaints(service)
})
afterEach(() => expectBalanced(service))

const TO_BOB = { to: 'bob@provider.test', transactional: false }
const TO_MANY = {
  to: ['bob@provider.test', 'carl@provider.test'],
  cc: ['dora@provider.test'],
  bcc: ['erin@provider.test'],
  transactional: false,
}

const applied = (email: DeliveredEmail, index = 0) => ({
  kind: 'applied' as const,
  recipientId: email.recipients[index]?.id ?? 0,
})
const counted = (email: DeliveredEmail) => ({ kind: 'counted' as const, emailId: email.emailId })
const ignored = { kind: 'ignored' as const, why: expect.stringMatching(/^[A-Z].*\.$/) }
const unmatched = { kind: 'unmatched' as const, why: expect.stringMatching(/^[A-Z].*\.$/) }

/** Expects a complaint of this recipient only. */
function expectComplaint(email: DeliveredEmail, index = 0): void {
  const { id, address = '' } = email.recipients[index] ?? {}
  expect(complaints.events()).toEqual([
    { emailId: email.emailId, recipientId: id ?? 0, data: { complainer: address, feedback_type: 'abuse' } },
  ])
  expect(complaints.suppressions()).toEqual([{ address, covers: 0, reason: 'complaint', sourceEmailId: email.emailId }])
}

function expectNothing(): void {
  expect({ events: complaints.events(), suppressions: complaints.suppressions() }).toEqual({
    events: [],
    suppressions: [],
  })
}

const rate = () => {
  const { app, actor } = service
  return readComplaintRate(app.db, actor.accountId, { from: 0, to: app.clock.now() })
}

// Proves: notify-26, notify-39
test('a complaint is emitted and counted once per recipient; another recipient may complain too', async () => {
  const email = await complaints.delivered(TO_MANY)
  const report = await complaints.report('standard', email, 1)
  expect(await complaints.apply(report)).toEqual(applied(email, 1))
  expect(await complaints.apply(report)).toEqual(ignored)
  expect(await complaints.apply({ ...report, feedbackType: 'fraud' })).toEqual(ignored)
  expectComplaint(email, 1)
  expect(await complaints.apply(await complaints.report('yahoo', email, 2))).toEqual(applied(email, 2))
  expect(complaints.events()).toHaveLength(2)
  expect(rate()).toEqual({ delivered: 4, complaints: 2, rate: 0.5 })
})

test('a complaint replaces a manual suppression, and is emitted', async () => {
  const email = await complaints.delivered(TO_BOB)
  await service.api('POST', '/v1/suppressions', { email_address: 'Bob@provider.test', reason: 'manual' })
  expect(await complaints.apply(await complaints.report('standard', email))).toEqual(applied(email))
  expect([
    complaints.suppressions().map(({ reason, sourceEmailId }) => [reason, sourceEmailId]),
    complaints.events().length,
  ]).toEqual([[['complaint', email.emailId]], 1])
})

test('the suppression is in the audit log, with the system as its actor', async () => {
  const email = await complaints.delivered(TO_BOB)
  await complaints.apply(await complaints.report('standard', email))
  const rows = service.app.db
    .query<Record<string, unknown>, []>(
      "SELECT account_id, actor_type, action, resource_id, metadata FROM audit_logs WHERE action LIKE 'suppression.%'",
    )
    .all()
  expect(rows).toEqual([
    {
      account_id: service.actor.accountId,
      actor_type: 'system',
      action: 'suppression.created',
      resource_id: 'bob@provider.test',
      metadata: '{"reason":"complaint"}',
    },
  ])
})

describe('a complaint that identifies none of several recipients', () => {
  // Proves: notify-43
  test('emits no event and suppresses no address, but counts towards the rate', async () => {
    const email = await complaints.delivered(TO_MANY)
    expect(await complaints.apply(await complaints.report('comcast', email))).toEqual(counted(email))
    expectNothing()
    expect(rate()).toEqual({ delivered: 4, complaints: 1, rate: 0.25 })
  })

  test('counts once per report, at most as often as the email has recipients', async () => {
    const email = await complaints.delivered(TO_MANY)
    const report = await complaints.report('comcast', email)
    expect(await complaints.apply(report, { rawRef: 1001 })).toEqual(counted(email))
    expect(await complaints.apply(report, { rawRef: 1001 })).toEqual(ignored)
    for (const rawRef of [1002, 1003, 1004]) expect(await complaints.apply(report, { rawRef })).toEqual(counted(email))
    for (const rawRef of [1005, 1006]) expect(await complaints.apply(report, { rawRef })).toEqual(ignored)
    expectNothing()
    expect(rate()).toEqual({ delivered: 4, complaints: 4, rate: 1 })
  })

  test('counts, like identified complaints, against the number of recipients; not-spam reports do not', async () => {
    const email = await complaints.delivered(TO_MANY)
    await complaints.apply(await complaints.report('standard', email, 1))
    const report = await complaints.report('comcast', email)
    for (let i = 0; i < 4; i++) await complaints.apply({ ...report, feedbackType: 'not-spam' })
    for (let i = 0; i < 3; i++) expect(await complaints.apply(report)).toEqual(counted(email))
    expect(await complaints.apply(report)).toEqual(ignored)
    expectComplaint(email, 1)
    expect(rate()).toEqual({ delivered: 4, complaints: 4, rate: 1 })
  })

  test('is replaced by one that identifies a recipient, which is emitted and suppresses', async () => {
    const email = await complaints.delivered(TO_MANY)
    const report = await complaints.report('comcast', email)
    for (let i = 0; i < 4; i++) await complaints.apply({ ...report, feedbackType: 'fraud' })
    expect(await complaints.apply(await complaints.report('standard', email, 1))).toEqual(applied(email, 1))
    expectComplaint(email, 1)
    expect(complaints.rows().map(({ type, recipientId }) => [type, recipientId])).toEqual([
      ['fraud', null],
      ['fraud', null],
      ['fraud', null],
      ['abuse', email.recipients[1]?.id ?? 0],
    ])
    for (const index of [0, 2, 3]) await complaints.apply(await complaints.report('standard', email, index))
    expect(complaints.events()).toHaveLength(4)
    expect(rate()).toEqual({ delivered: 4, complaints: 4, rate: 1 })
  })

  test('counts when its addresses and links prove two of them', async () => {
    const email = await complaints.delivered(TO_MANY)
    const [one, other] = [await complaints.report('yahoo', email, 1), await complaints.report('yahoo', email, 2)]
    const both = { ...one, originalRcptTo: [], ownLocalParts: [...one.ownLocalParts, ...other.ownLocalParts] }
    expect(await complaints.apply(both)).toEqual(counted(email))
    expectNothing()
  })

  // Proves: notify-43
  test('counts when it names two of them', async () => {
    const email = await complaints.delivered(TO_MANY)
    expect(await complaints.apply(await complaints.report('several-recipients', email, 1))).toEqual(counted(email))
    expectNothing()
    expect(rate()).toEqual({ delivered: 4, complaints: 1, rate: 0.25 })
  })
})

test('a name in a report of a known loop matches a recipient in any spelling; an unknown name matches none', async () => {
  const email = await complaints.delivered({ ...TO_MANY, to: ['bob@provider.test', 'Carl@bücher.test'] })
  const report = await complaints.report('gmail-like', email)
  const apply = (...originalRcptTo: string[]) =>
    complaints.apply({ ...report, originalRcptTo }, { feedbackLoop: 'Yahoo' })
  expect(await apply('mallory@provider.test')).toEqual(counted(email))
  expect(await apply('cARL@Bücher.TEST', 'who@else.test')).toEqual(applied(email, 1))
})

// Proves: notify-42
test('a recipient cannot complain for another: a name in an unproven report suppresses no address', async () => {
  const email = await complaints.delivered(TO_MANY)
  const report = await complaints.report('gmail-like', email)
  expect(await complaints.apply({ ...report, originalRcptTo: ['carl@provider.test'] })).toEqual(counted(email))
  expectNothing()
})

test('forged reports do not displace those of a known loop, whose proof they take over', async () => {
  const email = await complaints.delivered({ ...TO_MANY, cc: [], bcc: [] })
  const [nameless, named] = [await complaints.report('comcast', email), await complaints.report('standard', email, 1)]
  const loops = () =>
    service.app.db
      .query<{ recipientId: number | null; loop: string | null }, []>(
        'SELECT recipient_id AS recipientId, feedback_loop AS loop FROM complaints ORDER BY id',
      )
      .all()
      .map(({ recipientId, loop }) => [recipientId, loop])
  const id = email.recipients[1]?.id ?? 0
  await complaints.apply(nameless)
  await complaints.apply(named)
  expect(loops()).toEqual([
    [null, null],
    [id, null],
  ])
  expect(await complaints.apply(nameless, { feedbackLoop: 'Comcast' })).toEqual(ignored)
  expect(await complaints.apply(named, { feedbackLoop: 'Yahoo' })).toEqual(ignored)
  expect(loops()).toEqual([
    [null, 'Comcast'],
    [id, 'Yahoo'],
  ])
  expect(complaints.events()).toHaveLength(1)
  expect(rate()).toEqual({ delivered: 2, complaints: 2, rate: 1 })
})

test('the unsubscribe address alone identifies its recipient', async () => {
  const email = await complaints.delivered(TO_MANY)
  const report = await complaints.report('unsubscribe-link-only', email)
  const local = complaints.copy(email, 3).unsubscribe_address.split('@').slice(0, 1)
  const alone = { ...report, originalListUnsubscribe: null, ownLocalParts: local }
  expect(await complaints.apply(alone)).toEqual(applied(email, 3))
  expectComplaint(email, 3)
})

describe('a not-spam report', () => {
  // Proves: notify-27
  test('is stored once and is no complaint; a complaint may follow', async () => {
    const email = await complaints.delivered(TO_BOB)
    const report = await complaints.report('not-spam', email)
    expect(await complaints.apply(report)).toEqual(ignored)
    expect(await complaints.apply(report)).toEqual(ignored)
    expectNothing()
    expect(complaints.rows().map(({ type, recipientId }) => ({ type, recipientId }))).toEqual([
      { type: 'not-spam', recipientId: email.recipients[0]?.id ?? 0 },
    ])
    expect(rate()).toEqual({ delivered: 1, complaints: 0, rate: 0 })
    expect(await complaints.apply(await complaints.report('standard', email))).toEqual(applied(email))
    expect(rate()).toEqual({ delivered: 1, complaints: 1, rate: 1 })
  })

  test('reverts no complaint', async () => {
    const email = await complaints.delivered(TO_BOB)
    await complaints.apply(await complaints.report('standard', email))
    expect(await complaints.apply(await complaints.report('not-spam', email))).toEqual(ignored)
    expectComplaint(email)
    expect(rate()).toEqual({ delivered: 1, complaints: 1, rate: 1 })
  })

  test('without a name is stored at most as often as the email has recipients', async () => {
    const email = await complaints.delivered(TO_MANY)
    const report = { ...(await complaints.report('comcast', email)), feedbackType: 'not-spam' as const }
    for (let i = 0; i < 6; i++) expect(await complaints.apply(report)).toEqual(ignored)
    expect(complaints.rows().map(({ type }) => type)).toEqual(Array(4).fill('not-spam'))
    expect(rate()).toEqual({ delivered: 4, complaints: 0, rate: 0 })
  })
})

describe('a report about', () => {
  test('an email that is queued, or ended before it was accepted, is ignored', async () => {
    const email = await complaints.accepted(TO_BOB)
    expect(await complaints.apply(await complaints.report('standard', email))).toEqual(ignored)
    await complaints.deliver('failed')
    expect(await complaints.apply(await complaints.report('standard', email))).toEqual(ignored)
    const many = await complaints.accepted(TO_MANY)
    expect(await complaints.apply(await complaints.report('comcast', many))).toEqual(ignored)
    expectNothing()
    expect(complaints.rows()).toEqual([])
  })

  test.each(['uncertain', 'bounced'] as const)(
    'an email that is %s is applied, because it may have arrived',
    async (status) => {
      const email = await complaints.accepted(TO_BOB)
      await complaints.deliver(status)
      expect(await complaints.apply(await complaints.report('standard', email))).toEqual(applied(email))
    },
  )

  test('sandbox mail is ignored', async () => {
    const email = await complaints.delivered({ ...TO_BOB, from: 'ada@sandbox.test' })
    expect(await complaints.apply(await complaints.report('nothing-returned', email))).toEqual(ignored)
    expectNothing()
  })
})

describe('a mismatching report is', () => {
  test('unmatched when it names nothing of ours', async () => {
    const email = await complaints.delivered(TO_BOB)
    const report = { ...(await complaints.report('gmail-like', email)), originalRcptTo: ['bob@provider.test'] }
    const uuid = email.messageId.slice(1, 37)
    const ids = [
      null,
      '<report-1@provider.test>',
      '<0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000@sender.test>',
      `<${uuid}@other.test>`,
      `<${uuid}@sender.test.other.test>`,
      `<${uuid}>`,
      `<${'0'.repeat(36)}@sender.test>`,
      `<${'-'.repeat(36)}@sender.test>`,
    ]
    for (const originalMessageId of ids)
      expect(await complaints.apply({ ...report, originalMessageId })).toEqual(unmatched)
    expect(await complaints.apply({ ...report, originalMessageId: email.messageId.toUpperCase() })).toEqual(
      applied(email),
    )
  })

  test('unmatched when its addresses and links are not ours', async () => {
    const email = await complaints.delivered(TO_BOB)
    const report = await complaints.report('unsubscribe-link-only', email)
    const [, local = ''] = /^(b-[^@]+)@/.exec(complaints.copy(email).return_path) ?? []
    const forged = `${local.slice(0, -1)}${local.endsWith('a') ? 'b' : 'a'}`
    const link = report.originalListUnsubscribe ?? ''
    for (const change of [
      { originalListUnsubscribe: null },
      { originalListUnsubscribe: `${link.slice(0, -4)}AAA>` },
      { originalListUnsubscribe: null, ownLocalParts: [forged, `u-${local.slice(2)}`] },
    ])
      expect(await complaints.apply({ ...report, ...change })).toEqual(unmatched)
    expectNothing()
  })

  test('unmatched when the email of its address or link was lost with a restored backup, even if another has its row', async () => {
    const email = await complaints.delivered(TO_BOB)
    const report = await complaints.report('unsubscribe-link-only', email)
    const local = complaints.copy(email).return_path.split('@')[0] ?? ''
    const { db } = service.app
    db.run('UPDATE emails SET uuid = zeroblob(16)')
    const byAddress = { ...report, originalListUnsubscribe: null, ownLocalParts: [local] }
    expect(await complaints.apply(byAddress)).toEqual(unmatched)
    db.run("UPDATE recipients SET address = 'carl@provider.test'")
    expect(await complaints.apply({ ...report, ownLocalParts: [] })).toEqual(unmatched)
    expectNothing()
  })

  test('ignored when its address and its returned message belong to different emails', async () => {
    const [one, other] = [await complaints.delivered(TO_BOB), await complaints.delivered(TO_BOB)]
    const recipientId = one.recipients[0]?.id ?? 0
    for (const name of ['comcast', 'standard', 'unsubscribe-link-only'])
      expect(await complaints.apply(await complaints.report(name, other), { recipientId })).toEqual(ignored)
    const mixed = { ...(await complaints.report('nothing-returned', one)), originalMessageId: other.messageId }
    expect(await complaints.apply(mixed)).toEqual(ignored)
    expectNothing()
  })

  test('unmatched when it reached one tenant and concerns mail of another', async () => {
    const email = await complaints.delivered(TO_BOB)
    const { app, actor } = service
    const { accountId } = await createTestAccount(app)
    for (const name of ['standard', 'comcast', 'unsubscribe-link-only', 'microsoft-jmrp'])
      expect(await complaints.apply(await complaints.report(name, email), { accountId })).toEqual(unmatched)
    expectNothing()
    expect(await complaints.apply(await complaints.report('comcast', email), { accountId: actor.accountId })).toEqual(
      applied(email),
    )
  })

  test('unmatched when its recipient was deleted', async () => {
    const email = await complaints.delivered(TO_BOB)
    const report = await complaints.report('nothing-returned', email)
    expect(await complaints.apply(report, { recipientId: 987_654 })).toEqual(unmatched)
    expectNothing()
  })
})

test('a failed write later in the transaction leaves nothing of the complaint', async () => {
  const email = await complaints.delivered(TO_BOB)
  const report = await complaints.report('standard', email)
  const { app } = service
  const write = app.commit.write((tx): undefined => {
    applyComplaint(app, tx, report, { rawRef: 1, now: app.eventTime() })
    throw new Error('afterwards')
  })
  await expect(write).rejects.toThrow('afterwards')
  expectNothing()
  expect(complaints.rows()).toEqual([])
  expect(rate()).toEqual({ delivered: 1, complaints: 0, rate: 0 })
})

const toMany = (domain: string) => ({
  to: Array.from({ length: 10 }, (_, i) => `u${i}@${domain}`),
  transactional: false,
})

// Proves: notify-40
test('the rate of a period is its complaints divided by its deliveries, each counted in the period in which it happened', async () => {
  const { app, actor, clock } = service
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
})

test('the newest complaints come first, of one account or of all', async () => {
  const { app, actor } = service
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
  const listNewest = (limit: number, accountId?: number) =>
    listComplaints(app.db, accountId, { limit, offset: 0 }).complaints
  const all = listNewest(10)
  expect(all).toEqual(expected)
  expect(all.map(({ emailUuid }) => emailUuid && formatUuid(emailUuid))).toEqual([email.id, email.id])
  expect(listNewest(1)).toEqual(expected.slice(0, 1))
  expect(listNewest(10, actor.accountId)).toEqual(expected)
  expect(listNewest(10, (await createTestAccount(app)).accountId)).toEqual([])
})

test('sandbox mail does not lower the rate', async () => {
  const { app, actor } = service
  await complaints.delivered({ ...toMany('one.test'), from: `ada@${UNVERIFIED}` })
  await complaints.delivered({ to: 'bob@one.test' })
  expect(readComplaintRate(app.db, actor.accountId, { from: 0, to: NOW })).toMatchObject({ delivered: 1 })
})
