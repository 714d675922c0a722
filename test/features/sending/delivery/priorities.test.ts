/** Which lanes of an account, and which accounts, go first. */
import { expect, test } from 'bun:test'
import { SlotPool, WaitQueue } from '#features/sending/delivery/providers/slot-pool.ts'
import { listOpenLanes, RouteTurns } from '#features/sending/delivery/schedule/lanes.ts'
import { accountOfLane } from '#features/sending/queue/lanes.ts'
import { FairQueue } from '#platform/queue/fair-queue.ts'
import { systemClock } from '#platform/time/clock.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'

const always = () => true

/** Takes the lanes out of a queue, each with its whole turn. */
function drain(queue: WaitQueue): string[] {
  const lanes: string[] = []
  for (let lane = queue.shift(always); lane !== undefined; lane = queue.shift(always)) {
    lanes.push(lane)
    queue.endTurn(lane)
  }
  return lanes
}

test('owners take turns, each with its lanes of high priority first and low last; bulk lanes follow all others', () => {
  const queue = new WaitQueue(accountOfLane)
  for (const lane of ['bulk:1:a', 'low:1:a', '1:a', 'high:1:a', 'high:1:b', 'low:2:a', '2:a']) queue.add(lane)
  expect(drain(queue)).toEqual(['high:1:a', '2:a', 'high:1:b', 'low:2:a', '1:a', 'low:1:a', 'bulk:1:a'])
})

test('an account that comes while another waits for its next turn goes before it', () => {
  const queue = new WaitQueue(accountOfLane)
  for (const lane of ['1:a', '1:b', '1:c']) queue.add(lane)
  expect(queue.shift(always)).toBe('1:a')
  queue.add('2:a')
  queue.add('3:a')
  expect(drain(queue)).toEqual(['2:a', '3:a', '1:b', '1:c'])
})

test('a lane takes no slot while one of its account with a higher priority waits or has its turn', () => {
  const slots = new SlotPool({ contestedFraction: 1, bulkFraction: 0.8, leavesFree: false }, accountOfLane)
  const free = () => [slots.freeFor(1, 'high', 10), slots.freeFor(1, 'normal', 10), slots.freeFor(1, 'low', 10)]
  expect(free()).toEqual([10, 10, 8])
  slots.waiting.add('1:a')
  expect(free()).toEqual([10, 10, 0])
  slots.waiting.add('high:1:a')
  expect(free()).toEqual([10, 0, 0])
  expect(slots.waiting.shift(always)).toBe('high:1:a')
  expect(free()).toEqual([10, 0, 0])
  slots.waiting.endTurn('high:1:a')
  expect(free()).toEqual([10, 10, 0])
  // Priorities are those of an account: another one shares alike.
  slots.waiting.add('high:1:a')
  expect(slots.freeFor(2, 'low', 10)).toBe(4)
})

test('within an owner of a fair queue, a lower rank goes first and equal ranks keep their order', () => {
  const queue = new FairQueue<string>()
  for (const [item, rank] of [
    ['low', 2],
    ['a', 1],
    ['high', 0],
    ['b', 1],
  ] as const)
    queue.push(1, item, 1, { rank })
  expect([1, 2, 3, 4].map(() => queue.shift()?.item)).toEqual(['high', 'a', 'b', 'low'])
})

test('a start wakes lanes by class, and within a class those of accounts in turn', async () => {
  await using flow = await startMailFlow()
  const { db } = flow.app
  const numbered = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, i) => `${prefix}${String(i).padStart(2, '0')}.test`)
  const lanes = [...numbered('1:', 12), ...numbered('10:', 6), '2:x.test', 'high:1:5:x.test', 'high:2:x.test']
  lanes.push('low:1:x.test', 'bulk:1:x.test', '9:sandbox')
  const sendAt = new Date(flow.app.clock.now() + 3_600_000).toISOString()
  for (const lane of lanes) {
    await flow.send({ to: 'bob@x.test', send_at: sendAt })
    db.run('UPDATE recipients SET lane = ? WHERE id = (SELECT max(id) FROM recipients)', [lane])
  }
  const order = [...listOpenLanes(db)].flat().map(({ lane }) => lane)
  expect(order.toSorted()).toEqual(lanes.toSorted())
  const ten = numbered('10:', 6)
  const one = numbered('1:', 12)
  expect(order).toEqual([
    ...['high:1:5:x.test', 'high:2:x.test'],
    ...[...ten.slice(0, 5), ...one.slice(0, 5), '2:x.test', '9:sandbox'],
    ...[...ten.slice(5), ...one.slice(5, 10), ...one.slice(10)],
    ...['low:1:x.test', 'bulk:1:x.test'],
  ])
})

test('of the lanes of an account that look up their routes, those of high priority go first', async () => {
  const turns = new RouteTurns(systemClock)
  const order: string[] = []
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>()
  const look = (name: string, rank: number) =>
    turns.run(1, rank, () => {
      order.push(name)
      return answered
    })
  // As many as begin without a turn.
  const lookups = Array.from({ length: 16 }, () => look('', 1))
  lookups.push(look('a', 1), look('b', 1), look('digest', 2), look('reset', 0))
  answer()
  await Promise.all(lookups)
  expect(order.slice(16)).toEqual(['reset', 'a', 'b', 'digest'])
})
