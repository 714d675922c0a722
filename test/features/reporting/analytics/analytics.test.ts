/** @module /v1/analytics: stats of real sends, periods, and rejected queries. */
import { expect, test } from 'bun:test'
import { addToRow, DAILY_FIELDS, type DailyStats, dayOf } from '#features/core/events/daily-stats.ts'
import { count } from '#features/core/events/record.ts'
import type { Tx } from '#platform/db/open.ts'
import { days } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, NOW, shareEmailApi, UNVERIFIED } from '#test/support/email-api.ts'

const service = shareEmailApi(createEmailApi)

const TODAY = dayOf(NOW)
const textOf = (day: number): string => new Date(day * days(1)).toISOString().slice(0, 10)

/** Writes stats of a domain and adds them to the total. */
const happened = (day: number, domain: string, figures: Partial<DailyStats>, accountId = 1) =>
  service.app.commit.write((tx: Tx) => {
    for (const field of DAILY_FIELDS) {
      addToRow(tx, accountId, day, domain, field, figures[field] ?? 0)
      addToRow(tx, accountId, day, '', field, figures[field] ?? 0)
    }
  })

const ask = async (path: string) => {
  const { status, body } = await service.api('GET', `/v1/analytics/${path}`)
  expect([path, status]).toEqual([path, 200])
  return body
}

// Proves: analytics-7, analytics-8
test('accepted mail counts as sent on the day of its acceptance, by recipient; suppressed, cancelled and sandbox mail does not', async () => {
  const { api, clock } = service
  await api('POST', '/v1/suppressions', { email_address: 'gone@a.test' })
  await service.accepted({ to: 'one@a.test' })
  await service.accepted({ to: ['one@A.test', 'two@münchen.test'], cc: ['gone@a.test'], bcc: ['three@a.test'] })
  await service.accepted({ to: 'captured@a.test', from: `ada@${UNVERIFIED}` })
  const { id } = await service.accepted({ to: 'later@a.test', send_at: new Date(NOW + days(2)).toISOString() })
  clock.advance(days(1))
  await service.accepted({ to: 'next@a.test' })
  const domains = async () => at(await ask('domains'), 'data')
  const rates = { delivery_rate: 0, bounce_rate: 0, open_rate: 0, click_rate: 0 }
  expect(await domains()).toEqual([
    { domain: 'a.test', sent: 5, delivered: 0, bounced: 0, ...rates },
    { domain: 'xn--mnchen-3ya.test', sent: 1, delivered: 0, bounced: 0, ...rates },
  ])
  await api('POST', `/v1/emails/${id}/cancel`)
  expect(await ask('timeseries?period=7d&metrics=sent')).toMatchObject({
    data: [-5, -4, -3, -2, -1, 0, 1].map((day) => ({
      date: textOf(TODAY + day),
      sent: day === 0 ? 4 : day === 1 ? 1 : 0,
    })),
    period: { from: textOf(TODAY - 5), to: textOf(TODAY + 1), period: '7d' },
  })
  expectBalanced(service)
})

// Proves: list-16, analytics-1
test('the overview has all counts twice, and rates of distinct emails over those delivered', async () => {
  await happened(TODAY, 'a.test', {
    sent: 30,
    delivered: 24,
    bounced: 3,
    opens: 40,
    clicks: 9,
    openedEmails: 8,
    clickedEmails: 3,
    complaints: 2,
    unsubscribes: 1,
  })
  await happened(TODAY - 29, 'b.test', { sent: 3, delivered: 3 })
  await happened(TODAY - 30, 'b.test', { sent: 100 })
  await happened(TODAY, 'b.test', { sent: 100 }, 2)
  expect(await ask('overview')).toMatchObject({
    data: {
      sent: 33,
      delivered: 27,
      bounced: 3,
      opens: 40,
      clicks: 9,
      complaints: 2,
      delivery_rate: 0.8182,
      open_rate: 0.2963,
      click_rate: 0.1111,
      total_sent: 33,
      total_delivered: 27,
      total_bounced: 3,
      total_opens: 40,
      total_clicks: 9,
      total_unsubscribes: 1,
      delivery_rate_pct: 81.82,
      open_rate_pct: 29.63,
      click_rate_pct: 11.11,
      bounce_rate_pct: 9.09,
      bounce_rate: 0.0909,
      complaint_rate: 0.0741,
      machine_opens: 0,
      machine_clicks: 0,
    },
    period: { from: textOf(TODAY - 29), to: textOf(TODAY), period: '30d' },
  })
})

