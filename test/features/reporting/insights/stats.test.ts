import { expect, test } from 'bun:test'
import { findProblems } from '#features/reporting/insights/report.ts'
import { collectStats } from '#features/reporting/insights/stats.ts'
import { STATUSES } from '#features/sending/queue/status.ts'
import { readWebhookStats } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { createEmailApi, NOW } from '#test/support/email-api.ts'
import { seedDay } from './support.ts'

test('stats cover four weeks of whole days up to today: in total, by week, by provider and by number', async () => {
  await using service = await createEmailApi()
  const { app, actor } = service
  const seed = (day: Parameters<typeof seedDay>[2]) => seedDay(app, actor.accountId, day)
  seed({ daysAgo: 28, sent: 5000, delivered: 5000 })
  seed({ daysAgo: 27, sent: 100, delivered: 90, bounced: 10, complaints: 1 })
  seed({
    daysAgo: 0,
    sent: 300,
    delivered: 290,
    bounced: 10,
    opens: 80,
    clicks: 8,
    openedEmails: 58,
    clickedEmails: 6,
    unsubscribes: 3,
  })
  seed({ daysAgo: 0, domain: 'gmail.com', sent: 200, delivered: 195, bounced: 5 })
  seed({ daysAgo: 27, domain: 'gmail.com', sent: 50, delivered: 40, bounced: 10 })
  seed({ daysAgo: 0, domain: 'small-company.test', sent: 60, delivered: 60 })
  seed({ daysAgo: 0, domain: 'mailinator.com', sent: 40, delivered: 35, bounced: 5 })
  seedDay(app, (await service.newAccount()).accountId, { daysAgo: 1, sent: 77, delivered: 77 })

  const { periodStart, periodEnd, metrics, names } = await collectStats(app, actor.accountId, readWebhookStats)
  expect([periodStart, periodEnd]).toEqual([Date.UTC(2026, 1, 16), NOW])
  // Both are created at the same time.
  expect([[...names.keys()], [...names.values()].sort()]).toEqual([
    ['sending_domain_1', 'sending_domain_2'],
    ['sandbox.test', 'sender.test'],
  ])
  expect(Object.fromEntries(metrics)).toMatchObject({
    'period.days': 28,
    'guideline.bounce_pct_critical': 5,
    'total.sent': 400,
    'total.delivered': 380,
    'total.bounced': 20,
    'total.complaints': 1,
    'total.delivery_pct': 95,
    'total.bounce_pct': 5,
    'total.complaint_pct': 0.26,
    'total.opens': 80,
    'total.clicks': 8,
    'total.unsubscribes': 3,
    'total.open_pct': 15.26,
    'total.click_pct': 1.58,
    'total.unsubscribe_pct': 0.79,
    'total.deferred': 0,
    'week_1.sent': 100,
    'week_1.bounce_pct': 10,
    'week_1.complaint_pct': 1.11,
    'week_2.sent': 0,
    'week_4.sent': 300,
    'week_4.open_pct': 20,
    'recipients.gmail.com.sent': 250,
    'recipients.gmail.com.bounce_pct': 6,
    'recipients.other_domain_1.delivery_pct': 100,
    'recipients.other_domain_2.bounce_pct': 12.5,
    'sending_domains.total': 2,
    'sending_domains.unverified': 1,
    'sending_domain_2.dkim': 0,
    'webhooks.total': 0,
    'access.users': 0,
    'access.api_keys_with_full_access': 1,
  })
  // Rates of a week without mail are unknown, and no name of the account is among the names of the stats.
  expect(metrics.has('week_2.bounce_pct')).toBe(false)
  const groups = new Set([...metrics.keys()].map((name) => name.slice(0, name.lastIndexOf('.')).replace(/_\d+$/, '')))
  expect([...groups].sort()).toEqual([
    ...['access', 'guideline', 'period', 'recipients.gmail.com', 'recipients.other_domain'],
    ...['sending_domain', 'sending_domains', 'total', 'webhooks', 'week'],
  ])
})

test('stats contain at most the twelve largest recipient domains and twenty sending domains', async () => {
  await using service = await createEmailApi()
  const { app, actor } = service
  for (let n = 1; n <= 60; n++) {
    seedDay(app, actor.accountId, { daysAgo: n % 28, domain: `company-${n}.test`, sent: n, delivered: n })
  }
  const { metrics } = await collectStats(app, actor.accountId, readWebhookStats)
  expect([...metrics].filter(([name]) => /^recipients\..*\.sent$/.test(name))).toEqual(
    Array.from({ length: 12 }, (_, index) => [`recipients.other_domain_${index + 1}.sent`, 60 - index]),
  )
})

