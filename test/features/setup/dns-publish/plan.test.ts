import { expect, test } from 'bun:test'
import { planRecord } from '#features/setup/dns-publish/plan.ts'
import { missing, unknown, verified, wrong } from '#features/setup/domains/check-result.ts'
import type { DnsRecord } from '#features/setup/domains/dns-records.ts'

const PRINTED = 'v=DMARC1; p=none; rua=mailto:ours@zone.test'
const txt = (host: string, value: string): DnsRecord => ({ type: 'TXT', host, value, verified: false })
const setAt = (name: string, type: string, ...values: string[]) => ({ name, type, ttlSeconds: 60, values })

test.each([
  ['v=DMARC1; p=reject', `v=DMARC1; p=reject; rua=mailto:ours@zone.test`],
  ['v=DMARC1; p=reject;', `v=DMARC1; p=reject; rua=mailto:ours@zone.test`],
  ['v=DMARC1; rua=mailto:me@a.test!10m ; p=none', 'v=DMARC1; rua=mailto:me@a.test!10m,mailto:ours@zone.test; p=none'],
  ['v=DMARC1; p=none; rua=mailto:me@a.test,mailto:Ours@zone.test', undefined],
])('a valid policy stays and gets our report address once: %s', (there, expected) => {
  const sets = [setAt('_dmarc.zone.test', 'TXT', 'other', there)]
  const record = txt('_dmarc.zone.test', PRINTED)
  const plan = planRecord('dmarc', record, verified('It is valid.'), { zone: 'zone.test', domain: 'zone.test', sets })
  expect(plan).toMatchObject({
    action: expected === undefined ? 'leave' : 'change',
    after: ['other', expected ?? there],
    ttlSeconds: 60,
  })
  // An inherited policy has no record to change.
  expect(
    planRecord('dmarc', record, verified('Inherited.'), { zone: 'zone.test', domain: 'zone.test', sets: [] }).action,
  ).toBe('leave')
})

test('records that are ours in part are completed, and what cannot be at a name is a conflict', () => {
  const mx: DnsRecord = {
    type: 'MX',
    host: 'zone.test',
    value: 'a.test',
    priority: 10,
    further_values: ['b.test'],
    verified: false,
  }
  const view = (...sets: ReturnType<typeof setAt>[]) => ({ zone: 'zone.test', domain: 'zone.test', sets })
  const plan = planRecord('mx', mx, wrong('Not to b.test.'), view(setAt('zone.test', 'MX', '5 a.test')))
  expect([plan.action, plan.after]).toEqual(['change', ['5 a.test', '10 b.test']])
  const cname = (host: string): DnsRecord => ({ type: 'CNAME', host, value: 'us.test', verified: false })
  const planOf = (host: string) => planRecord('tracking', cname(host), missing('None.'), view())
  expect(planOf('links.zone.test')).toMatchObject({ action: 'create', after: ['us.test'] })
  expect(planOf('zone.test').reason).toContain('is the zone itself')
  expect(planOf('links.other.test').reason).toContain('links.other.test is not in the zone zone.test')
  const report = txt('_smtp._tls.zone.test', 'v=TLSRPTv1; rua=mailto:ours@zone.test')
  const reportPlan = (...values: string[]) =>
    planRecord('tls_rpt', report, undefined, view(setAt(report.host, 'TXT', ...values))).action
  expect([reportPlan('other'), reportPlan('v=TLSRPTv1; rua=mailto:me@zone.test')]).toEqual(['change', 'leave'])
  const dmarc = planRecord('dmarc', txt('_dmarc.zone.test', PRINTED), undefined, view())
  expect(dmarc.action).toBe('conflict')
  // Credentials of a domain below the zone are not used for its other names.
  const below = { ...view(), domain: 'news.zone.test' }
  const outside = planRecord('tracking', cname('links.zone.test'), missing('None.'), below)
  expect([outside.action, outside.reason]).toEqual(['conflict', expect.stringContaining('is not below news.zone.test')])
  const spf = txt('send.zone.test', 'v=spf1 ip4:192.0.2.1 -all')
  const there = view(setAt(spf.host, 'TXT', 'v=spf1 include:silent.test -all'))
  expect(planRecord('spf', spf, unknown('No answer.'), there)).toMatchObject({
    action: 'conflict',
    reason: 'No answer.',
  })
})