test('machine opens and clicks are reported separately, for whole days only', async () => {
  const first = (TODAY - 6) * days(1)
  await service.app.commit.write((tx) => {
    for (const [at, opens] of [
      [first - 1, 1],
      [first, 10],
      [NOW, 100],
      [NOW + days(1), 1000],
    ] as const)
      count(tx, 1, 'machine:opened', at, opens)
    count(tx, 1, 'machine:clicked', NOW, 7)
    count(tx, 2, 'machine:opened', NOW, 5)
  })
  const told = (body: unknown) => [
    at(body, 'data', 'opens'),
    at(body, 'data', 'machine_opens'),
    at(body, 'data', 'machine_clicks'),
  ]
  expect(told(await ask('overview?period=7d'))).toEqual([0, 110, 7])
  expect(told(await ask('aggregate?period=7d'))).toEqual([0, 110, 7])
})

// Proves: analytics-1
test('rates are 0 without mail, and at most 1', async () => {
  const rates = async () => {
    const data = at(await ask('overview?period=7d'), 'data') as Record<string, number>
    return ['delivery_rate', 'open_rate', 'click_rate', 'bounce_rate_pct', 'click_rate_pct'].map((name) => data[name])
  }
  expect(await rates()).toEqual([0, 0, 0, 0, 0])
  await happened(TODAY, 'a.test', { sent: 1, delivered: 3, bounced: 2, openedEmails: 4, clickedEmails: 4 })
  expect(await rates()).toEqual([1, 1, 1, 100, 100])
})

// Proves: analytics-2, analytics-6
test('from and to override the period, and are whole days in UTC', async () => {
  await happened(dayOf(Date.UTC(2024, 1, 29)), 'a.test', { sent: 2, clicks: 1 })
  expect(await ask('timeseries?from=2024-02-28&to=2024-03-01&period=90d&metrics=clicks,sent')).toMatchObject({
    data: [
      { date: '2024-02-28', sent: 0, clicks: 0 },
      { date: '2024-02-29', sent: 2, clicks: 1 },
      { date: '2024-03-01', sent: 0, clicks: 0 },
    ],
    period: { from: '2024-02-28', to: '2024-03-01', period: 'custom' },
  })
  expect(at(await ask('overview?from=2024-02-29&to=2024-02-29&period=nonsense'), 'data', 'sent')).toBe(2)
})

// Proves: analytics-2
test('a period has at most 366 days, each with all metrics', async () => {
  const { data } = (await ask('timeseries?from=2024-01-01&to=2024-12-31')) as { data: unknown[] }
  expect([data.length, data[0], data.at(-1)]).toEqual([
    366,
    { date: '2024-01-01', sent: 0, delivered: 0, bounced: 0, opens: 0, clicks: 0 },
    { date: '2024-12-31', sent: 0, delivered: 0, bounced: 0, opens: 0, clicks: 0 },
  ])
})

// Proves: analytics-4
test('the CSV file has the header of the contract and one line per day', async () => {
  await happened(TODAY, 'a.test', { sent: 5, delivered: 4, bounced: 3, opens: 2, clicks: 1 })
  const response = await fetch(`${service.url}/v1/analytics/export?from=2026-03-14&to=2026-03-15`, {
    headers: { authorization: `Bearer ${service.key}` },
  })
  expect([
    response.status,
    response.headers.get('content-type'),
    response.headers.get('content-disposition'),
    await response.text(),
  ]).toEqual([
    200,
    'text/csv; charset=utf-8',
    'attachment; filename="analytics-2026-03-14-2026-03-15.csv"',
    'date,sent,delivered,bounced,opens,clicks\r\n2026-03-14,0,0,0,0,0\r\n2026-03-15,5,4,3,2,1\r\n',
  ])
})

