/** @module Stats and insight reports in the dashboard, in Chromium and with the real service. */
import { describe, expect, test } from 'bun:test'
import { listSteps } from '#dashboard/parts/chart-scale.ts'
import { METRICS, toTimeseriesQuery } from '#dashboard/screens/analytics/filters.ts'
import { dropBefore, formatPoint, hasActivity, toPoints } from '#dashboard/screens/analytics/series.ts'
import { countDaily, type DailyField } from '#features/core/events/daily-stats.ts'
import { METRICS as ALL_METRICS, STREAM_METRICS } from '#features/reporting/analytics/model.ts'
import { storeInsight } from '#features/reporting/insights/insights.ts'
import { countForStream } from '#features/setup/streams/reputation.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { systemClock } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import { createInsightApi } from '#test/features/reporting/insights/support.ts'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually, overflowPx } from '#test/support/browser.ts'
import { describeInBrowser, heading } from '#test/support/dashboard.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const HOSTILE = `<script>window.ran = 1</script>\u202e<img src=x onerror="window.ran = 1">${'😀'.repeat(40)}`

describe('filters', () => {
  test('are those of /v1: all metrics, and of a stream those that are counted by stream', () => {
    expect(METRICS.toSorted()).toEqual(ALL_METRICS.toSorted())
    expect(toTimeseriesQuery({})).toMatchObject({ period: '30d', metrics: METRICS.join(',') })
    expect(toTimeseriesQuery({ interval: 'hour', stream: 'news' })).toEqual({
      period: '7d',
      interval: 'hour',
      stream: 'news',
      metrics: STREAM_METRICS.join(','),
    })
  })
})

describe('a time series', () => {
  const points = [
    { date: '2026-01-01', sent: 3, delivered: 2 },
    { date: '2026-01-02', sent: 0, delivered: 1 },
  ]

  test('begins with the account, and has its days in words', () => {
    const period = { account_since: '2026-01-02' }
    expect(dropBefore(points, period).map(({ date }) => date)).toEqual(['2026-01-02'])
    expect(dropBefore(points, { account_since: '2027-01-01' })).toEqual(points)
    expect(toPoints(points)[0]).toEqual({ name: 'Thu, 1 Jan', tick: '1 Jan' })
    expect(formatPoint({ date: '2026-01-01', time: '2026-01-01T05:30:00.000Z' })).toContain(':30')
    expect([hasActivity(points, ['sent']), hasActivity(points, ['opens'])]).toEqual([true, false])
  })

  test('has a scale of round numbers', () => {
    expect(listSteps(0)).toEqual([0, 1])
    expect(listSteps(3)).toEqual([0, 1, 2, 3])
    expect(listSteps(52)).toEqual([0, 20, 40, 60])
    expect(listSteps(1_000_001).at(-1)).toBe(1_500_000)
  })
})

/** An account of 60 days without mail and reports, on a day that does not end during a test. */
async function startService(): Promise<TestApi> {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12) - days(60))
  const service = await createTestApi({ clock })
  clock.advance(days(60))
  await createTestUser(service.app, service.actor, ADA, 'owner')
  await service.api('POST', '/v1/streams', { slug: 'news', name: HOSTILE })
  return service
}

/** Mail of the last five days. */
async function fill({ app, actor }: TestApi): Promise<void> {
  const { accountId } = actor
  const now = app.clock.now()
  const streamId = findStreamId(app.db, accountId, 'news') ?? 0
  const counts: Partial<Record<DailyField, number>> = { sent: 100, delivered: 90, bounced: 8, opens: 40, clicks: 7 }
  await app.commit.write<unknown>((tx) => {
    for (let day = 0; day < 5; day++)
      for (const [field, n] of Object.entries(counts))
        for (const domain of ['gmail.com', 'a-very-long-name-of-a-recipient-domain.with-many-labels.example.com'])
          countDaily(tx, { accountId, domain, at: now - days(day) }, field as DailyField, n)
    countForStream(tx, { accountId, streamId }, 'sent', now, 12)
    countForStream(tx, { accountId, streamId }, 'bounced', now, 3)
    return undefined
  })
}

async function addReport({ app, actor }: TestApi): Promise<void> {
  const now = app.clock.now()
  await app.commit.write((tx) =>
    storeInsight(app, tx, actor, {
      periodStart: now - days(28),
      periodEnd: now,
      model: `model ${HOSTILE}`,
      inputTokens: 1,
      outputTokens: 1,
      summary: `Summary ${HOSTILE}`,
      findings: JSON.stringify([
        {
          severity: 'critical',
          area: 'deliverability',
          observation: `Seen ${HOSTILE}`,
          recommendation: 'Repair it.',
        },
      ]),
      rawMarkdown: `# Report\n[click](javascript:window.ran=1) ${HOSTILE}`,
    }),
  )
}

