import { describe, expect, test } from 'bun:test'
import { hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi, expectError, NOW, shareEmailApi, UNVERIFIED } from '#test/support/email-api.ts'
import { claimDueTo } from '#test/support/lanes.ts'

const emails = shareEmailApi(createEmailApi)

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
