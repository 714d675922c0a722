import { describe, expect, test } from 'bun:test'
import { type MatchType, matchRoute, type RouteRule, toRouteKey } from '#features/receiving/route-rules/rows.ts'

/** Routes in the given order, as `match_type pattern priority`; default priority 0; ids start at 1. */
const routes = (...texts: readonly string[]): RouteRule[] =>
  texts.map((text, index) => {
    const [matchType = '', pattern = '', priority = '0'] = text.split(' ')
    return {
      id: index + 1,
      uuid: new Uint8Array(16),
      accountId: 1,
      domainId: 1,
      pattern: toRouteKey(pattern),
      matchType: matchType as MatchType,
      priority: Number(priority),
      webhookUrl: null,
      forwardTo: null,
    }
  })

/** Position of the matching route, from 1; undefined: none. */
const matched = (localPart: string, ...texts: readonly string[]): number | undefined =>
  matchRoute(routes(...texts), localPart)?.id

describe('an address matches', () => {
  const CASES: readonly (readonly [
    rule: string,
    localPart: string,
    texts: readonly string[],
    place: number | undefined,
  ])[] = [
    ['the route with its local part', 'support', ['exact sales', 'exact support'], 2],
    ['none, when none matches', 'info', ['exact support', 'prefix sup'], undefined],
    ['none of no routes', 'info', [], undefined],
    [
      'an exact route before a prefix, a prefix before a catch_all',
      'support',
      ['catch_all', 'prefix sup', 'exact support'],
      3,
    ],
    ['a prefix before a catch_all', 'supper', ['catch_all', 'prefix sup', 'exact support'], 2],
    ['a catch_all, when nothing else matches', 'info', ['catch_all', 'prefix sup'], 1],
    ['a route of lower priority, whatever its match type', 'support', ['exact support 5', 'catch_all x 4'], 2],
    ['one of a negative priority first', 'support', ['exact support 0', 'prefix s -1'], 2],
    ['the older of two prefixes', 'support', ['prefix supp', 'prefix su'], 1],
    ['an exact route in any case', 'SupPort', ['exact SUPPORT'], 1],
    ['a prefix in any case', 'SALES-EU', ['prefix Sales-'], 1],
    ['an exact route without its detail', 'support+x', ['catch_all', 'exact support'], 2],
    ['the exact route with its detail first', 'support+x', ['exact support', 'exact support+x'], 2],
    [
      'the exact route without its detail, if its priority is lower',
      'support+x',
      ['exact support', 'exact support+x 1'],
      1,
    ],
    ['a prefix that reaches into its detail', 'support+vip-1', ['prefix support+vip'], 1],
    ['no route of an empty local part for one that begins with a plus', '+x', ['exact y'], undefined],
    ['the same route when quoted', '"support"', ['exact support'], 1],
    ['the same route in another Unicode composition', 'cafe\u0301', ['exact caf\u00e9'], 1],
    ['no prefix that is longer than it', 'sup', ['prefix support'], undefined],
  ]
  // Proves: inbound-13, inbound-14
  test.each(CASES)('%s: %j', (_, localPart, texts, place) => {
    expect(matched(localPart, ...texts)).toBe(place)
  })

  test('the same route in any order of the routes', () => {
    const all = routes('catch_all x 1', 'prefix s', 'exact support', 'prefix supp', 'exact support+x')
    for (const turned of [all, all.toReversed(), [...all.slice(2), ...all.slice(0, 2)]])
      expect(['support', 'support+x', 'supper', 'info'].map((name) => matchRoute(turned, name)?.id)).toEqual([
        3, 5, 2, 1,
      ])
  })
})