const INVALID: readonly (readonly [path: string, field: string, message?: string])[] = [
  [
    'overview?period=14d',
    'period',
    'period must be one of 7d, 30d, 90d; for other days set from and to as YYYY-MM-DD.',
  ],
  ['overview?period=', 'period'],
  ['overview?period=constructor', 'period'],
  ['overview?from=2026-01-01', 'to', 'Set both from and to as YYYY-MM-DD, or only period.'],
  ['overview?to=2026-01-01', 'from'],
  ['timeseries?from=2026-02-30&to=2026-03-01', 'from', 'from must be a day as YYYY-MM-DD, such as 2026-01-31.'],
  ['timeseries?from=2026-01-01&to=2026-1-2', 'to'],
  ['timeseries?from=2026-01-01T00:00:00Z&to=2026-01-02', 'from'],
  ['timeseries?from=&to=2026-01-02', 'from'],
  ['timeseries?from=2026-01-02&to=2026-01-01', 'from', 'from must not be later than to.'],
  ['domains?from=2025-01-01&to=2026-01-02', 'to', 'from and to must span at most 366 days, both included.'],
  [
    'timeseries?metrics=sent,rejected',
    'metrics',
    'Unknown metric "rejected"; metrics must be a comma-separated list of sent, delivered, bounced, opens, clicks, complaints, unsubscribes.',
  ],
  ['timeseries?interval=minute', 'interval'],
  ['timeseries?interval=', 'interval'],
  [
    'timeseries?interval=hour&period=30d',
    'interval',
    'interval=hour is for at most 7 days; set period=7d, or from and to.',
  ],
  ['timeseries?interval=hour&from=2026-03-01&to=2026-03-08', 'interval'],
  [
    'timeseries?interval=hour&from=2025-02-08&to=2025-02-09',
    'from',
    'Hours are stored for 400 days; from must not be before 2025-02-09.',
  ],
  ['timeseries?metrics=', 'metrics'],
  ['timeseries?metrics=sent,', 'metrics'],
  ['domains?limit=0', 'limit', 'limit must be a whole number from 1 to 1000.'],
  ['domains?limit=-1', 'limit'],
  ['domains?limit=ten', 'limit'],
  ['domains?limit=1001', 'limit'],
  ['domains?limit=1.5', 'limit'],
  ['export?period=1y', 'period'],
]

// Proves: analytics-1, analytics-2, analytics-3, analytics-6, analytics-7
test('an invalid parameter is a 400 that names it and says what is allowed', async () => {
  for (const [path, field, message = expect.any(String)] of INVALID) {
    const { status, body } = await service.api('GET', `/v1/analytics/${path}`)
    expect([path, status, body]).toMatchObject([
      path,
      400,
      { code: 'invalid_parameter', message, details: [{ field }] },
    ])
  }
})

// Proves: analytics-3
test('domains are sorted by recipients and then by name, up to the limit', async () => {
  await happened(TODAY, 'b.test', { sent: 2 })
  await happened(TODAY - 1, 'c.test', { sent: 5, delivered: 4, bounced: 1, openedEmails: 2, clickedEmails: 1 })
  await happened(TODAY - 1, 'a.test', { sent: 1 })
  await happened(TODAY, 'a.test', { sent: 1, delivered: 1 })
  await happened(TODAY, 'opened.test', { opens: 9 })
  await happened(TODAY, 'd.test', { sent: 1 })
  const listed = async (query: string) =>
    (at(await ask(`domains${query}`), 'data') as { domain: string; sent: number }[]).map(
      ({ domain, sent }) => `${domain} ${sent}`,
    )
  expect(await listed('')).toEqual(['c.test 5', 'a.test 2', 'b.test 2', 'd.test 1'])
  expect(await listed('?limit=2')).toEqual(['c.test 5', 'a.test 2'])
  expect(await listed(`?from=${textOf(TODAY)}&to=${textOf(TODAY)}`)).toEqual(['b.test 2', 'a.test 1', 'd.test 1'])
  expect(at(await ask('domains?limit=1'), 'data')).toEqual([
    {
      domain: 'c.test',
      sent: 5,
      delivered: 4,
      bounced: 1,
      delivery_rate: 0.8,
      bounce_rate: 0.2,
      open_rate: 0.5,
      click_rate: 0.25,
    },
  ])
})
