/** @module Which steps and notices the Overview shows. */
import { describe, expect, test } from 'bun:test'
import type { Account, DeadLetter, Domain, Webhook } from '#client/api.ts'
import { sumHours } from '#dashboard/screens/analytics/series.ts'
import { isMostlyDone, listNotices, listSteps } from '#dashboard/screens/overview/notices.ts'

const NOTHING = {
  capturesMail: false,
  account: undefined,
  domains: undefined,
  webhooks: undefined,
  deadLetters: undefined,
}

const account = (fields: Partial<Account>): Account => ({
  id: 'a',
  name: 'Demo',
  email: 'ada@example.test',
  plan: 'free',
  monthly_quota: 1000,
  emails_sent_this_month: 0,
  quota_reset_at: '2026-02-01T00:00:00.000Z',
  tracking_default: false,
  tracking_privacy: false,
  timezone: 'UTC',
  created_at: '2026-01-01T00:00:00.000Z',
  ...fields,
})

describe('steps', () => {
  test('are done by what /v1 returned', () => {
    const none = listSteps({
      domains: [],
      keys: [],
      sent: [],
      webhooks: [],
      hasReadEvents: false,
      hasAuthenticator: false,
    })
    expect(none.map(({ name, isDone }) => [name, isDone])).toEqual([
      ['domain', false],
      ['key', false],
      ['email', false],
      ['webhook', false],
      ['authenticator', false],
    ])
    const all = listSteps({
      domains: [{ status: 'pending' }, { status: 'verified' }],
      keys: [{}],
      sent: [{ sandbox: true }, { sandbox: false }],
      webhooks: [{ last_success_at: '2026-01-01T00:00:00.000Z' }],
      hasReadEvents: false,
      hasAuthenticator: true,
    })
    expect(all.every(({ isDone }) => isDone)).toBe(true)
    expect([isMostlyDone(none), isMostlyDone(all), isMostlyDone(all.slice(0, 3).concat(none.slice(3)))]).toEqual([
      false,
      true,
      true,
    ])
  })

  test('are not done by a pending domain, captured mail or a webhook that never accepted an event', () => {
    const steps = listSteps({
      domains: [{ status: 'pending' }],
      keys: [{}],
      sent: [{ sandbox: true }],
      webhooks: [{ last_success_at: null }],
      hasReadEvents: false,
      hasAuthenticator: false,
    })
    expect(steps.filter(({ isDone }) => isDone).map(({ name }) => name)).toEqual(['key'])
  })

  test('include the feed: an application that reads it needs no webhook', () => {
    const facts = { domains: [], keys: [], sent: [], webhooks: [], hasReadEvents: true, hasAuthenticator: false }
    expect(listSteps(facts).find(({ name }) => name === 'webhook')?.isDone).toBe(true)
  })

  test('leave out what the role may not see', () => {
    const steps = listSteps({
      domains: [],
      keys: undefined,
      sent: [],
      webhooks: [],
      hasReadEvents: false,
      hasAuthenticator: true,
    })
    expect(steps.map(({ name }) => name)).not.toContain('key')
  })
})

describe('notices', () => {
  test('are none when all is in order', () => {
    expect(listNotices(NOTHING)).toEqual([])
    const domains = [{ id: 'd', domain: 'a.example', lost_records: [] } as unknown as Domain]
    expect(listNotices({ ...NOTHING, account: account({}), domains, webhooks: [] })).toEqual([])
  })

  test('say that a server in capture mode delivers nothing', () => {
    expect(listNotices({ ...NOTHING, capturesMail: true })).toMatchObject([
      { title: 'This server delivers no mail', action: { target: { to: '/sandbox' } } },
    ])
  })

  test('name the records that a domain lost, and until when it sends or sent', () => {
    const lost = { id: 'd', domain: 'a.example', lost_records: ['spf', 'return_path'], sends_until: 'T' }
    const find = (state: object) => listNotices({ ...NOTHING, domains: [{ ...lost, ...state } as unknown as Domain] })
    expect(find({ status: 'verified' })).toMatchObject([
      {
        level: 'problem',
        title: 'a.example is about to stop sending',
        text: 'Missing in DNS: SPF, return path.',
        at: { label: 'Sends until', iso: 'T' },
        action: { target: { to: '/domains/$id', params: { id: 'd' } } },
      },
    ])
    expect(find({ status: 'pending' })).toMatchObject([{ title: 'a.example does not send', at: { label: 'Stopped' } }])
    expect(find({ status: 'pending', covered_by: 'example' })).toEqual([])
  })

  test('are about webhooks that failures deactivated, not about those that somebody disabled', () => {
    const webhook = (fields: object) =>
      ({ id: 'w', url: 'https://a.example/b', description: null, events: [], ...fields }) as unknown
    const webhooks = [
      webhook({
        is_active: false,
        failure_count: 10,
        last_failure_reason: 'deactivated after 10 failures',
        last_failure_at: 'T',
      }),
      webhook({ is_active: false, failure_count: 0 }),
      webhook({ is_active: true, failure_count: 3 }),
    ] as Webhook[]
    const notices = listNotices({ ...NOTHING, webhooks })
    expect(notices.map(({ action, text }) => [action.target, text])).toEqual([
      [{ to: '/webhooks/$id', params: { id: 'w' } }, 'a.example/b gets no events: deactivated after 10 failures.'],
    ])
  })

  test('count uncertain mail and other dead letters apart', () => {
    const letter = (original_status: string) => ({ original_status }) as DeadLetter
    const data = [letter('uncertain'), letter('bounced'), letter('failed')]
    const keys = (total: number) => listNotices({ ...NOTHING, deadLetters: { data, total } }).map(({ text }) => text)
    expect(keys(3)).toEqual([
      expect.stringMatching(/^1 recipient:/),
      '1 recipient.',
      expect.stringMatching(/^1 recipient: refused/),
    ])
    expect(keys(300)[1]).toBe('At least 1 recipient.')
  })

  test('warn of the quota from 80 % on', () => {
    const titles = (used: number, quota = 1000) =>
      listNotices({
        ...NOTHING,
        account: account({ monthly_quota: quota, emails_sent_this_month: used }),
      }).map(({ level, title }) => [level, title])
    expect(titles(799)).toEqual([])
    expect(titles(805)).toEqual([['warning', "80 % of this month's quota is used"]])
    expect(titles(1000)).toEqual([['problem', 'The quota of this month is used up']])
    expect(titles(2_000_000_000, 2147483647)).toEqual([])
  })

  test('say why sending is paused, before everything else', () => {
    const paused = { since: 'T', source: 'reputation', reason: 'Too many bounces.' }
    const [first, second] = listNotices({ ...NOTHING, account: account({ paused, emails_sent_this_month: 900 }) })
    expect(first).toMatchObject({ title: 'Sending is paused', text: expect.stringContaining('Too many bounces.') })
    expect(second?.key).toBe('quota')
  })
})

test('the last 24 hours and those before are sums of the newest 48 points', () => {
  const points = Array.from({ length: 72 }, (_, hour) => ({ date: '2026-01-01', sent: hour, delivered: 1 }))
  const { now, before, series } = sumHours(points, 'sent')
  expect([now, before, series.length, series[0]]).toEqual([24 * 48 + 276, 24 * 24 + 276, 24, 48])
  expect(sumHours(points, 'bounced').now).toBe(0)
  expect(sumHours([], 'sent').now).toBe(0)
})
