import { expect, test } from 'bun:test'
import type { Arrival } from './endpoint.ts'
import type { StoredDelivery, StoredWebhook } from './stored-webhooks.ts'
import {
  type Evidence,
  findCursorViolations,
  findDuplicates,
  findHistoryViolations,
  findInFlightAtKill,
  findOrderViolations,
  findOverlapViolations,
} from './webhook-judge.ts'

const makeArrival = (eventId: string, more: Partial<Arrival> = {}): Arrival => ({
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

const makeStored = (cursorSeq: number, deliveries: readonly StoredDelivery[]): StoredWebhook => ({
  isActive: true,
  cursorSeq,
  deliveries: new Map(deliveries.map((delivery) => [delivery.seq, delivery])),
  twice: [],
})

const makeDelivery = (seq: number, status: StoredDelivery['status'] = 'delivered', attempts = 1) => ({
  seq,
  status,
  attempts,
})

/** Events 1 (sent) and 2 (delivered) of a recipient, delivered and stored. */
const GOOD_EVIDENCE: Evidence = {
  name: 'hook',
  events: [
    { seq: 1, type: 'sent' },
    { seq: 2, type: 'delivered' },
  ],
  eventId: (seq) => `event-${seq}`,
  stored: makeStored(2, [makeDelivery(1), makeDelivery(2)]),
  arrivals: [makeArrival('event-1'), makeArrival('event-2', { event: 'delivered', atMs: 30, answeredAtMs: 40 })],
}

test('delivered and stored events break no promise', () => {
  expect(findCursorViolations(GOOD_EVIDENCE)).toEqual([])
  expect(findHistoryViolations(GOOD_EVIDENCE)).toEqual([])
  expect(findOrderViolations(GOOD_EVIDENCE)).toEqual([])
  expect(findOverlapViolations(GOOD_EVIDENCE)).toEqual([])
  expect(findDuplicates(GOOD_EVIDENCE, new Map())).toEqual({ afterKills: 0, afterResets: 0, violations: [] })
  expect(findInFlightAtKill(GOOD_EVIDENCE, 1)).toEqual(new Set())
})

test('an event without a delivery behind the cursor, a second delivery and a deactivated webhook are violations', () => {
  const broken = { ...makeStored(2, [makeDelivery(2)]), twice: [2], isActive: false }
  expect(findCursorViolations({ ...GOOD_EVIDENCE, stored: broken })).toEqual([
    'hook: the cursor is at 2, but sent 1 has no delivery',
    'hook: event 2 has more than one delivery',
    'hook was deactivated',
  ])
  expect(findCursorViolations({ ...GOOD_EVIDENCE, stored: makeStored(0, [makeDelivery(2)]) })).toEqual([])
})

test('an attempt without a stored outcome was in flight, and only such an attempt may be repeated in the next run', () => {
  const atKill = { ...GOOD_EVIDENCE, stored: makeStored(0, [makeDelivery(1)]) }
  const inFlight = new Map([[1, findInFlightAtKill(atKill, 1)]])
  expect(inFlight.get(1)).toEqual(new Set(['event-2 1']))
  const repeated = [...GOOD_EVIDENCE.arrivals, makeArrival('event-2', { life: 2 }), makeArrival('event-1', { life: 2 })]
  expect(findDuplicates({ ...GOOD_EVIDENCE, arrivals: repeated }, inFlight)).toEqual({
    afterKills: 2,
    afterResets: 0,
    violations: ['hook: sent event-1, attempt 1, was repeated although its outcome was stored'],
  })
})

test('a process repeats an attempt only if its connection was reset', () => {
  const reset = makeArrival('event-1', { status: undefined })
  expect(
    findDuplicates({ ...GOOD_EVIDENCE, arrivals: [reset, makeArrival('event-1'), makeArrival('event-1')] }, new Map()),
  ).toEqual({
    afterKills: 0,
    afterResets: 2,
    violations: ['hook: sent event-1, attempt 1, was made twice by one process'],
  })
})

test('delivered before the response to sent is a violation in any run', () => {
  const delivered = makeArrival('event-2', { event: 'delivered', atMs: 15 })
  expect(findOrderViolations({ ...GOOD_EVIDENCE, arrivals: [makeArrival('event-1'), delivered] })).toEqual([
    'hook: delivered of ann came before sent was answered',
  ])
  const late = { ...delivered, life: 2, atMs: 60 }
  expect(findOrderViolations({ ...GOOD_EVIDENCE, arrivals: [makeArrival('event-1'), late] })).toEqual([])
  const sentAgain = makeArrival('event-1', { life: 2, atMs: 50, answeredAtMs: undefined })
  expect(findOrderViolations({ ...GOOD_EVIDENCE, arrivals: [makeArrival('event-1'), sentAgain, late] })).toEqual([
    'hook: delivered of ann came while sent was in flight',
  ])
})

test('delivered during an attempt at sent is a violation, whatever the attempt numbers', () => {
  const retry = makeArrival('event-1', { attempt: 2, atMs: 50, answeredAtMs: 70 })
  const during = makeArrival('event-2', { event: 'delivered', attempt: 2, atMs: 60 })
  expect(findOverlapViolations({ ...GOOD_EVIDENCE, arrivals: [...GOOD_EVIDENCE.arrivals, retry, during] })).toEqual([
    'hook: attempt 2 of delivered of ann came while attempt 2 of sent was in flight',
  ])
  const never = { ...retry, answeredAtMs: undefined }
  expect(findOverlapViolations({ ...GOOD_EVIDENCE, arrivals: [never, during] })).toHaveLength(1)
  const others = [
    { ...during, life: 2 },
    { ...during, recipient: 'bob' },
    { ...during, atMs: 40 },
    { ...during, atMs: 71 },
  ]
  expect(findOverlapViolations({ ...GOOD_EVIDENCE, arrivals: [retry, ...others] })).toEqual([])
})

test('an event that never arrived, has no delivery or a delivery with another status is a violation', () => {
  const arrivals = [makeArrival('event-1', { status: 500 }), makeArrival('event-9', { event: 'bounced' })]
  expect(findHistoryViolations({ ...GOOD_EVIDENCE, stored: makeStored(2, [makeDelivery(1)]), arrivals })).toEqual([
    'hook: sent 1 is delivered, but its last attempt was answered with 500',
    'hook: delivered 2 never arrived',
    'hook: delivered 2 has no delivery',
    'hook: bounced event-9 arrived and is not in the feed',
  ])
  const ends = (status: number | undefined, attempts: number, delivery: StoredDelivery['status']) =>
    findHistoryViolations({
      ...GOOD_EVIDENCE,
      events: GOOD_EVIDENCE.events.slice(0, 1),
      stored: makeStored(2, [makeDelivery(1, delivery, attempts)]),
      arrivals: [makeArrival('event-1', { status, attempt: attempts })],
    })
  expect(ends(500, 4, 'pending')).toEqual([])
  expect(ends(undefined, 5, 'undeliverable')).toEqual([])
  expect(ends(404, 1, 'undeliverable')).toEqual([])
  expect(ends(202, 5, 'delivered')).toEqual([])
  expect(ends(404, 1, 'pending')).toEqual(['hook: sent 1 is pending, but its last attempt was answered with 404'])
})
