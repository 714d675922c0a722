import { describe, expect, test } from 'bun:test'
import { formatBytes, formatCount } from '#dashboard/parts/format.ts'
import { listNavigation } from '#dashboard/parts/navigation.ts'
import {
  describeOther,
  describeResult,
  describeRule,
  describeSelector,
  formatPercent,
  listBad,
  listOther,
  toDetailText,
  toRuleSelector,
} from '#dashboard/screens/server/format.ts'

test('the navigation has the server only for operators, and for support what it may read', () => {
  const labels = (isOperator: boolean, role = 'owner') =>
    listNavigation({ role, user: { is_operator: isOperator } }).map(({ label }) => label)
  expect(labels(false, 'support')).toEqual(['Overview', 'Emails', 'Analytics', 'Suppressions', 'Domains', 'Settings'])
  expect(labels(false)).not.toContain('Server')
  expect(labels(true)).toEqual([...labels(false), 'Server'])
})

test('sizes and parts are short', () => {
  expect([0, 1023, 1024, 1536, 150 * 1024, 3.4 * 1024 ** 3, 5000 * 1024 ** 4].map(formatBytes)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1.5 KiB',
    '150 KiB',
    '3.4 GiB',
    '5000 TiB',
  ])
  expect([formatCount(1, 'account'), formatCount(0, 'account')]).toEqual(['1 account', '0 accounts'])
  expect([formatCount(2, 'mailbox'), formatCount(2, 'delivery')]).toEqual(['2 mailboxes', '2 deliveries'])
  expect([formatPercent(1, 3), formatPercent(0, 0)]).toEqual(['33 %', '–'])
})

test('details of a finding become text', () => {
  expect([toDetailText(['a', 1]), toDetailText({ a: '<b>' }), toDetailText(null)]).toEqual([
    'a, 1',
    '{"a":"<b>"}',
    'null',
  ])
})

test('findings of the checks: failures first, delivery alerts elsewhere, the rest counted', () => {
  const finding = (check: string, status: 'ok' | 'warning' | 'failure' | 'skipped') =>
    ({ check, status, subject: null, message: '', fix: null }) as const
  const findings = [
    finding('a', 'warning'),
    finding('delivery_alerts', 'warning'),
    finding('b', 'failure'),
    finding('c', 'ok'),
    finding('d', 'skipped'),
  ]
  expect(listBad(findings).map(({ check }) => check)).toEqual(['b', 'a'])
  expect(listOther(findings).map(({ check }) => check)).toEqual(['c', 'd'])
  expect(describeOther(listOther(findings))).toBe('1 well, 1 not made')
})

describe('actions on the queue', () => {
  const rule = {
    id: '1',
    kind: 'hold',
    domain: null,
    provider: null,
    account_id: null,
    account: null,
    email_id: null,
    to: null,
    reason: '',
    created_by: 'cli',
    created_at: '2026-11-23T00:00:00Z',
  } as const

  test('name their mail', () => {
    expect(describeSelector({ domain: 'one.test', account_id: 'x' })).toBe('mail of one account to one.test')
    expect(describeSelector({ provider: 'gmail' })).toBe('mail to the domains of gmail')
    expect(describeSelector({ email_id: 'x' })).toBe('the email x')
    expect(describeRule({ ...rule, provider: 'gmail' })).toBe('Mail to the domains of gmail')
    expect(describeRule({ ...rule, account_id: 'x', account: 'Acme', domain: 'one.test' })).toBe(
      'Mail of Acme to one.test',
    )
    expect(describeRule({ ...rule, account_id: 'x', email_id: 'y' })).toBe('The email y')
  })

  test('a rule is released by what it names', () => {
    expect(toRuleSelector({ ...rule, provider: 'gmail', account_id: 'x' })).toEqual({
      provider: 'gmail',
      account_id: 'x',
    })
    // An email is named alone.
    expect(toRuleSelector({ ...rule, account_id: 'x', email_id: 'y' })).toEqual({ email_id: 'y' })
  })

  test('say what they did', () => {
    const result = { changed: 1, in_delivery: 2, held: 3, suspended: ['gmail'] }
    expect(describeResult('retry', result)).toBe(
      'Mail to 1 recipient is due now; what was due already is tried now, too. 2 in delivery left alone. 3 held left alone. gmail is suspended, so its mail waits until you resume it under Providers.',
    )
    expect(describeResult('release', { ...result, changed: 0 })).toBe('No hold or redirect names this.')
  })
})
