import { expect, test } from 'bun:test'
import { listLaneRecipients } from '#features/sending/delivery/control/queue-view.ts'
import { Sites } from '#features/sending/delivery/sites/sites.ts'
import {
  computeRetryDelayMs,
  computeSiteBackoffMs,
  createMaxAttempts,
  isExpired,
} from '#features/sending/delivery/verdict/outcome.ts'
import { findEmail, readEmailEvents } from '#features/sending/emails/read.ts'
import { emailRowWire } from '#features/sending/emails/wire.ts'
import { parseUuid } from '#platform/ids.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { laneStates } from '#test/support/lanes.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { reactAt, startMisbehaving } from '#test/support/misbehaving.ts'
import { createPair, instantOf } from '#test/support/pairs.ts'
import { drain, recipientsOf } from './flows.ts'

const ZEN_BLOCK =
  '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org; https://www.spamhaus.org/query/ip/192.0.2.1'

test('the backoff of a site that accepts no connection doubles up to 15 minutes', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 20].map(computeSiteBackoffMs)).toEqual([
    seconds(30),
    minutes(1),
    minutes(2),
    minutes(4),
    minutes(8),
    minutes(15),
    minutes(15),
    minutes(15),
  ])
})

test('a site is evicted an hour after its backoff ended, not before', () => {
  const clock = new ManualClock()
  const sites = new Sites({
    clock,
    deliveryConcurrency: 500,
    connectionsPerSite: 10,
    instant: () => instantOf(clock),
    onPairBlocked: () => undefined,
    ownerOf: () => 1,
    wake: () => true,
  })
  const visit = (name: string, isDown: boolean) => {
    const destination = { siteName: name, network: name, pair: createPair(clock), hasIpv4: true }
    sites.acquireSlots(destination, 1, '1:x.test')
    if (isDown) sites.backOff(sites.getSite(name), 'down')
    sites.releaseSlots(destination, 1, '1:x.test')
    sites.evictIdle(destination)
  }
  visit('down.test', true)
  clock.advance(minutes(50))
  visit('up.test', false)
  // Its next backoff is longer.
  visit('down.test', true)
  expect(sites.getSite('down.test').failures).toBe(2)
  for (const wait of [minutes(50), minutes(50), hours(1)]) {
    clock.advance(wait)
    visit('up.test', false)
  }
  expect(sites.getSite('down.test').failures).toBe(0)
})

const START = Date.UTC(2026, 2, 15, 12, 30)
const ZONE = { 'receiver.test': { A: ['127.0.0.1'] } }
/** No server listens at its port. */
const DOWN = {
  'down.test': { MX: [{ preference: 10, exchange: 'mx.down.test' }] },
  'mx.down.test': { A: ['127.0.0.1'] },
}

// Proves: status-17
test('mail held by a backoff of over a minute has one deferred event with reason and time, and no attempt', async () => {
  const clock = new ManualClock(START)
  await using flow = await startMailFlow({ zone: DOWN, clock })
  const { app, actor } = flow
  const events = (id: number) => readEmailEvents(app, actor.accountId, id).map(({ type }) => type)
  const deferrals = (id: number) => events(id).filter((type) => type === 'deferred').length

  // Three backoffs: 30 s, 1 minute, 2 minutes; each begins with one real attempt.
  for (const [index, wait] of [0, seconds(31), seconds(61)].entries()) {
    clock.advance(wait)
    await flow.send({ to: 'bob@down.test' })
    await eventually(() => deferrals(index + 1) === 1)
  }
  await flow.send({ to: 'bob@down.test' })
  await eventually(() => deferrals(4) === 1)
  expect(events(4)).toEqual(['queued', 'deferred'])
  // Its time is that of the site: a wait writes nothing.
  expect(recipientsOf(flow)[3]).toMatchObject({
    attempts: 0,
    nextAt: clock.now(),
    lastError: expect.stringContaining('mx.down.test is not tried for a while'),
  })
})

test('held mail past its expiry bounces as expired and becomes a dead letter', async () => {
  const clock = new ManualClock(START)
  await using flow = await startMailFlow({ zone: DOWN, clock, settings: { TASSIS_RETRY_EXPIRY_HOURS: '1' } })
  const { app } = flow
  for (let n = 0; n < 60; n++) await flow.send({ to: `bob${n}@down.test` })
  // Two hours of backoffs of up to 15 minutes allow far fewer attempts than there are recipients.
  await drain(flow, clock)
  expect(app.db.query('SELECT DISTINCT status, bounce_category AS category FROM recipients').all()).toEqual([
    { status: 4, category: 'expired' },
  ])
  expect(app.db.query('SELECT count(*) AS n FROM dead_letters').get()).toEqual({ n: 60 })
})

// Proves: delivery-15
test('the schedule begins at a minute, grows, and stays at 8 hours', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 8, 9, 50].map((attempt) => computeRetryDelayMs(attempt, 0))).toEqual([
    minutes(1),
    minutes(5),
    minutes(15),
    minutes(30),
    hours(1),
    hours(2),
    hours(4),
    hours(8),
    hours(8),
    hours(8),
  ])
})

test('jitter only lengthens a delay, by at most a tenth', () => {
  expect(computeRetryDelayMs(1, 0.999)).toBeGreaterThan(minutes(1))
  expect(computeRetryDelayMs(1, 0.999)).toBeLessThanOrEqual(minutes(1.1))
})

// Proves: email-18
test('max_attempts counts the attempts until expiry', () => {
  // At 0, 1, 6, 21, 51 minutes, then 1:51, 3:51, 7:51, 15:51, 23:51, 31:51, 39:51, 47:51 and, as the last, 55:51 hours.
  expect(createMaxAttempts(48)()).toBe(14)
  expect(createMaxAttempts(1)()).toBe(6)
})

test('a message expires when its age reaches the limit, not before', () => {
  expect(isExpired(0, hours(48) - 1, 50, 48)).toBe(false)
  expect(isExpired(0, hours(48), 12, 48)).toBe(true)
})

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
  await using receiver = await startMisbehaving({ react: reactAt('rcpt', ZEN_BLOCK) })
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: receiver.port, clock })
  const tried = await flow.send({ to: 'ada@receiver.test' })
  await flow.settled(tried)
  const resumesAt = START + hours(1)
  const untried = await flow.send({ to: 'bob@receiver.test' })
  await eventually(() => laneStates(flow.service)[0]?.reason.includes('is suspended until'))
  expect([shownTimes(flow, tried.id), shownTimes(flow, untried.id)]).toEqual([resumesAt, resumesAt])
  const deferred = flow.events(tried).find(({ type }) => type === 'deferred')
  expect(deferred?.data.next_retry_at).toBe(resumesAt)
  const lane = laneStates(flow.service)[0]?.lane ?? ''
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
  await eventually(() => laneStates(flow.service)[0]?.reason.includes('is in backoff until'))
  // The first backoff is 30 seconds; the retry of the first email is later.
  expect(shownTimes(flow, second.id)).toBe(START + minutes(0.5))
  expect(shownTimes(flow, first.id)).toBeGreaterThanOrEqual(START + minutes(1))
})