describeInBrowser('stats in the dashboard', (open) => {
  test('say what will appear, then show totals, chart, table and domains as /v1 has them', async () => {
    await using service = await startService()
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/analytics')
    await heading(page, 'Nothing happened in this period')
    await page.getByText('No mail was sent in this period.').waitFor()
    await fill(service)
    await dashboard.load('/analytics')
    await page.getByRole('img', { name: 'Chart of Sent, Delivered, Bounced;' }).waitFor()
    const totals = page.locator('.figures').first()
    expect(await totals.textContent()).toContain('Sent1,000')
    expect(await totals.textContent()).toContain('90.0% of sent')
    await page.getByText('Days of UTC').waitFor()
    await page.getByText('The same numbers as a table').click()
    const table = page.locator('.numbers table')
    await table.locator('tbody tr').nth(29).waitFor()
    expect(await table.locator('tbody tr').count()).toBe(30)
    expect(await table.locator('tbody tr').last().textContent()).toContain('200180160')
    expect(await table.locator('tfoot tr').textContent()).toContain('Total1,00090080')
    const domains = page.getByRole('table', { name: 'Recipient domains, the most mail first' })
    expect(await domains.locator('tbody tr').first().textContent()).toContain('500450 90.0%40 8.0%')

    // The lines of the chart are chosen; the table keeps all.
    await page.getByRole('checkbox', { name: 'Opened' }).focus()
    await page.keyboard.press('Space')
    await page.getByRole('img', { name: 'Chart of Sent, Delivered, Bounced, Opened;' }).waitFor()
    await page.getByLabel('Period', { exact: true }).focus()
    await page.getByLabel('Period', { exact: true }).selectOption('90d')
    await page.waitForURL(/period=90d/)
    // Whoever chooses by keyboard can go on.
    expect(await page.evaluate('document.activeElement.tagName')).toBe('SELECT')
    await page.getByLabel('Interval').selectOption('hour')
    await page.waitForURL(/interval=hour/)
    expect(new URL(page.url()).searchParams.get('period')).toBe('7d')
    await heading(page, 'By hour')
    await page.getByLabel('Stream').selectOption('news')
    await heading(page, 'This stream, last 30 days')
    await page.getByText('100% of delivered and bounced').waitFor()
    await page.getByRole('img', { name: 'Chart of Sent, Delivered, Bounced;' }).waitFor()
    await page.goBack()
    await page.getByText('of delivered', { exact: false }).first().waitFor()
    await dashboard.expectHarmless()
  })

  test('a wrong URL is explained, and other days are chosen', async () => {
    await using service = await startService()
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/analytics?from=2020-01-01&to=2026-01-01')
    await page.getByText('must span at most 366 days').first().waitFor()
    await page.getByText('Request id:').first().waitFor()
    await page.getByLabel('First day').fill('2026-01-01')
    await page.getByLabel('Last day').fill('2026-01-31')
    await page.getByRole('button', { name: 'Show' }).click()
    await heading(page, 'Nothing happened in this period')
    await dashboard.load('/analytics?stream=nothing')
    await page.getByText('There is no stream "nothing" on this account').waitFor()
  })

  test('the values under the cursor are read, and the chart fits its window', async () => {
    await using service = await startService()
    await fill(service)
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/analytics?period=7d')
    const chart = page.getByRole('img', { name: /^Chart of/ })
    await chart.hover({ position: { x: 42, y: 50 } })
    await page.getByText('Mon, 9 Mar').waitFor()
    expect(await page.locator('.chart-tip').textContent()).toBe('Mon, 9 MarSent0Delivered0Bounced0')
    await page.setViewportSize({ width: 320, height: 640 })
    // `waitForFunction` would evaluate its text in the page, whose policy forbids that.
    await eventually(() =>
      page.evaluate<boolean>('document.querySelector(".chart svg").getBoundingClientRect().width < 320'),
    )
    await eventually(async () => (await overflowPx(page)) === 0)
  })

  test('reports show findings and what to do as text, and are marked as read', async () => {
    await using service = await startService()
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/analytics')
    await page.getByRole('link', { name: 'Insights' }).click()
    await heading(page, 'Reports on your mail appear here')
    await page.getByRole('button', { name: 'Create a report' }).click()
    // The service of this test has no language model.
    await page.getByRole('alert').getByText('Request id:').waitFor()
    await addReport(service)
    await dashboard.load('/analytics/insights')
    await page.getByText('Seen <script>').waitFor()
    await page.getByText('Repair it.').waitFor()
    await page.getByText('The whole report').click()
    await page.getByText('[click](javascript:window.ran=1)').waitFor()
    expect(await page.locator('a[href^="javascript:"]').count()).toBe(0)
    await page.getByRole('button', { name: 'Mark as read' }).click()
    await page.getByText('Read:').waitFor()
    await dashboard.expectHarmless()
  })

  test('a report is generated now, once a day; the next one has its time', async () => {
    await using insights = await createInsightApi({ clock: systemClock })
    await createTestUser(insights.app, insights.actor, ADA, 'owner')
    await using dashboard = await open(insights, ADA)
    const { page } = dashboard
    await dashboard.goTo('/analytics/insights')
    await page.getByRole('button', { name: 'Create a report' }).click()
    await page.getByText('The report is ready.').waitFor()
    await page.getByText('The bounce rate is 4.76%.').first().waitFor()
    await page.getByText('Keep it below 2%.').first().waitFor()
    await page.getByRole('button', { name: 'Create a report' }).click()
    await page.getByText(/^You can try again in (23 hours|1 day)\.$/).waitFor()
    expect(insights.llm.asked.length).toBe(1)
    expect(dashboard.errors).toEqual([])
  })
})
