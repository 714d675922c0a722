/**
 * @module The busiest domains of a period, compared with summing everything: for typical mail, evenly spread mail and
 * hostile mail.
 */
import { expect, test } from 'bun:test'
import { findBusiestDomains } from '#features/reporting/analytics/domains.ts'
import type { Period } from '#features/reporting/analytics/period.ts'
import { STATS_SUMS } from '#features/reporting/analytics/stats.ts'
import { systemClock } from '#platform/time/clock.ts'
import { createTestApp, type TestApp } from '#test/support/app.ts'

const ACCOUNT = 7
const period = (fromDay: number, toDay: number): Period => ({ fromDay, toDay, name: 'custom' })

/** Fills the table from SQL that selects (day, domain, sent). */
const fill = (service: TestApp, rows: string) =>
  service.app.commit.write(({ db }) => {
    db.run(`INSERT INTO daily_figures (account_id, day, domain, sent, delivered, bounced)
      SELECT ${ACCOUNT}, day, domain, sum(sent), sum(sent) / 2, 1 FROM (${rows}) GROUP BY day, domain`)
    // Neither rows of another account nor totals are included.
    db.run(
      `INSERT INTO daily_figures (account_id, day, domain, sent) SELECT ${ACCOUNT + 1}, day, 'other.test', 100000000 FROM daily_figures WHERE account_id = ${ACCOUNT} GROUP BY day`,
    )
    db.run(
      `INSERT INTO daily_figures (account_id, day, domain, sent) SELECT account_id, day, '', sum(sent) FROM daily_figures GROUP BY 1, 2`,
    )
  })

const summedUp = ({ app }: TestApp, { fromDay, toDay }: Period, limit: number) =>
  app.db
    .query<object, number[]>(
      `SELECT ${STATS_SUMS}, domain FROM daily_figures WHERE account_id = ${ACCOUNT} AND day BETWEEN ? AND ? AND domain <> ''
       GROUP BY domain HAVING sum(sent) > 0 ORDER BY sum(sent) DESC, domain LIMIT ?`,
    )
    .all(fromDay, toDay, limit)

/** Pseudo-random numbers, the same in each run. */
const CHANCE = '(day * 7919 + n * 104729) % 997'
const DAYS = (count: number) => `days (day) AS (SELECT 1 UNION ALL SELECT day + 1 FROM days WHERE day < ${count})`
const NUMBERS = (count: number) => `numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count})`

// Proves: analytics-3
test.each([
  ['few get most', `1 + 20000 / n + ${CHANCE} % (1 + 200 / n)`, 'TRUE'],
  ['all get about the same', `1 + ${CHANCE} % 3`, 'TRUE'],
  ['all get the same', '1', 'TRUE'],
  ['each is busy on a day of its own', '1 + n', 'n % 40 = day % 40'],
  ['many days have nothing', `1 + ${CHANCE}`, 'day % 11 = 0'],
])('the busiest domains are the same as when all are summed, when %s', async (_, sent, where) => {
  await using service = await createTestApp()
  await fill(
    service,
    `WITH RECURSIVE ${DAYS(60)}, ${NUMBERS(300)} SELECT day, 'd' || n || '.test' AS domain, ${sent} AS sent FROM days, numbers WHERE ${where}`,
  )
  for (const [asked, limit] of [
    [period(1, 60), 10],
    [period(1, 60), 1],
    [period(20, 26), 25],
    [period(30, 30), 10],
    [period(1, 60), 1000],
    [period(61, 90), 10],
  ] as const)
    expect(await findBusiestDomains(service.app, ACCOUNT, asked, limit)).toEqual(
      summedUp(service, asked, limit) as never,
    )
})

test('with 3,000 domains a day, others run every few ms, and the result is correct', async () => {
  // Each look at the time takes a millisecond, on any machine.
  let nowMs = 0
  const clock = { ...systemClock, monotonicMs: () => nowMs++ }
  await using service = await createTestApp({ clock: systemClock })
  await fill(
    service,
    `WITH RECURSIVE ${DAYS(60)}, ${NUMBERS(3000)} SELECT day, 'd' || (n + 500 * day) || '.test' AS domain, 1 AS sent FROM days, numbers
     UNION ALL SELECT day, 'busy.test', 5 FROM days`,
  )
  let turns = 0
  let isOver = false
  const counting = (async () => {
    while (!isOver) {
      await new Promise((resolve) => setImmediate(resolve))
      turns++
    }
  })()
  const found = await findBusiestDomains({ ...service.app, clock }, ACCOUNT, period(1, 60), 10)
  isOver = true
  await counting
  expect([turns > 5, found[0]?.domain, found[0]?.sent, found.length]).toEqual([true, 'busy.test', 300, 10])
})

test('an account may queue a few such requests, and the next is a 429', async () => {
  await using service = await createTestApp()
  await fill(service, `SELECT 1 AS day, 'a.test' AS domain, 1 AS sent`)
  const ask = (accountId: number) => findBusiestDomains(service.app, accountId, period(1, 1), 10)
  const results = await Promise.allSettled([...Array.from({ length: 9 }, () => ask(ACCOUNT)), ask(ACCOUNT + 1)])
  expect(results.map(({ status }) => status)).toEqual([
    ...Array.from({ length: 8 }, () => 'fulfilled' as const),
    'rejected',
    'fulfilled',
  ])
  expect(results[8]).toMatchObject({ reason: { status: 429, code: 'too_many_requests' } })
  expect(await ask(ACCOUNT)).toMatchObject([{ domain: 'a.test', sent: 1 }])
})
