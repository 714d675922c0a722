import { describe, expect, test } from 'bun:test'
import { applyBounce } from '#features/receiving/bounces/apply.ts'
import { createMaxAttempts, type Verdict, writeOutcome } from '#features/sending/delivery/verdict/outcome.ts'
import { suppressedOutcome } from '#features/sending/queue/insert.ts'
import { rejectRecipient } from '#features/sending/queue/waiting-transitions.ts'
import { days, hours } from '#platform/units.ts'
import { reportOf } from '#test/features/receiving/bounces/fixture.ts'
import { type Complaints, createComplaints } from '#test/features/receiving/complaints/fixture.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { type EmailApi, UNVERIFIED } from '#test/support/email-api.ts'
import { claimDueTo } from '#test/support/lanes.ts'

const SENT: Verdict = { kind: 'sent', reply: '250 2.0.0 Queued' }
const BOUNCED: Verdict = {
  kind: 'bounced',
  bounceType: 'hard',
  category: 'invalid_recipient',
  reply: '550 5.1.1 No such user',
  isAddressDead: false,
}
const DEFERRED: Verdict = {
  kind: 'deferred',
  category: 'rate_limited',
  reason: '450 4.2.0 Later',
  reply: '450 4.2.0 Later',
}
const UNCERTAIN: Verdict = { kind: 'uncertain', reason: 'The connection was lost' }

const NOTHING = {
  period_days: 30,
  sent: 0,
  delivered: 0,
  bounced: 0,
  complained: 0,
  bounce_rate: null,
  complaint_rate: null,
}

interface Post extends AsyncDisposable {
  readonly mail: Complaints<EmailApi>
  /** Accepts an email in the stream `news`. */
  send(to: string | readonly string[], more?: Record<string, unknown>): ReturnType<Complaints<EmailApi>['accepted']>
  /** Stores the outcome of an attempt for every due recipient. */
  end(verdict: Verdict): Promise<void>
  /** The reputation of a stream, as the API returns it. */
  figures(slug?: string): Promise<unknown>
}

async function startPost(): Promise<Post> {
  const mail = await createComplaints()
  const { api, app } = mail.service
  const created = await api('POST', '/v1/streams', { slug: 'news', name: 'News' })
  const ids: Record<string, unknown> = {
    news: at(created.body, 'data', 'id'),
    transactional: at((await api('GET', '/v1/streams')).body, 'data', 1, 'id'),
  }
  return {
    mail,
    send: (to, more = {}) => mail.accepted({ to, stream: 'news', ...more }),
    end: (verdict) =>
      app.commit.write((tx) => {
        const now = app.clock.now()
        for (const lane of ['receiver.test', 'sandbox']) {
          const due = { now, eventTime: now, limit: 100, retryAt: () => now + hours(1) }
          for (const hand of claimDueTo(tx, lane, due))
            writeOutcome(app, tx, { ...hand, startedAt: now }, verdict, undefined)
        }
      }),
    figures: async (slug = 'news') => at((await api('GET', `/v1/streams/${ids[slug]}`)).body, 'data', 'reputation'),
    [Symbol.asyncDispose]: () => mail[Symbol.asyncDispose](),
  }
}

const createAddresses = (count: number): string[] => Array.from({ length: count }, (_, i) => `r${i}@receiver.test`)

