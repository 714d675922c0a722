/** Who may begin an attempt, and who waits: the bounds of one webhook, of one account, of all. */
import { describe, expect, test } from 'bun:test'
import type { Lane, Pace } from '#features/webhooks/webhooks/lane.ts'
import { type Place, Places } from '#features/webhooks/webhooks/places.ts'
import { KiB, MiB } from '#platform/units.ts'

let lastId = 0
/** A lane that has answered well so far; of it only what places look at. */
const lane = (accountId: number, given: { routeId?: number; pace?: Pace } = {}): Lane =>
  ({
    webhook: { id: ++lastId, accountId, routeId: given.routeId ?? null },
    running: 0,
    pace: given.pace ?? 'fast',
  }) as Lane

const lanes = (count: number, accountId: number, given?: Parameters<typeof lane>[1]): Lane[] =>
  Array.from({ length: count }, () => lane(accountId, given))

/** Takes as many places as there are for a lane. */
function fill(places: Places, of: Lane): Place[] {
  const taken: Place[] = []
  while (places.hasRoom(of)) taken.push(places.take(of, () => {}))
  return taken
}

const counts = (places: Places, of: readonly Lane[]): number[] => of.map((each) => fill(places, each).length)

test('a webhook has its first attempt, and further ones while it answers well', () => {
  const places = new Places(30)
  const given = [{}, { pace: 'unproven' as const }].map((each, n) => lane(n, each))
  expect(counts(places, given)).toEqual([30, 1])
})

test('first attempts take no place of further ones, in an account and over all', () => {
  const places = new Places(30)
  counts(
    places,
    Array.from({ length: 600 }, (_, n) => lane(n % 2, { pace: 'unproven' })),
  )
  expect(counts(places, [...lanes(3, 0), ...lanes(3, 1)])).toEqual([30, 22, 1, 30, 22, 1])
  // 50 further ones in each account, 500 over all.
  expect(counts(places, lanes(1, 2))).toEqual([30])
  expect(places.attempts).toBe(600 + 2 * 53 + 30)
  const others = Array.from({ length: 9 }, (_, n) => lane(3 + n)).flatMap((first) => [
    first,
    lane(first.webhook.accountId),
  ])
  expect(counts(places, others).at(-1)).toBe(1)
  expect(places.attempts).toBe(600 + 500 + 3 + 3 + 1 + 18)
})

describe('endpoints that answer well but late', () => {
  test('have five attempts each, ten further ones over an account, and none of those that answer soon', () => {
    const places = new Places(30)
    expect(counts(places, lanes(5, 1, { pace: 'slow' }))).toEqual([5, 5, 3, 1, 1])
    expect(counts(places, lanes(3, 1))).toEqual([30, 22, 1])
    expect(counts(new Places(2), lanes(1, 1, { pace: 'slow' }))).toEqual([2])
  })

  test('have 250 further ones over all accounts', () => {
    const places = new Places(30)
    const all = Array.from({ length: 30 }, (_, n) => lanes(3, n, { pace: 'slow' })).flat()
    counts(places, all)
    expect(places.attempts).toBe(all.length + 250)
  })

  test('give back what they took, whatever their pace is by then and whichever of their attempts ends first', () => {
    const places = new Places(30)
    for (let round = 0; round < 3; round++) {
      const [one = lane(1), other = lane(1)] = lanes(2, 1)
      const taken = fill(places, one)
      one.pace = 'slow'
      other.pace = 'slow'
      taken.push(...fill(places, other))
      one.pace = 'unproven'
      for (const place of taken) place.giveBack()
      expect([one.running, other.running, places.attempts]).toEqual([0, 0, 0])
    }
    expect(counts(places, [...lanes(3, 1), ...lanes(3, 1, { pace: 'slow' })])).toEqual([30, 22, 1, 5, 5, 3])
  })
})

describe('the routes of an account', () => {
  test('have fifty attempts in all, whatever its other webhooks do, and who waits begins when one is over', () => {
    const places = new Places(30)
    counts(places, lanes(60, 1, { pace: 'unproven' }))
    const routes = lanes(52, 1, { routeId: 7, pace: 'unproven' })
    const taken = routes.flatMap((route) => fill(places, route))
    expect(taken).toHaveLength(50)
    const begun: number[] = []
    const pump = () => {
      places.pumpWaiting(
        1,
        () => true,
        (id) => {
          begun.push(id)
          places.take(routes.find(({ webhook }) => webhook.id === id) ?? lane(1), () => {})
        },
      )
    }
    pump()
    expect(begun).toEqual([])
    taken[0]?.giveBack()
    pump()
    expect(begun).toEqual([routes[50]?.webhook.id ?? 0])
  })
})

describe('bodies', () => {
  const hold = (places: Places, accountId: number, characters: number): Place => {
    const place = places.take(lane(accountId), () => {})
    place.hold(characters)
    return place
  }

  test('of one account are 8 MiB, and no concern of another', () => {
    const places = new Places(30)
    const place = hold(places, 1, 8 * MiB)
    expect([places.hasRoom(lane(1)), places.hasRoom(lane(2))]).toEqual([false, true])
    place.giveBack()
    place.giveBack()
    expect(counts(places, lanes(2, 1))).toEqual([30, 22])
  })

  test('of all accounts are 32 MiB, but for accounts with little under way', () => {
    const places = new Places(30)
    for (let accountId = 1; accountId <= 5; accountId++) hold(places, accountId, 7 * MiB)
    hold(places, 6, 256 * KiB)
    hold(places, 7, 256 * KiB - 1)
    expect([1, 6, 7, 8].map((accountId) => places.hasRoom(lane(accountId)))).toEqual([false, false, true, true])
  })
})
