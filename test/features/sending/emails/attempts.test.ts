/** @module What the detail shows of each attempt at a recipient: enough for a timeline. */
import { expect, test } from 'bun:test'
import type { EmailEvent } from '#features/core/events/model.ts'
import type { AttemptSession } from '#features/sending/delivery/protocol.ts'
import { type Verdict, writeOutcome } from '#features/sending/delivery/verdict/outcome.ts'
import { hours } from '#platform/units.ts'
import { createEmailApi, type EmailApi, NOW } from '#test/support/email-api.ts'
import { claimDueTo } from '#test/support/lanes.ts'

const SESSION: AttemptSession = {
  host: 'mx1.r.test',
  address: '192.0.2.25',
  localAddress: '198.51.100.1',
  tls: 'TLSv1.3 TLS_AES_256_GCM_SHA384, certificate verified',
}

/** Claims the due recipients of a lane, as the scheduler does, and ends their attempts. */
const endAttempts = ({ app, clock }: EmailApi, verdict: Verdict, session: AttemptSession | undefined) =>
  app.commit.write((tx) => {
    const at = { now: clock.now(), eventTime: app.eventTime(), limit: 10, retryAt: () => clock.now() + hours(1) }
    for (const claimed of claimDueTo(tx, 'r.test', at))
      writeOutcome(app, tx, { ...claimed, startedAt: undefined }, verdict, session)
  })

// Proves: email-9
test('each attempt has its time, reply, host, session and category; a failed connection its reason', async () => {
  await using emails = await createEmailApi()
  const { id } = await emails.accepted({ to: 'bob@r.test' })
  const unreachable = 'mx1.r.test [192.0.2.25]: connect ECONNREFUSED'
  const attempts: readonly [Verdict, AttemptSession | undefined][] = [
    [{ kind: 'deferred', category: 'connection_failure', reason: unreachable, reply: undefined }, undefined],
    [{ kind: 'deferred', category: 'rate_limited', reason: '451 4.7.1 Later', reply: '451 4.7.1 Later' }, SESSION],
    [
      {
        kind: 'bounced',
        bounceType: 'hard',
        category: 'invalid_recipient',
        reply: '550 5.1.1 <script>alert(1)</script>',
        isAddressDead: true,
      },
      SESSION,
    ],
  ]
  for (const [verdict, session] of attempts) {
    emails.clock.advance(hours(2))
    await endAttempts(emails, verdict, session)
  }
  const events = (await emails.detail(id))['events'] as EmailEvent[]
  // Before the comparison, in which Bun replaces the values that it compares with patterns.
  const next = Date.parse(String(events[1]?.raw_payload?.next_retry_at))
  expect(next - (NOW + hours(2))).toBeGreaterThan(0)
  const host = 'mx1.r.test [192.0.2.25]'
  const soon = { next_retry_at: expect.stringMatching(/^2026-03-15T\d\d:\d\d/) }
  expect(events).toMatchObject([
    { type: 'queued', recipient: null, raw_payload: null },
    {
      type: 'deferred',
      recipient: 'bob@r.test',
      created_at: new Date(NOW + hours(2)).toISOString(),
      remote_mta: null,
      bounce_category: 'connection_failure',
      raw_payload: { reason: unreachable, smtp_response: null, tls: null, ...soon },
    },
    {
      type: 'deferred',
      remote_mta: host,
      ip_address: '198.51.100.1',
      bounce_category: 'rate_limited',
      raw_payload: { reason: '451 4.7.1 Later', smtp_response: '451 4.7.1 Later', tls: SESSION.tls, ...soon },
    },
    {
      type: 'bounced',
      created_at: new Date(NOW + hours(6)).toISOString(),
      remote_mta: host,
      bounce_category: 'invalid_recipient',
      bounce_type: 'hard',
      diagnostic_code: 'smtp; 550 5.1.1 <script>alert(1)</script>',
      raw_payload: { smtp_response: '550 5.1.1 <script>alert(1)</script>', tls: SESSION.tls },
    },
  ])
})
