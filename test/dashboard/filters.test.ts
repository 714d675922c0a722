/** @module The filters of lists: what of the query of a URL they are, and how `/v1` takes them. */
import { expect, test } from 'bun:test'
import { parseAnalyticsFilters } from '#dashboard/screens/analytics/filters.ts'
import { parseContactSearch } from '#dashboard/screens/audience/contact-search.ts'
import { parseStep } from '#dashboard/screens/broadcasts/steps.ts'
import { parseFilters, toEmailQuery } from '#dashboard/screens/emails/filters.ts'
import { parseInboundFilters, toInboundQuery } from '#dashboard/screens/inbound/filters.ts'
import { parseInboxSearch } from '#dashboard/screens/sandbox/search.ts'
import {
  parseAccountFilters,
  parseMailFilters,
  parseQueueFilters,
  parseSettingFilters,
  parseUnparsedFilters,
} from '#dashboard/screens/server/filters.ts'
import { hasFilters, parseAuditSearch, toAuditQuery } from '#dashboard/screens/settings/audit-filters.ts'
import { parseSuppressionFilters } from '#dashboard/screens/suppressions/filters.ts'
import { parseDeliveryFilters } from '#dashboard/screens/webhooks/filters.ts'
import { DELIVERY_STATUSES } from '#features/webhooks/webhooks/event-names.ts'

const DAYS = { from_date: '2026-11-21', to_date: 'yesterday' }
const LONG = 'x'.repeat(1000)

test.each([
  [
    parseFilters,
    { to: ' bob@gmail.com ', tag: 42, subject: true, from: '  ', stream: ['a'], status: 'unheard of' },
    { to: 'bob@gmail.com', tag: '42', subject: 'true' },
  ],
  [parseFilters, { ...DAYS, domain: LONG }, { from_date: DAYS.from_date, domain: 'x'.repeat(500) }],
  [
    parseInboundFilters,
    { from: ` ada@example.org${LONG}`, status: 'unheard of', domain: 42, route: ['a'] },
    { from: `ada@example.org${'x'.repeat(305)}`, domain: '42' },
  ],
  [
    parseAuditSearch,
    { ...DAYS, action: ' domain.created ', actor_type: 'robot', actor_id: '', resource_id: 42, cursor: 'c' },
    { action: 'domain.created', resource_id: '42', from_date: DAYS.from_date, cursor: 'c' },
  ],
  [parseAuditSearch, { actor_type: 'toString', action: LONG }, { action: 'x'.repeat(512) }],
  ...DELIVERY_STATUSES.map((status) => [parseDeliveryFilters, { status }, { status }] as const),
  [parseDeliveryFilters, { status: 'constructor', event: ['sent'], page: 2 }, {}],
  [parseDeliveryFilters, { status: 3, event: 'test' }, { event: 'test' }],
  [
    parseSuppressionFilters,
    { email: ' bob@example.com ', reason: 42, page: 3 },
    { email: 'bob@example.com', reason: '42' },
  ],
  [parseSuppressionFilters, { email: '', reason: ['a'] }, {}],
  [parseContactSearch, { q: '  Bob ', status: 'active' }, { q: 'Bob', status: 'active' }],
  [parseContactSearch, { q: 42, status: 'x' }, { q: '42' }],
  [parseInboxSearch, { q: ' x ', unread: 'true', cursor: 'c' }, { q: 'x', unread: true, cursor: 'c' }],
  [parseInboxSearch, { q: '', unread: 'no', tab: 'html' }, {}],
  [parseStep, { step: 'test' }, { step: 'test' }],
  [parseStep, { step: 'x' }, {}],
  [
    parseAnalyticsFilters,
    { period: '7d', interval: 'hour', stream: 'news', domains: '50' },
    { period: '7d', interval: 'hour', stream: 'news', domains: 50 },
  ],
  [
    parseAnalyticsFilters,
    { period: '7d', from: '2026-01-01', to: '2026-01-31' },
    { from: '2026-01-01', to: '2026-01-31' },
  ],
  [parseAnalyticsFilters, { period: '14d', from: 'x', interval: 'year', hidden: 'x,y', domains: 3 }, {}],
  [parseAnalyticsFilters, { hidden: 'opens,nothing,sent' }, { hidden: 'sent,opens' }],
  [parseQueueFilters, { domain: ' example.com ', account: 7, lane: '' }, { domain: 'example.com', account: '7' }],
  [parseAccountFilters, { q: LONG, state: 'gone' }, { q: 'x'.repeat(500) }],
  [parseAccountFilters, { state: 'paused' }, { state: 'paused' }],
  [parseMailFilters, { kind: '<script>' }, {}],
  [parseMailFilters, { kind: 'abuse' }, { kind: 'abuse' }],
  [parseUnparsedFilters, { after: '7-8' }, { after: '7-8' }],
  [parseUnparsedFilters, { after: '7-8;' }, {}],
  [parseSettingFilters, { q: { a: 1 }, set: 'true' }, { set: true }],
] as const)('%p of the query %o leaves out what is no filter', (parse, search, filters) => {
  expect(parse({ ...search, other: 'x' })).toEqual(filters as never)
})

test('filters are those of /v1; a range of days covers both days in the zone of the reader', () => {
  const range = {
    from_date: new Date('2026-11-21T00:00:00.000').toISOString(),
    to_date: new Date('2026-11-22T23:59:59.999').toISOString(),
  }
  const days = { from_date: '2026-11-21', to_date: '2026-11-22' }
  expect(toEmailQuery({ to: 'a@b.test', ...days })).toEqual({ to: 'a@b.test', ...range })
  expect(toEmailQuery({ from_date: '2026-13-45' })).toMatchObject({ from_date: '2026-13-45' })
  expect(toAuditQuery(days)).toEqual(range)
  expect([hasFilters({ cursor: 'c' }), hasFilters({ actor_type: 'user' })]).toEqual([false, true])
  expect(toInboundQuery({ from: 'a@b.test', status: 'failed', domain: 'd', route: 'r' })).toEqual({
    from: 'a@b.test',
    status: 'failed',
    domain_id: 'd',
    route_id: 'r',
  })
})