test('streams, bounce categories and webhooks are counted without names', async () => {
  await using service = await createEmailApi()
  const { app, actor, api, accepted } = service
  const hour = Math.floor(NOW / 3_600_000)
  // Including the three accepted here, 60 are sent.
  const { id: streamId } = app.db.query<{ id: number }, []>('SELECT id FROM streams').get() ?? { id: 0 }
  for (const [figure, value] of Object.entries({ sent: 57, delivered: 40, bounced: 10, complained: 1 })) {
    app.db.run('INSERT INTO counters (account_id, metric, hour, value) VALUES (?, ?, ?, ?)', [
      actor.accountId,
      `stream:${streamId}:${figure}`,
      hour - 24,
      value,
    ])
    app.db.run('INSERT INTO counters (account_id, metric, hour, value) VALUES (?, ?, ?, 1000)', [
      actor.accountId,
      `stream:${streamId}:${figure}`,
      hour - 24 * 28,
    ])
  }
  await accepted({ to: 'ada@full.test' })
  await accepted({ to: 'bob@gone.test' })
  await accepted({ to: 'eve@fine.test' })
  app.db.run("UPDATE recipients SET bounce_category = 'mailbox_full' WHERE address LIKE 'ada%'")
  app.db.run("UPDATE recipients SET bounce_category = 'invalid_recipient' WHERE address LIKE 'bob%'")
  app.db.run("UPDATE emails SET status = ? WHERE subject = 'Hello' AND id < 3", [STATUSES.indexOf('bounced')])
  for (let n = 0; n < 3; n++) await api('POST', '/v1/webhooks', { url: 'https://127.0.0.1/hook', events: ['sent'] })
  app.db.run('UPDATE webhooks SET failure_count = 3 WHERE id = 1')
  app.db.run('UPDATE webhooks SET failure_count = 10, is_active = 0, off_by_failures = 1 WHERE id = 2')

  const { metrics, names } = await collectStats(app, actor.accountId, readWebhookStats)
  expect(Object.fromEntries([...metrics].filter(([name]) => /^(stream_|recent_bounces|webhooks)/.test(name)))).toEqual({
    'recent_bounces.invalid_recipient': 1,
    'recent_bounces.mailbox_full': 1,
    'stream_1.sent': 60,
    'stream_1.delivered': 40,
    'stream_1.bounced': 10,
    'stream_1.complaints': 1,
    'stream_1.delivery_pct': 66.67,
    'stream_1.bounce_pct': 20,
    'stream_1.complaint_pct': 2.5,
    'webhooks.total': 3,
    'webhooks.switched_off_by_failures': 1,
    'webhooks.failing': 1,
    'webhooks.most_failures_in_a_row': 10,
  })
  expect(names.get('stream_1')).toBe('transactional')
})

test('without a model the rules find the problems, worst first', () => {
  const metrics = new Map<string, number>([
    ['period.days', 28],
    ['total.sent', 1000],
    ['total.delivered', 900],
    ['total.bounced', 100],
    ['total.bounce_pct', 10],
    ['total.complaint_pct', 0.2],
    ['recipients.gmail.com.delivered', 100],
    ['recipients.gmail.com.bounced', 50],
    ['recipients.gmail.com.bounce_pct', 33.33],
    ['recipients.other_domain_1.delivered', 1],
    ['recipients.other_domain_1.bounced', 1],
    ['recipients.other_domain_1.bounce_pct', 50],
    ['sending_domain_1.spf', 1],
    ['sending_domain_1.dkim', 0],
    ['sending_domain_2.dmarc', 0],
    ['webhooks.switched_off_by_failures', 2],
    ['access.users_without_second_factor', 3],
  ])
  expect(findProblems(metrics).map(({ severity, area, metrics: [metric] }) => [severity, area, metric])).toEqual([
    ['critical', 'deliverability', 'total.bounce_pct'],
    ['critical', 'security', 'sending_domain_1.dkim'],
    ['critical', 'performance', 'webhooks.switched_off_by_failures'],
    ['warn', 'reputation', 'total.complaint_pct'],
    ['warn', 'deliverability', 'recipients.gmail.com.bounce_pct'],
    ['warn', 'security', 'sending_domain_2.dmarc'],
    ['info', 'security', 'access.users_without_second_factor'],
  ])
})
