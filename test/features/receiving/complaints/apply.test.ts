import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { applyComplaint } from '#features/receiving/complaints/apply.ts'
import { readComplaintRate } from '#features/receiving/complaints/rate.ts'
import { createTestAccount } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createComplaints, type DeliveredEmail } from './fixture.ts'

let complaints: Awaited<ReturnType<typeof createComplaints>>
beforeEach(async () => {
  complaints = await createComplaints()
})
afterEach(async () => {
  expectBalanced({ ...complaints.service, delivery: undefined })
  await complaints[Symbol.asyncDispose]()
})

const TO_BOB = { to: 'bob@provider.test', transactional: false }
const TO_MANY = {
  to: ['bob@provider.test', 'carl@provider.test'],
  cc: ['dora@provider.test'],
  bcc: ['erin@provider.test'],
  transactional: false,
}

const applied = (email: DeliveredEmail, index = 0) => ({
  kind: 'applied' as const,
  accountId: complaints.service.actor.accountId,
  emailId: email.emailId,
  recipientId: email.recipients[index]?.id ?? 0,
  isSuppressed: true,
})
const counted = (email: DeliveredEmail) => ({
  kind: 'counted' as const,
  accountId: complaints.service.actor.accountId,
  emailId: email.emailId,
})
const ignored = { kind: 'ignored' as const, why: expect.stringMatching(/^[A-Z].*\.$/) }
const unmatched = { kind: 'unmatched' as const, why: expect.stringMatching(/^[A-Z].*\.$/) }

/** Expects that this recipient, and nobody else, has complained. */
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
  const { app, actor } = complaints.service
  return readComplaintRate(app.db, actor.accountId, { from: 0, to: app.clock.now() })
}

