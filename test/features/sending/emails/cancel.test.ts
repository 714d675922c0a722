import { describe, expect, test } from 'bun:test'
import { statusName } from '#features/sending/queue/status.ts'
import { hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi, expectError, NOW, shareEmailApi, UNVERIFIED } from '#test/support/email-api.ts'
import { claimDueTo } from '#test/support/lanes.ts'

const emails = shareEmailApi(createEmailApi)

const IN_AN_HOUR = new Date(NOW + 3_600_000).toISOString()
const cancel = (emails: EmailApi, id: string, body?: unknown) => emails.api('POST', `/v1/emails/${id}/cancel`, body)

// Proves: email-20, status-8, status-14, audit-3
test('a scheduled email is cancelled: send response, status, event, audit row, nothing left in the queue', async () => {
  const sent = await emails.accepted({ to: ['a@r.test', 'b@r.test'], bcc: ['c@r.test'], send_at: IN_AN_HOUR })
  emails.clock.advance(1_000)
  const answer = await cancel(emails, sent.id)
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 200,
    body: { data: { ...sent, status: 'cancelled' } },
  })
  expect(await emails.detail(sent.id)).toMatchObject({
    status: 'cancelled',
    updated_at: new Date(NOW + 1_000).toISOString(),
    recipients: [{ status: 'cancelled' }, { status: 'cancelled' }, { status: 'cancelled' }],
    events: [
      { event_type: 'scheduled' },
      { event_type: 'cancelled', created_at: new Date(NOW + 1_000).toISOString(), recipient: null },
    ],
  })
  expect(emails.used()).toBe(0)
  expect(emails.app.db.query("SELECT COUNT(*) AS n FROM audit_logs WHERE action = 'email.cancelled'").get()).toEqual({
    n: 1,
  })
  expect(emails.app.db.query('SELECT COUNT(*) AS n FROM recipients WHERE next_at IS NOT NULL').get()).toEqual({ n: 0 })
})

describe('404, and nothing changes, for an email that is', () => {
  // Proves: email-21
  test('queued', async () => {
    const { id } = await emails.accepted()
    const stored = emails.stored()
    expectError(await cancel(emails, id), 404, 'email_not_found')
    expect(emails.stored()).toEqual(stored)
    expect((await emails.detail(id))['status']).toBe('queued')
  })

  // Proves: email-21
  test('cancelled already', async () => {
    const { id } = await emails.accepted({ send_at: IN_AN_HOUR })
    await cancel(emails, id)
    const stored = emails.stored()
    expectError(await cancel(emails, id), 404, 'email_not_found')
    expect(emails.stored()).toEqual(stored)
  })
})

test('a request with an empty body of any kind is accepted', async () => {
  for (const body of ['', 'null', '{}', '[]']) {
    const { id } = await emails.accepted({ send_at: IN_AN_HOUR })
    expect((await emails.raw(`/v1/emails/${id}/cancel`, body)).status).toBe(200)
  }
})

test('of 20 parallel cancellations, one wins, and the quota is refunded once', async () => {
  await emails.accepted()
  const { id } = await emails.accepted({ to: ['a@r.test', 'b@r.test'], send_at: IN_AN_HOUR })
  const answers = await Promise.all(Array.from({ length: 20 }, () => cancel(emails, id)))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(404)])
  expect(emails.used()).toBe(1)
})

