import { describe, expect, test } from 'bun:test'
import { statusName } from '#features/sending/queue/status.ts'
import { hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi, expectError, NOW, shareEmailApi, UNVERIFIED } from '#test/support/email-api.ts'
import { claimDueTo } from '#test/support/lanes.ts'

const emails = shareEmailApi(createEmailApi)

const isoAfter = (ms: number) => new Date(NOW + ms).toISOString()
const IN_AN_HOUR = isoAfter(hours(1))
const cancel = (emails: EmailApi, id: string, body?: unknown) => emails.api('POST', `/v1/emails/${id}/cancel`, body)
const reschedule = (emails: EmailApi, id: string, sendAt: unknown) =>
  emails.api('PATCH', `/v1/emails/${id}`, { send_at: sendAt })
const claim = ({ app, clock }: EmailApi, lane: string) =>
  app.commit.write((tx) =>
    claimDueTo(tx, lane, { now: clock.now(), eventTime: app.eventTime(), limit: 10, retryAt: () => clock.now() }),
  )

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

// Proves: email-21
test.each(['queued', 'cancelled'])('an email that is %s is a 404, and nothing changes', async (status) => {
  const { id } = await emails.accepted(status === 'queued' ? {} : { send_at: IN_AN_HOUR })
  if (status === 'cancelled') await cancel(emails, id)
  const stored = emails.stored()
  expectError(await cancel(emails, id), 404, 'email_not_found')
  expect(emails.stored()).toEqual(stored)
  expect((await emails.detail(id))['status']).toBe(status)
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
  for (let round = 0; round < 12; round++) {
    const sendAt = new Date(clock.now() + 60_000).toISOString()
    const { id } = await emails.accepted({ to: `r@lane${round}.test`, send_at: sendAt })
    clock.advance(60_000)
    // The claim that the scheduler makes at the due time, during the cancellation or after it.
    const cancelling = cancel(emails, id)
    if (round % 2 === 1) await cancelling
    const [answer, claimed] = await Promise.all([cancelling, claim(emails, `lane${round}.test`)])
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

// Proves: status-3
test('an email with recipients in several lanes can no longer be cancelled once one of them is claimed', async () => {
  const { id } = await emails.accepted({ to: ['a@one.test', 'b@two.test'], send_at: IN_AN_HOUR })
  emails.clock.advance(hours(1))
  await claim(emails, 'one.test')
  expectError(await cancel(emails, id), 404, 'email_not_found')
  expect((await emails.detail(id))['status']).toBe('processing')
  expect(emails.used()).toBe(2)
  expect(at((await emails.api('GET', '/v1/emails?status=processing')).body, 'pagination', 'total')).toBe(1)
})

// Proves: email-28
test('a scheduled email is moved: response, detail, Date, due time, audit entry; status and quota stay', async () => {
  const sent = await emails.accepted({ to: ['a@r.test', 'b@s.test'], send_at: IN_AN_HOUR })
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
      metadata: { from: IN_AN_HOUR, to: '2026-03-15T18:30:00.000Z' },
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
test('null, or a time just passed, sends it now: the scheduler is woken; and earlier at an earlier time', async () => {
  await using emails = await createEmailApi({ delivers: true })
  for (const sendAt of [null, isoAfter(-1000), isoAfter(hours(2))]) {
    const { id } = await emails.accepted({ from: `ada@${UNVERIFIED}`, send_at: isoAfter(hours(9)) })
    expect((await reschedule(emails, id, sendAt)).status).toBe(200)
    const due = Math.max(0, Date.parse(sendAt ?? '') - NOW || 0)
    emails.clock.advance(due)
    await eventually(async () => (await emails.detail(id))['status'] === 'sent')
    expect(await emails.detail(id)).toMatchObject({
      scheduled_at: isoAfter(due),
      events: [{ type: 'scheduled' }, { type: 'queued' }, { type: 'sent' }, { type: 'delivered' }],
    })
    expectError(await reschedule(emails, id, null), 409, 'email_not_scheduled')
  }
})

test('an email of a batch is moved like others', async () => {
  const item = { from: 'ada@sender.test', to: 'a@r.test', subject: 'x', text_body: 'x', send_at: IN_AN_HOUR }
  const { body } = await emails.api('POST', '/v1/emails/batch', { emails: [item] })
  const answer = await reschedule(emails, String(at(body, 'data', 0, 'id')), isoAfter(hours(2)))
  expect(at(answer.body, 'data', 'scheduled_at')).toBe(isoAfter(hours(2)))
})

describe('nothing changes, and the answer is', () => {
  // Proves: email-28
  test('a 409 that names the status of an email that is not scheduled', async () => {
    const queued = await emails.accepted()
    const cancelled = await emails.accepted({ send_at: IN_AN_HOUR })
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
    const { id } = await emails.accepted({ to: ['a@one.test', 'b@two.test'], send_at: IN_AN_HOUR })
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
    const { id } = await emails.accepted({ send_at: IN_AN_HOUR })
    expectError(await reschedule(emails, id, sendAt), 422, 'invalid_send_at', 'send_at')
    expect((await emails.detail(id))['scheduled_at']).toBe(IN_AN_HOUR)
  })

  test('a 422 without send_at, so that an empty body sends nothing', async () => {
    const { id } = await emails.accepted({ send_at: IN_AN_HOUR })
    expectError(await emails.api('PATCH', `/v1/emails/${id}`, {}), 422, 'validation_failed', 'send_at')
  })
})

test('of a reschedule and a cancellation at the same time both or only the cancellation succeed', async () => {
  const { id } = await emails.accepted({ send_at: IN_AN_HOUR })
  const [moved, cancelled] = await Promise.all([
    reschedule(emails, id, isoAfter(hours(2))),
    emails.api('POST', `/v1/emails/${id}/cancel`),
  ])
  expect(cancelled.status).toBe(200)
  expect(moved.status).toBeOneOf([200, 409])
  expect((await emails.detail(id))['status']).toBe('cancelled')
  expectBalanced(emails)
})