// Proves: notify-26, notify-39
test('a complaint is told and counted once a recipient; another recipient of the email has one of his own', async () => {
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

test('a complaint about an address that was suppressed by hand takes the place of that, and is told', async () => {
  const { service } = complaints
  const email = await complaints.delivered(TO_BOB)
  await service.api('POST', '/v1/suppressions', { email_address: 'Bob@provider.test', reason: 'manual' })
  expect(await complaints.apply(await complaints.report('standard', email))).toEqual({
    ...applied(email),
    isSuppressed: true,
  })
  expect([
    complaints.suppressions().map(({ reason, sourceEmailId }) => [reason, sourceEmailId]),
    complaints.events().length,
  ]).toEqual([[['complaint', email.emailId]], 1])
})

test('the suppression is in the audit log, by the system', async () => {
  const email = await complaints.delivered(TO_BOB)
  await complaints.apply(await complaints.report('standard', email))
  const rows = complaints.service.app.db
    .query<Record<string, unknown>, []>(
      "SELECT account_id, actor_type, action, resource_id, metadata FROM audit_logs WHERE action LIKE 'suppression.%'",
    )
    .all()
  expect(rows).toEqual([
    {
      account_id: complaints.service.actor.accountId,
      actor_type: 'system',
      action: 'suppression.created',
      resource_id: 'bob@provider.test',
      metadata: '{"reason":"complaint"}',
    },
  ])
})

describe('a complaint that names none of several recipients', () => {
  // Proves: notify-43
  test('sends no event and suppresses nobody, but counts toward the rate', async () => {
    const email = await complaints.delivered(TO_MANY)
    expect(await complaints.apply(await complaints.report('comcast', email))).toEqual(counted(email))
    expectNothing()
    expect(rate()).toEqual({ delivered: 4, complaints: 1, rate: 0.25 })
  })

  test('counts once a report, and no more often than the email has recipients', async () => {
    const email = await complaints.delivered(TO_MANY)
    const report = await complaints.report('comcast', email)
    expect(await complaints.apply(report, { rawRef: 1001 })).toEqual(counted(email))
    expect(await complaints.apply(report, { rawRef: 1001 })).toEqual(ignored)
    for (const rawRef of [1002, 1003, 1004]) expect(await complaints.apply(report, { rawRef })).toEqual(counted(email))
    for (const rawRef of [1005, 1006]) expect(await complaints.apply(report, { rawRef })).toEqual(ignored)
    expectNothing()
    expect(rate()).toEqual({ delivered: 4, complaints: 4, rate: 1 })
  })

  test('takes a place of those that the email has recipients for; reports of not-spam take none', async () => {
    const email = await complaints.delivered(TO_MANY)
    await complaints.apply(await complaints.report('standard', email, 1))
    const report = await complaints.report('comcast', email)
    for (let i = 0; i < 4; i++) await complaints.apply({ ...report, feedbackType: 'not-spam' })
    for (let i = 0; i < 3; i++) expect(await complaints.apply(report)).toEqual(counted(email))
    expect(await complaints.apply(report)).toEqual(ignored)
    expectComplaint(email, 1)
    expect(rate()).toEqual({ delivered: 4, complaints: 4, rate: 1 })
  })

  test('gives its place to one that names a recipient, which is told and suppresses whatever came before', async () => {
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

test('the name in a report of a known loop finds the recipient in any spelling; a name that is none of them finds nobody', async () => {
  const email = await complaints.delivered({ ...TO_MANY, to: ['bob@provider.test', 'Carl@bücher.test'] })
  const report = await complaints.report('gmail-like', email)
  const apply = (...originalRcptTo: string[]) =>
    complaints.apply({ ...report, originalRcptTo }, { feedbackLoop: 'Yahoo' })
  expect(await apply('mallory@provider.test')).toEqual(counted(email))
  expect(await apply('cARL@Bücher.TEST', 'who@else.test')).toEqual(applied(email, 1))
})

// Proves: notify-42
test('a recipient cannot complain in the name of another: nobody is suppressed by a name in an unproven report', async () => {
  const email = await complaints.delivered(TO_MANY)
  const report = await complaints.report('gmail-like', email)
  expect(await complaints.apply({ ...report, originalRcptTo: ['carl@provider.test'] })).toEqual(counted(email))
  expectNothing()
})

test('reports that anybody can make up keep out none of a known loop: it proves what they have stored', async () => {
  const email = await complaints.delivered({ ...TO_MANY, cc: [], bcc: [] })
  const [nameless, named] = [await complaints.report('comcast', email), await complaints.report('standard', email, 1)]
  const loops = () =>
    complaints.service.app.db
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

test('the address for unsubscribing alone finds its recipient', async () => {
  const email = await complaints.delivered(TO_MANY)
  const report = await complaints.report('unsubscribe-link-only', email)
  const local = complaints.copy(email, 3).unsubscribe_address.split('@').slice(0, 1)
  const alone = { ...report, originalListUnsubscribe: null, ownLocalParts: local }
  expect(await complaints.apply(alone)).toEqual(applied(email, 3))
  expectComplaint(email, 3)
})

describe('a report of not-spam', () => {
  // Proves: notify-27
  test('is kept once, and is no complaint; one may still come', async () => {
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

  test('takes no complaint back', async () => {
    const email = await complaints.delivered(TO_BOB)
    await complaints.apply(await complaints.report('standard', email))
    expect(await complaints.apply(await complaints.report('not-spam', email))).toEqual(ignored)
    expectComplaint(email)
    expect(rate()).toEqual({ delivered: 1, complaints: 1, rate: 1 })
  })

  test('that names nobody is kept no more often than the email has recipients', async () => {
    const email = await complaints.delivered(TO_MANY)
    const report = { ...(await complaints.report('comcast', email)), feedbackType: 'not-spam' as const }
    for (let i = 0; i < 6; i++) expect(await complaints.apply(report)).toEqual(ignored)
    expect(complaints.rows().map(({ type }) => type)).toEqual(Array(4).fill('not-spam'))
    expect(rate()).toEqual({ delivered: 4, complaints: 0, rate: 0 })
  })
})

describe('nobody can complain about what nobody got:', () => {
  test('an email that waits, or ended before it was taken', async () => {
    const email = await complaints.accepted(TO_BOB)
    expect(await complaints.apply(await complaints.report('standard', email))).toEqual(ignored)
    await complaints.deliver('failed')
    expect(await complaints.apply(await complaints.report('standard', email))).toEqual(ignored)
    const many = await complaints.accepted(TO_MANY)
    expect(await complaints.apply(await complaints.report('comcast', many))).toEqual(ignored)
    expectNothing()
    expect(complaints.rows()).toEqual([])
  })

  test.each(['uncertain', 'bounced'] as const)('but one that is %s may have arrived', async (status) => {
    const email = await complaints.accepted(TO_BOB)
    await complaints.deliver(status)
    expect(await complaints.apply(await complaints.report('standard', email))).toEqual(applied(email))
  })

  test('mail of the sandbox', async () => {
    const email = await complaints.delivered({ ...TO_BOB, from: 'ada@sandbox.test' })
    expect(await complaints.apply(await complaints.report('nothing-returned', email))).toEqual(ignored)
    expectNothing()
  })
})

describe('a report that does not fit is', () => {
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

  test('unmatched when the email of its address or link was lost with a restored backup, though another has its row', async () => {
    const email = await complaints.delivered(TO_BOB)
    const report = await complaints.report('unsubscribe-link-only', email)
    const local = complaints.copy(email).return_path.split('@')[0] ?? ''
    const { db } = complaints.service.app
    db.run('UPDATE emails SET uuid = zeroblob(16)')
    const byAddress = { ...report, originalListUnsubscribe: null, ownLocalParts: [local] }
    expect(await complaints.apply(byAddress)).toEqual(unmatched)
    db.run("UPDATE recipients SET address = 'carl@provider.test'")
    expect(await complaints.apply({ ...report, ownLocalParts: [] })).toEqual(unmatched)
    expectNothing()
  })

  test('ignored when its address is of one email and the returned message another one', async () => {
    const [one, other] = [await complaints.delivered(TO_BOB), await complaints.delivered(TO_BOB)]
    const recipientId = one.recipients[0]?.id ?? 0
    for (const name of ['comcast', 'standard', 'unsubscribe-link-only'])
      expect(await complaints.apply(await complaints.report(name, other), { recipientId })).toEqual(ignored)
    const mixed = { ...(await complaints.report('nothing-returned', one)), originalMessageId: other.messageId }
    expect(await complaints.apply(mixed)).toEqual(ignored)
    expectNothing()
  })

  test('unmatched when it came to a tenant and is about mail of another one', async () => {
    const email = await complaints.delivered(TO_BOB)
    const { app, actor } = complaints.service
    const { accountId } = await createTestAccount(app)
    for (const name of ['standard', 'comcast', 'unsubscribe-link-only', 'microsoft-jmrp'])
      expect(await complaints.apply(await complaints.report(name, email), { accountId })).toEqual(unmatched)
    expectNothing()
    expect(await complaints.apply(await complaints.report('comcast', email), { accountId: actor.accountId })).toEqual(
      applied(email),
    )
  })

  test('unmatched when its recipient is gone', async () => {
    const email = await complaints.delivered(TO_BOB)
    const report = await complaints.report('nothing-returned', email)
    expect(await complaints.apply(report, { recipientId: 987_654 })).toEqual(unmatched)
    expectNothing()
  })
})

test('a write that fails after it leaves nothing of the complaint', async () => {
  const email = await complaints.delivered(TO_BOB)
  const report = await complaints.report('standard', email)
  const { app } = complaints.service
  const write = app.commit.write((tx): undefined => {
    applyComplaint(app, tx, report, { rawRef: 1, now: app.eventTime() })
    throw new Error('afterwards')
  })
  await expect(write).rejects.toThrow('afterwards')
  expectNothing()
  expect(complaints.rows()).toEqual([])
  expect(rate()).toEqual({ delivered: 1, complaints: 0, rate: 0 })
})
