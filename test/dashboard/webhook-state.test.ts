import { expect, test } from 'bun:test'
import type { WebhookDeliverySummary } from '#client/api.ts'
import { toBody, type Values } from '#dashboard/parts/fields.ts'
import { formatDuration } from '#dashboard/parts/format.ts'
import { updateRows } from '#dashboard/parts/rows.ts'
import { STATE_NAMES } from '#dashboard/parts/tone.ts'
import {
  EVENT_GROUPS,
  EVENT_NAMES,
  findLastAttempt,
  findLastFailure,
  toFailureWords,
  toMissedStart,
  toPrettyJson,
  toWebhookName,
  toWebhookState,
} from '#dashboard/screens/webhooks/state.ts'
import { EVENT_TYPES } from '#features/core/events/record.ts'
import { WEBHOOK_EVENTS } from '#features/webhooks/webhooks/event-names.ts'
import { DEACTIVATION_REASON } from '#features/webhooks/webhooks/manage/pending.ts'

const at = (minute: number): string => `2026-01-01T00:${String(minute).padStart(2, '0')}:00.000Z`

const delivery = (more: Partial<WebhookDeliverySummary>): WebhookDeliverySummary => ({
  id: 'd',
  webhook_id: 'w',
  email_id: null,
  event: 'sent',
  event_id: null,
  seq: 1,
  status: 'undeliverable',
  attempts: 1,
  next_attempt_at: null,
  attempted_at: at(1),
  duration_ms: 5,
  status_code: 502,
  response: null,
  error: 'The response status was 502.',
  created_at: at(1),
  ...more,
})

test('the state of a webhook tells failures from its owner', () => {
  const state = (is_active: boolean, failure_count: number, last_failure_reason: string | null = null) =>
    toWebhookState({ is_active, failure_count, last_failure_reason })
  expect(state(true, 0)).toBe('active')
  expect(state(true, 3, 'no')).toBe('failing')
  expect(state(false, 10, DEACTIVATION_REASON)).toBe('deactivated')
  expect(state(false, 3, 'The response status was 500.')).toBe('off')
  expect(state(false, 0)).toBe('off')
})

test('live updates listen to every type of event', () => {
  expect(STATE_NAMES).toEqual(expect.arrayContaining([...EVENT_TYPES]))
})

test('every event is offered once, in one group', () => {
  expect([...EVENT_NAMES]).toEqual([...WEBHOOK_EVENTS])
  expect(EVENT_GROUPS.flatMap(({ events }) => events)).toEqual([...WEBHOOK_EVENTS])
})

test('a webhook is called by its description, or its URL without what may be secret', () => {
  expect(toWebhookName({ description: 'Billing', url: 'https://a.test/' })).toBe('Billing')
  expect(toWebhookName({ description: null, url: 'https://a.test:8443/' })).toBe('a.test:8443')
  expect(toWebhookName({ description: null, url: 'https://a.test/hook?key=secret' })).toBe('a.test/hook')
  expect(toWebhookName({ description: null, url: `https://a.test/${'x'.repeat(200)}` })).toHaveLength(81)
})

test('a failure names the last response', () => {
  expect(toFailureWords(delivery({}))).toBe('the last response was 502')
  const silent = { status_code: null, error: 'The connection was refused. That was the last of 5 attempts.' }
  expect(toFailureWords(silent)).toBe('there was no response: The connection was refused')
  expect(toFailureWords({ status_code: null, error: null })).toBe('there was no response')
})

test('the last failure is found by its time, and is no test event', () => {
  const last = delivery({ id: 'last', attempted_at: at(9) })
  const rows = [delivery({ id: 'test', event: 'test', attempted_at: at(9) }), delivery({ id: 'other' }), last]
  expect(findLastFailure(rows, { last_failure_at: at(9) })).toBe(last)
  expect(findLastFailure(rows, { last_failure_at: at(20) })?.id).toBe('other')
  expect(findLastFailure([delivery({ status: 'delivered' })], { last_failure_at: at(20) })).toBeUndefined()
})

test('the last attempt is the later of success and failure', () => {
  expect(findLastAttempt({ last_success_at: null, last_failure_at: null })).toBeUndefined()
  expect(findLastAttempt({ last_success_at: at(2), last_failure_at: at(1) })).toEqual({ at: at(2), isAccepted: true })
  expect(findLastAttempt({ last_success_at: at(2), last_failure_at: at(3) })).toEqual({ at: at(3), isAccepted: false })
})

test('what a failing webhook may have missed begins before its first failure, not before the webhook', () => {
  const failing = '2026-01-02T10:00:00.000Z'
  expect(toMissedStart({ failing_since: null, created_at: at(1) })).toBeUndefined()
  expect(toMissedStart({ failing_since: failing, created_at: at(1) })).toBe('2026-01-02T06:00:00.000Z')
  expect(toMissedStart({ failing_since: failing, created_at: '2026-01-02T09:00:00.000Z' })).toBe(
    '2026-01-02T09:00:00.000Z',
  )
})

test('rows stay where they are, with their newest state; only those before them count as new', () => {
  const row = (id: string, status = 'pending') => ({ id, status })
  const toId = ({ id }: { readonly id: string }) => id
  const shown = [row('b'), row('a')]
  expect(updateRows(shown, [row('d'), row('c'), row('b', 'delivered')], toId)).toEqual({
    rows: [row('b', 'delivered'), row('a')],
    newCount: 2,
    hasChanged: true,
  })
  // A row from a later page, which moved up because another was deleted, is not new.
  expect(updateRows(shown, [row('b'), row('0')], toId)).toMatchObject({ newCount: 0, hasChanged: true })
  expect(updateRows(shown, shown, toId)).toMatchObject({ newCount: 0, hasChanged: false })
})

test('a range covers the whole of its last minute; what is no time is left to the server', () => {
  const from = { name: 'from', label: 'From', kind: 'time', isRequired: true } as const
  const toRange = (inputs: Values) => toBody([from, { ...from, name: 'to', isEnd: true }], inputs, false)
  const minute = '2026-01-01T10:30'
  const range = toRange({ from: minute, to: minute })
  expect(new Date(String(range['to'])).getTime() - new Date(String(range['from'])).getTime()).toBe(59_999)
  const late = '20260-01-01T10:30'
  expect(toRange({ from: late, to: '' })).toEqual({ from: late, to: '' })
})

test('durations and JSON are readable; what is not JSON stays as it is', () => {
  expect([formatDuration(null), formatDuration(999), formatDuration(10_000)]).toEqual(['–', '999 ms', '10.0 s'])
  expect(toPrettyJson('{"a":[1]}')).toBe('{\n  "a": [\n    1\n  ]\n}')
  expect(toPrettyJson('<script>')).toBe('<script>')
})
