import { expect, test } from 'bun:test'
import { FairQueue } from '#platform/queue/fair-queue.ts'

const drain = <T>(queue: FairQueue<T>): T[] => {
  const items: T[] = []
  for (let next = queue.shift(); next; next = queue.shift()) items.push(next.item)
  return items
}

test('owners take turns, each with its items in order', () => {
  const queue = new FairQueue<string>()
  for (const item of ['a1', 'a2', 'a3']) queue.push('a', item)
  for (const item of ['b1', 'b2']) queue.push('b', item)
  expect(drain(queue)).toEqual(['a1', 'b1', 'a2', 'b2', 'a3'])
})

test('a new owner does not wait behind earlier items of others', () => {
  const queue = new FairQueue<string>()
  for (let i = 0; i < 100; i++) queue.push('many', `m${i}`)
  for (let i = 0; i < 50; i++) queue.shift()
  queue.push('late', 'l')
  expect(queue.shift()?.item).toBe('l')
})

test('turns go by cost, known beforehand or charged afterwards', () => {
  const queue = new FairQueue<string>()
  queue.push('dear', 'd1', 3)
  queue.push('dear', 'd2', 3)
  for (let i = 0; i < 6; i++) queue.push('cheap', `c${i}`)
  expect(drain(queue)).toEqual(['d1', 'c0', 'c1', 'c2', 'd2', 'c3', 'c4', 'c5'])

  for (let i = 0; i < 3; i++) queue.push('a', `a${i}`, 0)
  for (let i = 0; i < 3; i++) queue.push('b', `b${i}`, 0)
  expect(queue.shift()?.item).toBe('a0')
  queue.charge('a', 10)
  expect(queue.shift()?.item).toBe('b0')
  queue.charge('b', 4)
  expect(queue.shift()?.item).toBe('b1')
})

test('an idle owner accumulates no credit', () => {
  const queue = new FairQueue<string>()
  queue.push('idle', 'i')
  for (let i = 0; i < 20; i++) queue.push('busy', `b${i}`)
  for (let i = 0; i < 11; i++) queue.shift()
  for (let i = 0; i < 5; i++) queue.push('idle', `i${i}`)
  const next = [queue.shift(), queue.shift(), queue.shift(), queue.shift()].map((shifted) => shifted?.owner)
  expect(next.filter((owner) => owner === 'idle')).toHaveLength(2)
})

test('an owner has no more items than the limit, and others are not affected', () => {
  const queue = new FairQueue<string>({ maxPerOwner: 2 })
  expect(['a', 'a', 'a', 'b'].map((owner) => queue.push(owner, owner))).toEqual([true, true, false, true])
})

test('a full queue evicts the newest item of the owner with the most for an owner with fewer', () => {
  const evicted: string[] = []
  const queue = new FairQueue<string>({ maxWaiting: 3 }, (item) => void evicted.push(item))
  for (const item of ['a1', 'a2', 'a3']) queue.push('a', item)
  expect(queue.push('a', 'a4')).toBe(false)
  expect(queue.push('b', 'b1')).toBe(true)
  expect(evicted).toEqual(['a3'])
  // Now a has two items and b has one: no owner has more than b would have with another.
  expect(queue.push('b', 'b2')).toBe(false)
  expect(drain(queue)).toEqual(['a1', 'b1', 'a2'])
})

test('an unlimited item blocks no other, and is never evicted', () => {
  const evicted: string[] = []
  const queue = new FairQueue<string>({ maxWaiting: 3, maxPerOwner: 3 }, (item) => void evicted.push(item))
  const goOn = (item: string) => queue.push('a', item, 1, { isLimited: false })
  for (const item of ['g1', 'g2', 'g3', 'g4']) expect(goOn(item)).toBe(true)
  expect(['a1', 'a2', 'a3', 'a4'].map((item) => queue.push('a', item))).toEqual([true, true, true, false])
  expect(goOn('g5')).toBe(true)
  expect(['b1', 'b2'].map((item) => queue.push('b', item))).toEqual([true, false])
  expect(evicted).toEqual(['a3'])
  expect(drain(queue)).toEqual(['g1', 'b1', 'g2', 'g3', 'g4', 'a1', 'a2', 'g5'])
})

test('owners that cannot be served keep their place', () => {
  const queue = new FairQueue<string>()
  queue.push('closed', 'c')
  queue.push('open', 'o')
  expect(queue.shift((owner) => owner !== 'closed')?.item).toBe('o')
  expect(queue.shift((owner) => owner !== 'closed')).toBeUndefined()
  expect(queue.shift()?.item).toBe('c')
})

test('unwanted items can be removed', () => {
  const queue = new FairQueue<string>()
  for (const item of ['a1', 'a2']) queue.push('a', item)
  queue.push('b', 'b1')
  expect(queue.remove((item) => item !== 'a2')).toEqual(['a1', 'b1'])
  expect([queue.size, drain(queue)]).toEqual([1, ['a2']])
})

test('the use of an owner counts for all its shares: neither many networks of one account nor many accounts of one network get more', () => {
  const queue = new FairQueue<string>({ sharesOf: (owner) => String(owner).split(' ') })
  for (let i = 0; i < 50; i++) {
    queue.push(`n${i % 5} attacked`, 'many networks', 5)
    queue.push(`attacker a${i}`, 'many accounts', 5)
  }
  const served: string[] = []
  const serve = (count: number): void => {
    for (let i = 0; i < count; i++) served.push(queue.shift()?.item ?? '')
  }
  serve(20)
  expect(served.filter((item) => item === 'many networks')).toHaveLength(10)
  queue.push('honest own', 'others')
  // The account that many networks attack is served after at most one item of each network.
  queue.push('honest attacked', 'to the attacked')
  serve(12)
  expect(served[20]).toBe('others')
  expect(served.slice(0, served.indexOf('to the attacked')).filter((item) => item === 'many networks').length).toBe(14)
})

test('peeking does not change whose turn it is', () => {
  const queue = new FairQueue<string>()
  for (const item of ['a1', 'a2']) queue.push('a', item)
  queue.push('b', 'b1')
  for (let i = 0; i < 3; i++) expect(queue.peek()).toBe('a1')
  expect(queue.peek((owner) => owner !== 'a')).toBe('b1')
  expect(drain(queue)).toEqual(['a1', 'b1', 'a2'])
})

test("an item that was put back is its owner's first, and costs only once", () => {
  const queue = new FairQueue<string>()
  for (const item of ['a1', 'a2']) queue.push('a', item, 2)
  for (const item of ['b1', 'b2']) queue.push('b', item, 2)
  const taken = queue.shift()
  if (taken) queue.putBack(taken)
  expect([taken?.item, queue.size]).toEqual(['a1', 4])
  expect(drain(queue)).toEqual(['b1', 'a1', 'b2', 'a2'])
})
