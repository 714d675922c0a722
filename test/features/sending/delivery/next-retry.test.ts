/** @module `next_retry_at` while a host or a provider is not tried: the time of the next attempt, wherever it is shown. */
import { expect, test } from 'bun:test'
import { listLaneRecipients } from '#app/operator/queue.ts'
import { findEmail } from '#features/sending/emails/read.ts'
import { emailRowWire } from '#features/sending/emails/wire.ts'
import { parseUuid } from '#platform/ids.ts'
import { hours, minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { PROVIDER_REPLIES, reactAt, startMisbehaving } from '#test/support/misbehaving.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)
const ZONE = { 'receiver.test': { A: ['127.0.0.1'] } }

const timeOf = (text: string | null | undefined): number => Date.parse(text ?? '')

function shownTimes(flow: MailFlow, id: string) {
  const uuid = parseUuid(id)
  const email = uuid && findEmail(flow.app.db, flow.actor.accountId, uuid)
  if (!email) throw new Error('no such email')
  return timeOf(emailRowWire(email, () => 14).next_retry_at)
}

// Proves: email-14, status-16
test('a suspended host: mail that was tried and mail that never was show the end of the suspension', async () => {
  const clock = new ManualClock(START)
  await using receiver = await startMisbehaving({ react: reactAt('rcpt', PROVIDER_REPLIES.zenBlock) })
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: receiver.port, clock })
  const tried = await flow.send({ to: 'ada@receiver.test' })
  await flow.settled(tried)
  const resumesAt = START + hours(1)
  const untried = await flow.send({ to: 'bob@receiver.test' })
  await eventually(() => flow.service.delivery?.scheduler.states()[0]?.reason.includes('is suspended until'))
  expect([shownTimes(flow, tried.id), shownTimes(flow, untried.id)]).toEqual([resumesAt, resumesAt])
  const deferred = flow.events(tried).find(({ type }) => type === 'deferred')
  expect(deferred?.data.next_retry_at).toBe(resumesAt)
  const lane = flow.service.delivery?.scheduler.states()[0]?.lane ?? ''
  const rows = listLaneRecipients(flow.app.db, lane, 10, undefined)
  expect(rows.map(({ next_at: at }) => timeOf(at))).toEqual([resumesAt, resumesAt])
})

test('a host that backs off: mail shows when the host is tried again', async () => {
  const clock = new ManualClock(START)
  await using receiver = await startMisbehaving({ react: reactAt('banner', { end: 'close' }) })
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: receiver.port, clock })
  const first = await flow.send({ to: 'ada@receiver.test' })
  await flow.settled(first)
  const second = await flow.send({ to: 'bob@receiver.test' })
  await eventually(() => flow.service.delivery?.scheduler.states()[0]?.reason.includes('is in backoff until'))
  // The first backoff is 30 seconds; the retry of the first email is later.
  expect(shownTimes(flow, second.id)).toBe(START + minutes(0.5))
  expect(shownTimes(flow, first.id)).toBeGreaterThanOrEqual(START + minutes(1))
})
