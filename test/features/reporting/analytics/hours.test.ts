/** @module Stats by hour: what they have, that the hours of a day sum up to the day, and how long they take. */

import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { checkConsistency } from '#app/consistency-rules.ts'
import { readHours } from '#features/reporting/analytics/hours.ts'
import { METRICS } from '#features/reporting/analytics/model.ts'
import { bounceLate } from '#features/sending/queue/attempt-transitions.ts'
import { recordEngagement } from '#features/sending/tracking/engage.ts'
import type { Tx } from '#platform/db/commit.ts'
import { hours } from '#platform/units.ts'
import { createComplaints, type DeliveredEmail } from '#test/features/receiving/complaints/fixture.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { NOW, UNVERIFIED } from '#test/support/email-api.ts'
import { readTrackedRecipient } from '#test/support/tracked-recipient.ts'

let mail: Awaited<ReturnType<typeof createComplaints>>
beforeEach(async () => {
  mail = await createComplaints()
})
afterEach(async () => {
  await mail[Symbol.asyncDispose]()
})

type Point = Record<string, number | string>

const read = async (query: string): Promise<Point[]> => {
  const { status, body } = await mail.service.api('GET', `/v1/analytics/timeseries?${query}`)
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
  mail.service.app.commit.write<unknown>((tx) => {
    run(tx)
    return undefined
  })

const visit = (email: DeliveredEmail, url?: string) =>
  write((tx) => {
    const recipient = readTrackedRecipient(tx.db, email.recipients[0]?.id ?? 0)
    recordEngagement(mail.service.app, tx, { recipient, url, visitor: 'human', ipAddress: null, userAgent: null })
  })

const ALL = `metrics=${METRICS.join(',')}`

// Proves: analytics-10
test('each hour has what happened in it, without captured mail, and a day is the sum of its hours', async () => {
  const { clock, app } = mail.service
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
  expectBalanced({ ...mail.service, delivery: undefined })
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
  const other = await mail.service.newAccount()
  const key = await mail.service.newKey([], other)
  const { body } = await mail.service.api('GET', '/v1/analytics/timeseries?interval=hour', undefined, { key })
  expect((at(body, 'data') as Point[]).every(({ sent, delivered }) => sent === 0 && delivered === 0)).toBe(true)
})

test('the check finds captured events that were not counted', async () => {
  const { app, dataDir } = mail.service
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

test('a week reads its own hours only, however many are stored', () => {
  const { app, actor } = mail.service
  const hour = Math.floor(NOW / hours(1))
  app.db.run('BEGIN')
  for (const metric of ['account:sent', 'account:delivered', 'event:opened', 'event:bounced', 'captured:opened'])
    app.db.run(
      `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9600)
       INSERT INTO counters (account_id, metric, hour, value) SELECT ?, ?, ? - i, 3 FROM n`,
      [actor.accountId, metric, hour],
    )
  app.db.run('COMMIT')
  const week = () => readHours(app.db, actor.accountId, { fromHour: hour - 167, toHour: hour }, METRICS)
  const [step] = app.db
    .query<{ detail: string }, []>(
      "EXPLAIN QUERY PLAN SELECT hour, value FROM counters WHERE account_id = 1 AND metric = 'x' AND hour BETWEEN 1 AND 2",
    )
    .all()
  expect(step?.detail).toMatch(/^SEARCH counters USING .*\(account_id=\? AND metric=\? AND hour>\? AND hour<\?\)$/)
  expect(week().map(({ sent, opens }) => [sent, opens])).toEqual(Array(168).fill([3, 0]))
})
