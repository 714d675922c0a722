import { describe, expect, test } from 'bun:test'
import { statusName } from '#features/sending/queue/status.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, expectError, NOW, shareEmailApi } from '#test/support/email-api.ts'
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
