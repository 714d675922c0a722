/** @module Time series of one stream: what they have, and for how long. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { readStreamStats, STREAM_METRICS } from '#features/reporting/analytics/streams.ts'
import { bounceLate } from '#features/sending/queue/attempt-transitions.ts'
import { hours } from '#platform/units.ts'
import { createComplaints } from '#test/features/receiving/complaints/fixture.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { expectError, NOW, UNVERIFIED } from '#test/support/email-api.ts'

let mail: Awaited<ReturnType<typeof createComplaints>>
beforeEach(async () => {
  mail = await createComplaints()
  await mail.service.api('POST', '/v1/streams', { slug: 'news', name: 'News' })
})
afterEach(async () => {
  await mail[Symbol.asyncDispose]()
})

type Point = Record<string, number | string>

const ask = (query: string) => mail.service.api('GET', `/v1/analytics/timeseries?${query}`)
const read = async (query: string): Promise<Point[]> => {
  const { status, body } = await ask(query)
  expect([query, status]).toEqual([query, 200])
  return at(body, 'data') as Point[]
}
const ALL = `metrics=${STREAM_METRICS.join(',')}`

// Proves: analytics-11
test('a stream has the mail of its own, by hour and by day; those of all streams sum up to the account', async () => {
  const { clock, app } = mail.service
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
  const active = (await read(`stream=news&interval=hour&${ALL}`)).filter((point) =>
    STREAM_METRICS.some((metric) => point[metric] !== 0),
  )
  expect(active).toEqual([
    { date: '2026-03-15', time: '2026-03-15T12:00:00.000Z', sent: 1, delivered: 1, bounced: 0, complaints: 0 },
    { date: '2026-03-16', time: '2026-03-16T01:00:00.000Z', sent: 1, delivered: 0, bounced: 0, complaints: 1 },
    { date: '2026-03-16', time: '2026-03-16T02:00:00.000Z', sent: 0, delivered: 0, bounced: 1, complaints: 0 },
  ])
  const days = await read(`stream=news&period=7d&${ALL}`)
  expect(days.length).toBe(7)
  expect(days.slice(-2)).toEqual([
    { date: '2026-03-15', sent: 1, delivered: 1, bounced: 0, complaints: 0 },
    { date: '2026-03-16', sent: 1, delivered: 0, bounced: 1, complaints: 1 },
  ])
  const other = await read(`stream=transactional&period=7d&${ALL}`)
  const all = await read(`period=7d&${ALL}`)
  for (const [index, day] of all.entries())
    for (const metric of STREAM_METRICS)
      expect(Number(days[index]?.[metric]) + Number(other[index]?.[metric])).toBe(Number(day[metric]))
  expectBalanced({ ...mail.service, delivery: undefined })
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
  const other = await mail.service.newAccount()
  const key = await mail.service.newKey([], other)
  const answer = await mail.service.api('GET', '/v1/analytics/timeseries?stream=news', undefined, { key })
  expectError(answer, 400, 'invalid_parameter', 'stream')
})

test('a year of a stream has each of its days', () => {
  const { app, actor } = mail.service
  const hour = Math.floor(NOW / hours(1))
  app.db.run('BEGIN')
  for (const metric of ['sent', 'delivered', 'bounced', 'complained'])
    app.db.run(
      `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9600)
       INSERT INTO counters (account_id, metric, hour, value) SELECT ?, ?, ? - i, 3 FROM n`,
      [actor.accountId, `stream:1:${metric}`, hour],
    )
  app.db.run('COMMIT')
  const to = Math.floor(hour / 24)
  const year = () =>
    readStreamStats(
      app.db,
      { accountId: actor.accountId, streamId: 1, unit: 'days', from: to - 365, to },
      STREAM_METRICS,
    )
  expect(year().at(-2)).toEqual({ sent: 72, delivered: 72, bounced: 72, complaints: 72 })
})
