import { expect, test } from 'bun:test'
import type { Arrival } from './endpoint.ts'
import type { StoredDelivery, StoredWebhook } from './told.ts'
import {
  cursorViolations,
  duplicatesOf,
  type Evidence,
  historyViolations,
  orderViolations,
  overlapViolations,
  underWayAtKill,
} from './webhook-judge.ts'

const arrival = (eventId: string, more: Partial<Arrival> = {}): Arrival => ({
  life: 1,
  event: 'sent',
  eventId,
  recipient: 'ann',
  attempt: 1,
  atMs: 10,
  answeredAtMs: 20,
  status: 200,
  ...more,
})

const stored = (cursorSeq: number, deliveries: readonly StoredDelivery[]): StoredWebhook => ({
  isActive: true,
  cursorSeq,
  deliveries: new Map(deliveries.map((delivery) => [delivery.seq, delivery])),
  twice: [],
})

const told = (seq: number, status: StoredDelivery['status'] = 'delivered', attempts = 1) => ({ seq, status, attempts })

/** Events 1 (sent) and 2 (delivered) of a recipient, told and stored. */
const GOOD: Evidence = {
  name: 'hook',
  events: [
    { seq: 1, type: 'sent' },
    { seq: 2, type: 'delivered' },
  ],
  eventId: (seq) => `event-${seq}`,
  stored: stored(2, [told(1), told(2)]),
  arrivals: [arrival('event-1'), arrival('event-2', { event: 'delivered', atMs: 30, answeredAtMs: 40 })],
}

test('what was told and stored breaks no promise', () => {
  expect(cursorViolations(GOOD)).toEqual([])
  expect(historyViolations(GOOD)).toEqual([])
  expect(orderViolations(GOOD)).toEqual([])
  expect(overlapViolations(GOOD)).toEqual([])
  expect(duplicatesOf(GOOD, new Map())).toEqual({ afterKills: 0, afterResets: 0, violations: [] })
  expect(underWayAtKill(GOOD, 1)).toEqual(new Set())
})

test('a cursor that has passed an event without a delivery, a second delivery of an event and a webhook that is off are told', () => {
  const broken = { ...stored(2, [told(2)]), twice: [2], isActive: false }
  expect(cursorViolations({ ...GOOD, stored: broken })).toEqual([
    'hook: the cursor is at 2, but sent 1 has no delivery',
    'hook: event 2 has more than one delivery',
    'hook was switched off',
  ])
  expect(cursorViolations({ ...GOOD, stored: stored(0, [told(2)]) })).toEqual([])
})

test('an attempt without a stored outcome was under way, and only such a one may come again in the next life', () => {
  const atKill = { ...GOOD, stored: stored(0, [told(1)]) }
  const underWay = new Map([[1, underWayAtKill(atKill, 1)]])
  expect(underWay.get(1)).toEqual(new Set(['event-2 1']))
  const again = [...GOOD.arrivals, arrival('event-2', { life: 2 }), arrival('event-1', { life: 2 })]
  expect(duplicatesOf({ ...GOOD, arrivals: again }, underWay)).toEqual({
    afterKills: 2,
    afterResets: 0,
    violations: ['hook: sent event-1, attempt 1, was made again although its outcome was stored'],
  })
})

test('one process makes an attempt again only when its connection was reset', () => {
  const reset = arrival('event-1', { status: undefined })
  expect(duplicatesOf({ ...GOOD, arrivals: [reset, arrival('event-1'), arrival('event-1')] }, new Map())).toEqual({
    afterKills: 0,
    afterResets: 2,
    violations: ['hook: sent event-1, attempt 1, was made twice by one process'],
  })
})

test('delivered before the answer to sent is told, in any life', () => {
  const delivered = arrival('event-2', { event: 'delivered', atMs: 15 })
  expect(orderViolations({ ...GOOD, arrivals: [arrival('event-1'), delivered] })).toEqual([
    'hook: delivered of ann came before sent was answered',
  ])
  const late = { ...delivered, life: 2, atMs: 60 }
  expect(orderViolations({ ...GOOD, arrivals: [arrival('event-1'), late] })).toEqual([])
  const sentAgain = arrival('event-1', { life: 2, atMs: 50, answeredAtMs: undefined })
  expect(orderViolations({ ...GOOD, arrivals: [arrival('event-1'), sentAgain, late] })).toEqual([
    'hook: delivered of ann came while sent was under way',
  ])
})

test('delivered while an attempt at sent is under way is told, whichever attempts they are', () => {
  const retry = arrival('event-1', { attempt: 2, atMs: 50, answeredAtMs: 70 })
  const during = arrival('event-2', { event: 'delivered', attempt: 2, atMs: 60 })
  expect(overlapViolations({ ...GOOD, arrivals: [...GOOD.arrivals, retry, during] })).toEqual([
    'hook: attempt 2 of delivered of ann came while attempt 2 of sent was under way',
  ])
  const never = { ...retry, answeredAtMs: undefined }
  expect(overlapViolations({ ...GOOD, arrivals: [never, during] })).toHaveLength(1)
  const others = [
    { ...during, life: 2 },
    { ...during, recipient: 'bob' },
    { ...during, atMs: 40 },
    { ...during, atMs: 71 },
  ]
  expect(overlapViolations({ ...GOOD, arrivals: [retry, ...others] })).toEqual([])
})

test('an event that never arrived, has no delivery, or whose delivery says something else is told', () => {
  const arrivals = [arrival('event-1', { status: 500 }), arrival('event-9', { event: 'bounced' })]
  expect(historyViolations({ ...GOOD, stored: stored(2, [told(1)]), arrivals })).toEqual([
    'hook: sent 1 is delivered, but its last attempt was answered with 500',
    'hook: delivered 2 never arrived',
    'hook: delivered 2 has no delivery',
    'hook: bounced event-9 was told and is not in the feed',
  ])
  const ends = (status: number | undefined, attempts: number, delivery: StoredDelivery['status']) =>
    historyViolations({
      ...GOOD,
      events: GOOD.events.slice(0, 1),
      stored: stored(2, [told(1, delivery, attempts)]),
      arrivals: [arrival('event-1', { status, attempt: attempts })],
    })
  expect(ends(500, 4, 'pending')).toEqual([])
  expect(ends(undefined, 5, 'undeliverable')).toEqual([])
  expect(ends(404, 1, 'undeliverable')).toEqual([])
  expect(ends(202, 5, 'delivered')).toEqual([])
  expect(ends(404, 1, 'pending')).toEqual(['hook: sent 1 is pending, but its last attempt was answered with 404'])
})