test('of a cancellation and a claim, exactly one wins, whichever comes first', async () => {
  const { app, clock } = emails
  const outcomes = new Set<string>()
  for (let round = 0; round < 30; round++) {
    const sendAt = new Date(clock.now() + 60_000).toISOString()
    const { id } = await emails.accepted({ to: `r@lane${round}.test`, send_at: sendAt })
    clock.advance(60_000)
    const claim = () =>
      app.commit.write((tx) =>
        claimDueTo(tx, `lane${round}.test`, {
          now: clock.now(),
          eventTime: app.eventTime(),
          limit: 10,
          retryAt: () => clock.now(),
        }),
      )
    // The claim that the scheduler makes at the due time, during the cancellation or after it.
    const [answer, claimed] =
      round % 2 === 0 ? await Promise.all([cancel(emails, id), claim()]) : await cancelThenClaim(emails, id, claim)
    const { status, events } = await emails.detail(id)
    const types = (events as { event_type: string }[]).map((event) => event.event_type)
    const isCancelled = answer.status === 200
    expect({ claimed: claimed.length, status, types }).toEqual(
      isCancelled
        ? { claimed: 0, status: 'cancelled', types: ['scheduled', 'cancelled'] }
        : { claimed: 1, status: 'processing', types: ['scheduled', 'queued'] },
    )
    if (!isCancelled) expectError(answer, 404, 'email_not_found')
    outcomes.add(isCancelled ? 'cancelled' : 'claimed')
  }
  expect([...outcomes].sort()).toEqual(['cancelled', 'claimed'])
  const rows = app.db
    .query<{ status: number; n: number }, []>('SELECT status, COUNT(*) AS n FROM emails GROUP BY status')
    .all()
  const kept = rows.find((row) => statusName(row.status) === 'processing')?.n
  expect(emails.used()).toBe(kept ?? -1)
})

async function cancelThenClaim<T>(emails: EmailApi, id: string, claim: () => Promise<T>) {
  const answer = await cancel(emails, id)
  return [answer, await claim()] as const
}

// Proves: status-3
test('an email with recipients in several lanes can no longer be cancelled once one of them is claimed', async () => {
  const { app, clock } = emails
  const { id } = await emails.accepted({ to: ['a@one.test', 'b@two.test'], send_at: IN_AN_HOUR })
  clock.advance(3_600_000)
  await app.commit.write((tx) =>
    claimDueTo(tx, 'one.test', { now: clock.now(), eventTime: app.eventTime(), limit: 10, retryAt: () => 0 }),
  )
  expectError(await cancel(emails, id), 404, 'email_not_found')
  expect((await emails.detail(id))['status']).toBe('processing')
  expect(emails.used()).toBe(2)
  expect(at((await emails.api('GET', '/v1/emails?status=processing')).body, 'pagination', 'total')).toBe(1)
})

const isoAfter = (ms: number) => new Date(NOW + ms).toISOString()
const reschedule = (emails: EmailApi, id: string, sendAt: unknown) =>
  emails.api('PATCH', `/v1/emails/${id}`, { send_at: sendAt })
const claim = ({ app, clock }: EmailApi, lane: string) =>
  app.commit.write((tx) =>
    claimDueTo(tx, lane, { now: clock.now(), eventTime: app.eventTime(), limit: 10, retryAt: () => clock.now() }),
  )

// Proves: email-28
test('a scheduled email is moved: response, detail, Date, due time, audit entry; status and quota stay', async () => {
  const sent = await emails.accepted({ to: ['a@r.test', 'b@s.test'], send_at: isoAfter(hours(1)) })
  const answer = await reschedule(emails, sent.id, '2026-03-15T20:30:00+02:00')
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 200,
    body: { data: { ...sent, scheduled_at: '2026-03-15T18:30:00.000Z' } },
  })
  expect(await emails.detail(sent.id)).toMatchObject({
    status: 'scheduled',
    scheduled_at: '2026-03-15T18:30:00.000Z',
    updated_at: isoAfter(0),
  })
  const { body } = await emails.api('GET', `/v1/emails/${sent.id}/source`)
  expect(String(at(body, 'data', 'headers'))).toContain('Date: Sun, 15 Mar 2026 18:30:00 +0000\r\n')
  const audit = await emails.api('GET', '/v1/audit-logs?action=email.rescheduled')
  expect(at(audit.body, 'data')).toMatchObject([
    {
      action: 'email.rescheduled',
      resource_id: sent.id,
      metadata: { from: isoAfter(hours(1)), to: '2026-03-15T18:30:00.000Z' },
    },
  ])
  expect(emails.used()).toBe(2)
  emails.clock.advance(hours(6) - 1)
  expect(await claim(emails, 'r.test')).toEqual([])
  emails.clock.advance(1)
  expect(await claim(emails, 'r.test')).toHaveLength(1)
  expectBalanced(emails)
})

