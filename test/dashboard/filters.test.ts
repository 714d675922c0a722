/** @module The filters of lists: what of the query of a URL they are, and how `/v1` takes them. */
import { expect, test } from 'bun:test'
import { type Filters, readFilters, readList, toQuery } from '#dashboard/parts/filters.ts'
import { parseAnalyticsFilters } from '#dashboard/screens/analytics/filters.ts'
import { parseStep } from '#dashboard/screens/broadcasts/states.ts'
import {
  ACCOUNT_FILTERS,
  AUDIT_FILTERS,
  CAPTURED_FILTERS,
  CONTACT_FILTERS,
  DELIVERY_FILTERS,
  EMAIL_FILTERS,
  INBOUND_FILTERS,
  OPERATOR_MAIL_FILTERS,
  QUEUE_FILTERS,
  SETTING_FILTERS,
  SUPPRESSION_FILTERS,
} from '#dashboard/screens/filters.ts'
import { DELIVERY_STATUSES } from '#features/webhooks/webhooks/event-names.ts'

const parse: (filters: Filters) => (search: Readonly<Record<string, unknown>>) => unknown = readList

const DAYS = { from_date: '2026-11-21', to_date: 'yesterday' }
const LONG = 'x'.repeat(1000)

test.each([
  [
    parse(EMAIL_FILTERS),
    { to: ' bob@gmail.com ', tag: 42, subject: true, from: '  ', stream: ['a'], status: 'unheard of' },
    { to: 'bob@gmail.com', tag: '42', subject: 'true' },
  ],
  [parse(EMAIL_FILTERS), { ...DAYS, domain: LONG }, { from_date: DAYS.from_date, domain: 'x'.repeat(500) }],
  [
    parse(INBOUND_FILTERS),
    { from: ` ada@example.org${LONG}`, status: 'unheard of', domain_id: 42, route_id: ['a'] },
    { from: `ada@example.org${'x'.repeat(485)}`, domain_id: '42' },
  ],
  [
    parse(AUDIT_FILTERS),
    { ...DAYS, action: ' domain.created ', actor_type: 'robot', actor_id: '', resource_id: 42, cursor: 'c' },
    { action: 'domain.created', resource_id: '42', from_date: DAYS.from_date, cursor: 'c' },
  ],
  [parse(AUDIT_FILTERS), { actor_type: 'toString', action: LONG }, { action: 'x'.repeat(512) }],
  ...DELIVERY_STATUSES.map((status) => [parse(DELIVERY_FILTERS), { status }, { status }] as const),
  [parse(DELIVERY_FILTERS), { status: 'constructor', event: ['sent'], page: 2 }, {}],
  [parse(DELIVERY_FILTERS), { status: 3, event: 'test' }, { event: 'test' }],
  [parse(SUPPRESSION_FILTERS), { email: ' bob@example.com ', reason: 42, page: 3 }, { email: 'bob@example.com' }],
  [parse(SUPPRESSION_FILTERS), { email: '', reason: ['a'] }, {}],
  [parse(CONTACT_FILTERS), { starts_with: '  Bob ', status: 'active' }, { starts_with: 'Bob', status: 'active' }],
  [parse(CONTACT_FILTERS), { starts_with: 42, status: 'x' }, { starts_with: '42' }],
  [parse(CAPTURED_FILTERS), { q: ' x ', unread: 'true', cursor: 'c' }, { q: 'x', unread: 'true', cursor: 'c' }],
  [parse(CAPTURED_FILTERS), { q: '', unread: 'no', tab: 'html' }, {}],
  [parseStep, { step: 'test' }, { step: 'test' }],
  [parseStep, { step: 'x' }, {}],
  [
    parseAnalyticsFilters,
    { period: '7d', interval: 'hour', stream: 'news', x: '50' },
    { period: '7d', interval: 'hour', stream: 'news' },
  ],
  [
    parseAnalyticsFilters,
    { period: '7d', from: '2026-01-01', to: '2026-01-31' },
    { from: '2026-01-01', to: '2026-01-31' },
  ],
  [parseAnalyticsFilters, { period: '14d', from: 'x', interval: 'year' }, {}],
  [
    parse(QUEUE_FILTERS),
    { domain: ' example.com ', account_id: 7, lane: '' },
    { domain: 'example.com', account_id: '7' },
  ],
  [parse(ACCOUNT_FILTERS), { q: LONG, state: 'gone' }, { q: 'x'.repeat(500) }],
  [parse(ACCOUNT_FILTERS), { state: 'paused' }, { state: 'paused' }],
  [parse(OPERATOR_MAIL_FILTERS), { kind: '<script>' }, {}],
  [parse(OPERATOR_MAIL_FILTERS), { kind: 'abuse' }, { kind: 'abuse' }],
  [readFilters(SETTING_FILTERS), { q: { a: 1 }, set: 'true' }, { set: 'true' }],
] as const)('%p of the query %o leaves out what is no filter', (read, search, filters) => {
  expect(read({ ...search, other: 'x' })).toEqual(filters as never)
})

test('a range of days covers both days in the zone of the reader', () => {
  const range = {
    from_date: new Date('2026-11-21T00:00:00.000').toISOString(),
    to_date: new Date('2026-11-22T23:59:59.999').toISOString(),
  }
  const days = { from_date: '2026-11-21', to_date: '2026-11-22' }
  expect(toQuery({ to: 'a@b.test', ...days })).toEqual({ to: 'a@b.test', ...range })
  expect(toQuery({ from_date: '2026-13-45' })).toEqual({ from_date: '2026-13-45' })
})
