/** @module What the settings decide without a browser: words of the audit log, filters, slugs, browsers. */
import { describe, expect, test } from 'bun:test'
import { toSlug } from '#dashboard/parts/format.ts'
import {
  findResourceScreen,
  listChanges,
  listDetails,
  toActionWords,
  toActorWords,
  toBrowserWords,
} from '#dashboard/screens/settings/audit-format.ts'

describe('an entry of the audit log', () => {
  test.each([
    ['session.created', 'Signed in'],
    ['user.recovery_codes_renewed', 'Recovery codes renewed'],
    ['template.updated', 'Template updated'],
    ['api_key.created', 'API key created'],
    ['inbound_route.webhook_deactivated', 'Inbound route webhook deactivated'],
    ['unheard', 'Unheard'],
    ['', ''],
  ])('%p is said as %p', (action, words) => expect(toActionWords(action)).toBe(words))

  test.each([
    ['user', 'u1', 'ada@people.test', 'ada@people.test'],
    ['user', 'u2', null, 'A former member'],
    ['user', 'erased', null, 'An erased user'],
    ['api_key', 'k1', 'app', 'API key app'],
    ['api_key', 'k2', null, 'A deleted key'],
    ['system', 'stripe', 'Tassis', 'Payment provider'],
    ['system', 'cleanup', 'Tassis', 'Tassis'],
    ['operator', 'cli', 'Operator', 'Operator'],
  ])('by %s %s names its actor', (actor_type, actor_id, actor_name, words) =>
    expect(toActorWords({ actor_type, actor_id, actor_name })).toBe(words),
  )

  test('has its difference as lines, and a screen for what still exists', () => {
    const changes = [
      { field: 'retry_after', from: null, to: 5 },
      { field: 'events', from: ['sent', 'opened'], to: [] },
      { field: 'is_active', from: true, to: false },
    ]
    expect(listChanges({ changes })).toEqual([
      'retry after: nothing → 5',
      'events: sent, opened → nothing',
      'is active: on → off',
    ])
    const stream = { resource_type: 'stream', resource_id: 's1' }
    expect(findResourceScreen({ ...stream, resource_exists: true })?.to).toBe('/settings/streams/$id')
    expect(findResourceScreen({ ...stream, resource_exists: false })).toBeUndefined()
  })

  test('has its metadata as lines', () => {
    expect(listDetails({ a: 'x', b: 1, c: { d: null } })).toEqual([
      ['a', 'x'],
      ['b', '1'],
      ['c', '{"d":null}'],
    ])
    expect(listDetails(null)).toEqual([])
    expect(listDetails('cut {')).toEqual([['details', 'cut {']])
  })
})

test.each([
  ['Weekly News & Offers', 'weekly-news-offers'],
  ['  Über uns ', 'uber-uns'],
  ['🎉', ''],
  ['x'.repeat(80), 'x'.repeat(63)],
  [`${'x'.repeat(62)} y`, 'x'.repeat(62)],
])('the slug of %p is %p', (name, slug) => expect(toSlug(name, 63)).toBe(slug))

test.each([
  ['Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'Firefox on Linux'],
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0',
    'Edge on Windows',
  ],
  [
    'Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605 Version/19.0 Mobile Safari/604.1',
    'Safari on iOS',
  ],
  ['Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36', 'Chrome on Android'],
  ['curl/8.1', 'curl'],
  ['<script>alert(1)</script>', '<script>alert(1)</script>'],
  ['Robot (Linux)', 'Unknown browser on Linux'],
  ['', 'Unknown browser'],
  [null, 'Unknown browser'],
])('%p is shown as %p', (agent, words) => expect(toBrowserWords(agent)).toBe(words))
