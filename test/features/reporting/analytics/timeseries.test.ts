/** @module Time series by hour, and those of one stream: what they have, and what the check finds. */

import { Database } from 'bun:sqlite'
import { beforeEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { checkConsistency } from '#app/cli/check.ts'
import { METRICS, STREAM_METRICS } from '#features/reporting/analytics/model.ts'
import { bounceLate } from '#features/sending/queue/attempt-transitions.ts'
import { recordEngagement } from '#features/sending/tracking/engage.ts'
import type { Tx } from '#platform/db/open.ts'
import { hours } from '#platform/units.ts'
import { addComplaints, type Complaints, type DeliveredEmail } from '#test/features/receiving/complaints/fixture.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi, expectError, NOW, shareEmailApi, UNVERIFIED } from '#test/support/email-api.ts'
import { readTrackedRecipient } from '#test/support/tracked-recipient.ts'

const service = shareEmailApi(() => createEmailApi({ settings: { TASSIS_PUBLIC_URL: 'https://mail.tassis.test' } }))
let mail: Complaints<EmailApi>
beforeEach(async () => {
  mail = addComplaints(service)
  await service.api('POST', '/v1/streams', { slug: 'news', name: 'News' })
})

type Point = Record<string, number | string>

const ask = (query: string, key = service.key) =>
  service.api('GET', `/v1/analytics/timeseries?${query}`, undefined, { key })
const read = async (query: string, key?: string): Promise<Point[]> => {
  const { status, body } = await ask(query, key)
  expect([query, status]).toEqual([query, 200])
  return at(body, 'data') as Point[]
}

/** The points with any activity, by time. */
const activeHours = async (query: string): Promise<Record<string, Record<string, number>>> =>
  Object.fromEntries(
    (await read(query))
      .map(
        ({ time, date: _, ...stats }) =>
          [
            String(time).slice(5, 16),
            Object.fromEntries(Object.entries(stats as Record<string, number>).filter(([, n]) => n !== 0)),
          ] as const,
      )
      .filter(([, stats]) => Object.keys(stats).length > 0),
  )

const write = (run: (tx: Tx) => void) =>
  service.app.commit.write<unknown>((tx) => {
    run(tx)
    return undefined
  })

const visit = (email: DeliveredEmail, url?: string) =>
  write((tx) => {
    const recipient = readTrackedRecipient(tx.db, email.recipients[0]?.id ?? 0)
    recordEngagement(service.app, tx, { recipient, url, visitor: 'human', ipAddress: null, userAgent: null })
  })

const ALL = `metrics=${METRICS.join(',')}`
const STREAM = `metrics=${STREAM_METRICS.join(',')}`

// Proves: analytics-10
test('each hour has what happened in it, without captured mail, and a day is the sum of its hours', async () => {
  const { clock, app } = service
  const email = await mail.delivered({ to: 'a@one.test' })
  clock.advance(hours(1))
  await visit(email)
  await visit(email, 'https://shop.test/')
  const captured = await mail.delivered({ to: 'a@one.test', from: `ada@${UNVERIFIED}` })
  await visit(captured)
  await visit(captured, 'https://shop.test/')
  clock.advance(hours(12))
  await mail.apply(await mail.report('standard', email, 0))
  const late = await mail.delivered({ to: 'b@two.test' })
  clock.advance(hours(1))
  const outcome = { bounceType: 'soft', bounceCategory: 'other' } as const
  await write((tx) => {
    bounceLate(tx, { recipientId: late.recipients[0]?.id ?? 0, emailId: late.emailId, now: app.eventTime() }, outcome)
  })
  expect(await activeHours(`interval=hour&${ALL}`)).toEqual({
    '03-15T12:00': { sent: 1, delivered: 1 },
    '03-15T13:00': { opens: 1, clicks: 1 },
    '03-16T01:00': { sent: 1, complaints: 1 },
    '03-16T02:00': { bounced: 1 },
  })
  const points = await read(`interval=hour&${ALL}`)
  for (const day of await read(`period=7d&${ALL}`))
    for (const metric of METRICS) {
      const sum = points.filter(({ date }) => date === day['date']).reduce((n, point) => n + Number(point[metric]), 0)
      expect([day['date'], metric, sum]).toEqual([day['date'], metric, Number(day[metric])])
    }
  expectBalanced({ app: service.app, dataDir: service.dataDir, delivery: undefined })
})

// Proves: analytics-10
test('has every hour in UTC up to the current one, by default of 7 days, with the metrics of the days', async () => {
  const points = await read('interval=hour')
  expect(points).toHaveLength(6 * 24 + 13)
  expect([points[0], points.at(-1)]).toEqual([
    { date: '2026-03-09', time: '2026-03-09T00:00:00.000Z', sent: 0, delivered: 0, bounced: 0, opens: 0, clicks: 0 },
    { date: '2026-03-15', time: '2026-03-15T12:00:00.000Z', sent: 0, delivered: 0, bounced: 0, opens: 0, clicks: 0 },
  ])
  // Enough for the last 24 hours beside the 24 before.
  const recent = await read('interval=hour&from=2026-03-13&to=2026-03-15&metrics=complaints')
  expect([recent.length, recent.at(-48)]).toEqual([
    61,
    { date: '2026-03-13', time: '2026-03-13T13:00:00.000Z', complaints: 0 },
  ])
  expect(await read('interval=hour&from=2026-03-16&to=2026-03-17')).toEqual([])
  expect(await read('interval=hour&from=2026-03-08&to=2026-03-08')).toHaveLength(24)
  expect((await read('interval=day&period=7d')).at(-1)).toEqual({
    date: '2026-03-15',
    sent: 0,
    delivered: 0,
    bounced: 0,
    opens: 0,
    clicks: 0,
  })
})

test('has nothing of another account', async () => {
  await mail.delivered({ to: 'a@one.test' })
  const points = await read('interval=hour', await service.newKey([], await service.newAccount()))
  expect(points.every(({ sent, delivered }) => sent === 0 && delivered === 0)).toBe(true)
})

test('the check finds captured events that were not counted', async () => {
  const { app, dataDir } = service
  const captured = await mail.delivered({ to: 'a@one.test', from: `ada@${UNVERIFIED}` })
  await visit(captured)
  const findings = (): string[] => {
    using db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
    return checkConsistency(db).flatMap(({ differences }) => differences)
  }
  expect(findings()).toEqual([])
  app.db.run("DELETE FROM counters WHERE metric = 'captured:opened'")
  expect(findings()).toEqual([
    expect.stringContaining('opens: 0 stored, the hours sum up to 1'),
    expect.stringContaining('captured:opened, hour 2026-03-15T12:00:00.000Z: the counter is 0, the recount 1'),
  ])
})

test('a week and a year read their own hours only, however many are stored', async () => {
  const hour = Math.floor(NOW / hours(1))
  service.app.db.run('BEGIN')
  for (const metric of ['account:sent', 'event:opened', 'captured:opened', 'stream:1:sent', 'stream:1:complained'])
    service.app.db.run(
      `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9600)
       INSERT INTO counters (account_id, metric, hour, value) SELECT ?, ?, ? - i, 3 FROM n`,
      [service.actor.accountId, metric, hour],
    )
  service.app.db.run('COMMIT')
  const week = await read(`interval=hour&${ALL}`)
  expect(week.map(({ sent, opens }) => [sent, opens])).toEqual(Array(6 * 24 + 13).fill([3, 0]))
  const year = await read('stream=transactional&from=2025-03-14&to=2026-03-14&metrics=sent,complaints')
  expect(year.map(({ sent, complaints }) => [sent, complaints])).toEqual(Array(366).fill([72, 72]))
})

// Proves: analytics-11
test('a stream has the mail of its own, by hour and by day; those of all streams sum up to the account', async () => {
  const { clock, app } = service
  const news = await mail.delivered({ to: 'a@one.test', stream: 'news' })
  await mail.delivered({ to: 'b@one.test' })
  await mail.delivered({ to: 'c@one.test', stream: 'news', from: `ada@${UNVERIFIED}` })
  clock.advance(hours(13))
  await mail.apply(await mail.report('standard', news, 0))
  const late = await mail.delivered({ to: 'b@two.test', stream: 'news' })
  clock.advance(hours(1))
  await app.commit.write<unknown>((tx) => {
    const target = { recipientId: late.recipients[0]?.id ?? 0, emailId: late.emailId, now: app.eventTime() }
    bounceLate(tx, target, { bounceType: 'hard', bounceCategory: 'policy', data: { bounce_type: 'hard' } })
    return undefined
  })
  const active = (await read(`stream=news&interval=hour&${STREAM}`)).filter((point) =>
    STREAM_METRICS.some((metric) => point[metric] !== 0),
  )
  expect(active).toEqual([
    { date: '2026-03-15', time: '2026-03-15T12:00:00.000Z', sent: 1, delivered: 1, bounced: 0, complaints: 0 },
    { date: '2026-03-16', time: '2026-03-16T01:00:00.000Z', sent: 1, delivered: 0, bounced: 0, complaints: 1 },
    { date: '2026-03-16', time: '2026-03-16T02:00:00.000Z', sent: 0, delivered: 0, bounced: 1, complaints: 0 },
  ])
  const days = await read(`stream=news&period=7d&${STREAM}`)
  expect(days.length).toBe(7)
  expect(days.slice(-2)).toEqual([
    { date: '2026-03-15', sent: 1, delivered: 1, bounced: 0, complaints: 0 },
    { date: '2026-03-16', sent: 1, delivered: 0, bounced: 1, complaints: 1 },
  ])
  const other = await read(`stream=transactional&period=7d&${STREAM}`)
  const all = await read(`period=7d&${STREAM}`)
  for (const [index, day] of all.entries())
    for (const metric of STREAM_METRICS)
      expect(Number(days[index]?.[metric]) + Number(other[index]?.[metric])).toBe(Number(day[metric]))
  expectBalanced({ app: service.app, dataDir: service.dataDir, delivery: undefined })
})

test('without metrics a stream has those of the default that are counted by stream', async () => {
  expect((await read('stream=news&period=7d')).at(-1)).toEqual({
    date: '2026-03-15',
    sent: 0,
    delivered: 0,
    bounced: 0,
  })
  expect((await read('stream=news&interval=hour')).length).toBe(6 * 24 + 13)
})

// Proves: analytics-11
test('an unknown stream, a metric that is not counted by stream, and days too long ago are errors', async () => {
  expectError(await ask('stream=nothing'), 400, 'invalid_parameter', 'stream')
  expectError(await ask('stream='), 400, 'invalid_parameter', 'stream')
  expectError(await ask('stream=news&metrics=sent,opens'), 400, 'invalid_parameter', 'metrics')
  expectError(await ask('stream=news&from=2025-01-01&to=2025-12-31'), 400, 'invalid_parameter', 'from')
  const other = await service.newKey([], await service.newAccount())
  expectError(await ask('stream=news', other), 400, 'invalid_parameter', 'stream')
})
