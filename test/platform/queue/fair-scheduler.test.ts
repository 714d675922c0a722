import { expect, test } from 'bun:test'
import { FairPool, FairScheduler } from '#platform/queue/fair-scheduler.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const overload = () => new Error('too much')

test("owners' pieces take turns by time used", async () => {
  const clock = new ManualClock(0)
  const turns = new FairScheduler({ clock, overload })
  const order: string[] = []
  const piece = (name: string, tookMs: number) => () => {
    order.push(name)
    clock.advance(tookMs)
  }
  await Promise.all([
    ...['d1', 'd2', 'd3'].map((name) => turns.run('dear', piece(name, 30))),
    ...['c1', 'c2', 'c3', 'c4'].map((name) => turns.run('cheap', piece(name, 10))),
  ])
  expect(order).toEqual(['d1', 'c1', 'c2', 'c3', 'd2', 'c4', 'd3'])
})

test("owners' generators take turns, and those of one owner run one after the other", async () => {
  const clock = new ManualClock(0)
  const turns = new FairScheduler({ clock, overload })
  const order: string[] = []
  function* work(name: string, steps: number): Generator<void, string> {
    for (let step = 1; step <= steps; step++) {
      order.push(`${name}.${step}`)
      clock.advance(10)
      if (step < steps) yield
    }
    return name
  }
  function* broken(): Generator<void, string> {
    yield
    throw new Error('its own')
  }
  const values = await Promise.allSettled([
    turns.runSteps('a', work('a1', 3)),
    turns.runSteps('a', work('a2', 2)),
    turns.runSteps('b', work('b1', 2)),
    turns.runSteps('c', broken()),
  ])
  expect(order).toEqual(['a1.1', 'b1.1', 'a1.2', 'b1.2', 'a1.3', 'a2.1', 'a2.2'])
  expect(values.map((o) => (o.status === 'fulfilled' ? o.value : o.reason.message))).toEqual([
    'a1',
    'a2',
    'b1',
    'its own',
  ])
})

test('other work runs on the event loop between two long pieces', async () => {
  const clock = new ManualClock(0)
  const turns = new FairScheduler({ clock, overload })
  const seen: string[] = []
  const others = setInterval(() => seen.push('other'), 0)
  for (let i = 0; i < 5; i++) setImmediate(() => seen.push('immediate'))
  const piece = (n: number) => () => {
    seen.push(`piece ${n}`)
    clock.advance(10)
  }
  await Promise.all([turns.run('a', piece(1)), turns.run('a', piece(2))])
  clearInterval(others)
  expect(seen.indexOf('immediate')).toBeLessThan(seen.indexOf('piece 2'))
  expect(seen.filter((s) => s.startsWith('piece'))).toEqual(['piece 1', 'piece 2'])
})

test('a piece resolves with its value, rejects with its error, and is refused over the limit', async () => {
  const turns = new FairScheduler({ clock: new ManualClock(0), overload, maxPerOwner: 2 })
  const outcomes = await Promise.allSettled([
    turns.run(1, () => 'value'),
    turns.run(1, () => {
      throw new Error('its own')
    }),
    turns.run(1, () => 'one too many'),
    turns.run(2, () => 'another owner'),
  ])
  expect(outcomes.map((o) => (o.status === 'fulfilled' ? o.value : o.reason.message))).toEqual([
    'value',
    'its own',
    'too much',
    'another owner',
  ])
})

test('a pool runs as many tasks as allowed, then the next one of the owner that has used least time', async () => {
  const clock = new ManualClock(0)
  const pool = new FairPool({ clock, overload, concurrency: 1 })
  const order: string[] = []
  const work = (name: string, tookMs: number) => async () => {
    order.push(name)
    await clock.sleep(tookMs)
  }
  const all = Promise.all([
    ...['d1', 'd2'].map((name) => pool.run('dear', work(name, 30))),
    ...['c1', 'c2', 'c3'].map((name) => pool.run('cheap', work(name, 10))),
  ])
  let isOver = false
  void all.then(() => {
    isOver = true
  })
  while (!isOver) {
    clock.advance(10)
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(order).toEqual(['d1', 'c1', 'c2', 'c3', 'd2'])
})

test('a full pool refuses the newest work of the owner with the most for an owner with fewer', async () => {
  const pool = new FairPool({ clock: new ManualClock(0), overload, concurrency: 1, maxWaiting: 2 })
  let release: () => void = () => undefined
  const held = pool.run('a', () => new Promise<void>((resolve) => (release = resolve)))
  const waiting = [pool.run('a', async () => 'a1'), pool.run('a', async () => 'a2'), pool.run('b', async () => 'b1')]
  release()
  await held
  const outcomes = await Promise.allSettled(waiting)
  expect(outcomes.map((o) => (o.status === 'fulfilled' ? o.value : o.reason.message))).toEqual(['a1', 'too much', 'b1'])
})

// Proves: quota-10
test('work of many steps runs in pieces of some milliseconds, between those of others', async () => {
  const clock = new ManualClock(0)
  const turns = new FairScheduler({ clock, overload })
  const order: string[] = []
  let together = 0
  const steps = turns.forEach(
    'many',
    [1, 2, 3, 4, 5],
    (n) => {
      order.push(`step ${n}`)
      clock.advance(3)
    },
    {
      together: (run) => {
        together++
        run()
      },
    },
  )
  const other = turns.run('other', () => order.push('other'))
  await Promise.all([steps, other])
  expect(order).toEqual(['step 1', 'step 2', 'other', 'step 3', 'step 4', 'step 5'])
  expect(together).toBe(3)
})

test('work that has begun is not refused when its owner has too many pieces', async () => {
  const turns = new FairScheduler({ clock: new ManualClock(0), overload, maxPerOwner: 1 })
  const outcomes = await Promise.allSettled([
    turns.run(1, () => 'first'),
    turns.run(1, () => 'refused'),
    turns.resume(1, () => 'goes on'),
    turns.waitForTurn(1, { isNew: false }).then(() => 'goes on too'),
    turns.forEach(1, [1, 2], () => undefined, { isNew: false }).then(() => 'and all of it'),
    turns.waitForTurn(1),
  ])
  expect(outcomes.map((o) => (o.status === 'fulfilled' ? o.value : o.reason.message))).toEqual([
    'first',
    'too much',
    'goes on',
    'goes on too',
    'and all of it',
    'too much',
  ])
})

test('an owner that waits for its turn gets the rest of the tick, and its time counts', async () => {
  const clock = new ManualClock(0)
  const turns = new FairScheduler({ clock, overload })
  const order: string[] = []
  const enter = async (owner: string, name: string, tookMs: number) => {
    await turns.waitForTurn(owner)
    order.push(name)
    clock.advance(tookMs)
  }
  const others = Array.from({ length: 4 }, (_, i) => enter('dear', `d${i + 1}`, 30))
  await Promise.all([...others, enter('cheap', 'c1', 10), enter('cheap', 'c2', 10), enter('cheap', 'c3', 10)])
  expect(order).toEqual(['d1', 'c1', 'c2', 'c3', 'd2', 'd3', 'd4'])
})
