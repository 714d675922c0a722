/** The order in which a start wakes the lanes of its backlog. */
import { expect, test } from 'bun:test'
import { listOpenLanes } from '#features/sending/delivery/schedule/open-lanes.ts'
import { RouteTurns } from '#features/sending/delivery/schedule/route-turns.ts'
import { systemClock } from '#platform/time/clock.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'

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