describe('the reputation of a stream', () => {
  // Proves: stream-7
  test('covers its own mail only, and is not in the list', async () => {
    await using post = await startPost()
    const { mail, send, end, figures } = post
    expect([await figures(), await figures('transactional')]).toEqual([NOTHING, NOTHING])
    const email = await send(createAddresses(8))
    await end(SENT)
    await send(createAddresses(2))
    await end(BOUNCED)
    await mail.apply(await mail.report('standard', email))
    await send('later@receiver.test', { stream: 'transactional' })
    await end(SENT)
    expect([await figures(), await figures('transactional')]).toEqual([
      {
        period_days: 30,
        sent: 10,
        delivered: 8,
        bounced: 2,
        complained: 1,
        bounce_rate: 0.2,
        complaint_rate: 0.125,
      },
      { ...NOTHING, sent: 1, delivered: 1, bounce_rate: 0, complaint_rate: 0 },
    ])
    const listed = at((await mail.service.api('GET', '/v1/streams')).body, 'data') as object[]
    expect(listed.map((stream) => 'reputation' in stream)).toEqual([false, false])
    expectBalanced(mail.service)
  })

  test('counts undecided mail as sent only, and does not count an expired delivery as bounced', async () => {
    await using post = await startPost()
    const { mail, send, end, figures } = post
    await send('bob@receiver.test')
    await end(DEFERRED)
    expect(await figures()).toEqual({ ...NOTHING, sent: 1 })
    for (let attempt = 1; attempt < createMaxAttempts(48)(); attempt++) {
      mail.service.clock.advance(hours(9))
      await end(DEFERRED)
    }
    expect(at((await mail.service.api('GET', '/v1/emails')).body, 'data', 0, 'status')).toBe('bounced')
    await send('carol@receiver.test')
    await end(UNCERTAIN)
    expect(await figures()).toEqual({ ...NOTHING, sent: 2 })
    expectBalanced(mail.service)
  })

  // Proves: stream-7
  test('excludes recipients suppressed before or after acceptance, and cancelled mail', async () => {
    await using post = await startPost()
    const { mail, send, figures } = post
    const { api, app, clock } = mail.service
    await api('POST', '/v1/suppressions', { email_address: 'no@receiver.test' })
    await send(['no@receiver.test', 'yes@receiver.test'])
    expect(await figures()).toEqual({ ...NOTHING, sent: 1 })
    const late = await send(['a@receiver.test', 'b@receiver.test'], {
      send_at: new Date(clock.now() + hours(5)).toISOString(),
    })
    expect(await figures()).toEqual({ ...NOTHING, sent: 3 })
    clock.advance(hours(2))
    await app.commit.write((tx) => {
      const [recipient] = late.recipients
      if (!recipient) throw new Error('the email has no recipient')
      const { lastError, data } = suppressedOutcome('manual')
      rejectRecipient(tx, { recipientId: recipient.id, emailId: late.emailId, now: clock.now() }, { lastError, data })
      app.db.run('UPDATE usage SET recipients = recipients - 1')
    })
    expect(await figures()).toEqual({ ...NOTHING, sent: 2 })
    expect((await api('POST', `/v1/emails/${late.id}/cancel`)).status).toBe(200)
    expect(await figures()).toEqual({ ...NOTHING, sent: 1 })
    expectBalanced(mail.service)
  })

  // Proves: stream-7
  test('counts a late bounce as bounced instead of delivered, and counts an uncertain delivery once it is reported', async () => {
    await using post = await startPost()
    const { mail, send, end, figures } = post
    const { app, clock } = mail.service
    const report = (recipientId: number, action: 'failed' | 'delivered') =>
      app.commit.write((tx) =>
        applyBounce(
          app,
          tx,
          reportOf({ action, ...(action === 'delivered' && { status: '2.0.0', diagnostic: null }) }),
          {
            recipientId,
            now: app.eventTime(),
          },
        ),
      )
    await send('a@receiver.test')
    const lost = await send('b@receiver.test')
    await end(SENT)
    const uncertain = [await send('c@receiver.test'), await send('d@receiver.test')]
    await end(UNCERTAIN)
    expect(await figures()).toEqual({ ...NOTHING, sent: 4, delivered: 2, bounce_rate: 0, complaint_rate: 0 })
    clock.advance(hours(2))
    await report(lost.recipients[0]?.id ?? 0, 'failed')
    await report(uncertain[0]?.recipients[0]?.id ?? 0, 'delivered')
    await report(uncertain[1]?.recipients[0]?.id ?? 0, 'failed')
    // A repeated report changes nothing.
    await report(lost.recipients[0]?.id ?? 0, 'failed')
    expect(await figures()).toEqual({
      ...NOTHING,
      sent: 4,
      delivered: 2,
      bounced: 2,
      bounce_rate: 0.5,
      complaint_rate: 0,
    })
    expectBalanced(mail.service)
  })

  test('excludes sandbox mail', async () => {
    await using post = await startPost()
    const { mail, send, end, figures } = post
    await send('a@receiver.test', { from: `ada@${UNVERIFIED}` })
    await end(SENT)
    const scheduled = await send('b@receiver.test', {
      from: `ada@${UNVERIFIED}`,
      send_at: new Date(mail.service.clock.now() + hours(1)).toISOString(),
    })
    await mail.service.api('POST', `/v1/emails/${scheduled.id}/cancel`)
    expect(await figures()).toEqual(NOTHING)
    expectBalanced(mail.service)
  })

  test('covers the last 30 days; complaints about older mail count, and no rate exceeds 1', async () => {
    await using post = await startPost()
    const { mail, send, end, figures } = post
    const { clock } = mail.service
    const old = await send(createAddresses(3))
    await end(SENT)
    clock.advance(days(30) - hours(1))
    expect(await figures()).toMatchObject({ sent: 3, delivered: 3 })
    clock.advance(hours(1))
    expect(await figures()).toEqual(NOTHING)
    await send('new@receiver.test')
    await end(SENT)
    for (const index of [0, 1]) await mail.apply(await mail.report('standard', old, index))
    expect(await figures()).toEqual({
      ...NOTHING,
      sent: 1,
      delivered: 1,
      complained: 2,
      bounce_rate: 0,
      complaint_rate: 1,
    })
    expectBalanced(mail.service)
  })
})
