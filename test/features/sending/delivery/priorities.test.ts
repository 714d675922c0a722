/** Which lanes of an account, and which accounts, go first. */
import { expect, test } from 'bun:test'
import { SlotPool, WaitQueue } from '#features/sending/delivery/providers/slot-pool.ts'
import { listOpenLanes } from '#features/sending/delivery/schedule/lanes.ts'
import { accountOfLane } from '#features/sending/queue/lanes.ts'
import { FairQueue } from '#platform/queue/fair-queue.ts'
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

test('a start wakes the lanes of high priority first and broadcasts last', async () => {
  await using flow = await startMailFlow()
  const { db } = flow.app
  const many = Array.from({ length: 60 }, (_, i) => `1:${String(i).padStart(2, '0')}.test`)
  const lanes = [...many, '10:x.test', '2:x.test', 'high:1:5:x.test', 'high:2:x.test', 'low:1:x.test', 'bulk:1:x.test']
  const sendAt = new Date(flow.app.clock.now() + 3_600_000).toISOString()
  for (const lane of lanes) {
    await flow.send({ to: 'bob@x.test', send_at: sendAt })
    db.run('UPDATE recipients SET lane = ? WHERE id = (SELECT max(id) FROM recipients)', [lane])
  }
  const order = [...listOpenLanes(db)].flat().map(({ lane }) => lane)
  expect(order).toEqual([
    ...['high:1:5:x.test', 'high:2:x.test'],
    ...['10:x.test', ...many, '2:x.test'],
    ...['low:1:x.test', 'bulk:1:x.test'],
  ])
})