// Proves: email-28
test.each([
  ['null', null],
  ['a time just passed', isoAfter(-1000)],
])('%s sends it now: the scheduler is woken', async (_, sendAt) => {
  await using emails = await createEmailApi({ delivers: true })
  const { id } = await emails.accepted({ from: `ada@${UNVERIFIED}`, send_at: isoAfter(hours(1)) })
  expect((await reschedule(emails, id, sendAt)).status).toBe(200)
  await eventually(async () => (await emails.detail(id))['status'] === 'sent')
  expect(await emails.detail(id)).toMatchObject({
    scheduled_at: isoAfter(0),
    events: [{ type: 'scheduled' }, { type: 'queued' }, { type: 'sent' }, { type: 'delivered' }],
  })
  expectError(await reschedule(emails, id, null), 409, 'email_not_scheduled')
})

test('an email moved earlier is due earlier', async () => {
  await using emails = await createEmailApi({ delivers: true })
  const { id } = await emails.accepted({ from: `ada@${UNVERIFIED}`, send_at: isoAfter(hours(9)) })
  await reschedule(emails, id, isoAfter(hours(2)))
  emails.clock.advance(hours(2))
  await eventually(async () => (await emails.detail(id))['status'] === 'sent')
})

test('an email of a batch is moved like others', async () => {
  const item = { from: 'ada@sender.test', to: 'a@r.test', subject: 'x', text_body: 'x', send_at: isoAfter(hours(1)) }
  const { body } = await emails.api('POST', '/v1/emails/batch', { emails: [item] })
  const answer = await reschedule(emails, String(at(body, 'data', 0, 'id')), isoAfter(hours(2)))
  expect(at(answer.body, 'data', 'scheduled_at')).toBe(isoAfter(hours(2)))
})

describe('nothing changes, and the answer is', () => {
  // Proves: email-28
  test('a 409 that names the status of an email that is not scheduled', async () => {
    const queued = await emails.accepted()
    const cancelled = await emails.accepted({ send_at: isoAfter(hours(1)) })
    await emails.api('POST', `/v1/emails/${cancelled.id}/cancel`)
    const stored = emails.stored()
    for (const [id, status] of [
      [queued.id, 'queued'],
      [cancelled.id, 'cancelled'],
    ] as const) {
      const answer = await reschedule(emails, id, isoAfter(hours(2)))
      expectError(answer, 409, 'email_not_scheduled')
      expect(at(answer.body, 'message')).toContain(status)
      expect((await emails.detail(id))['status']).toBe(status)
    }
    expect(emails.stored()).toEqual(stored)
  })

  test('a 409 for an email of which one recipient is claimed', async () => {
    const { id } = await emails.accepted({ to: ['a@one.test', 'b@two.test'], send_at: isoAfter(hours(1)) })
    emails.clock.advance(hours(1))
    await claim(emails, 'one.test')
    expectError(await reschedule(emails, id, isoAfter(hours(2))), 409, 'email_not_scheduled')
  })

  // Proves: email-28
  test.each([
    ['no zone', '2026-03-15T20:30:00'],
    ['not a time', 'tomorrow'],
    ['six minutes ago', isoAfter(-360_000)],
    ['in over a year', isoAfter(hours(24 * 367))],
  ])('a 422: %s', async (_, sendAt) => {
    const { id } = await emails.accepted({ send_at: isoAfter(hours(1)) })
    expectError(await reschedule(emails, id, sendAt), 422, 'invalid_send_at', 'send_at')
    expect((await emails.detail(id))['scheduled_at']).toBe(isoAfter(hours(1)))
  })

  test('a 422 without send_at, so that an empty body sends nothing', async () => {
    const { id } = await emails.accepted({ send_at: isoAfter(hours(1)) })
    expectError(await emails.api('PATCH', `/v1/emails/${id}`, {}), 422, 'validation_failed', 'send_at')
  })
})

test('of a reschedule and a cancellation at the same time both or only the cancellation succeed', async () => {
  const { id } = await emails.accepted({ send_at: isoAfter(hours(1)) })
  const [moved, cancelled] = await Promise.all([
    reschedule(emails, id, isoAfter(hours(2))),
    emails.api('POST', `/v1/emails/${id}/cancel`),
  ])
  expect(cancelled.status).toBe(200)
  expect(moved.status).toBeOneOf([200, 409])
  expect((await emails.detail(id))['status']).toBe('cancelled')
  expectBalanced(emails)
})
