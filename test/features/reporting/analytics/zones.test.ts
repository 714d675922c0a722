/** @module Days of a time zone, the period before, and what became of accepted mail. */
import { expect, test } from 'bun:test'
import { createDayOf, isTimeZone, listDayStarts } from '#platform/time/zones.ts'
import { days, hours } from '#platform/units.ts'
import { addComplaints } from '#test/features/receiving/complaints/fixture.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, expectError, shareEmailApi, UNVERIFIED } from '#test/support/email-api.ts'

const dayOf = (date: string): number => Date.parse(`${date}T00:00:00Z`) / days(1)
const startsOf = (zone: string, from: string, to: string): string[] =>
  listDayStarts(zone, dayOf(from), dayOf(to)).map((hour) => new Date(hour * hours(1)).toISOString().slice(5, 16))

test.each([
  ['UTC', '2026-03-29', '2026-03-29', ['03-29T00:00', '03-30T00:00']],
  // 23 and 25 hours.
  ['Europe/Berlin', '2026-03-28', '2026-03-29', ['03-27T23:00', '03-28T23:00', '03-29T22:00']],
  ['Europe/Berlin', '2026-10-25', '2026-10-25', ['10-24T22:00', '10-25T23:00']],
  ['Pacific/Kiritimati', '2026-01-01', '2026-01-01', ['12-31T10:00', '01-01T10:00']],
  ['Pacific/Pago_Pago', '2026-01-01', '2026-01-01', ['01-01T11:00', '01-02T11:00']],
  // At the first full hour of UTC after midnight, which is half past six in the evening of UTC.
  ['Asia/Kolkata', '2026-01-01', '2026-01-02', ['12-31T19:00', '01-01T19:00', '01-02T19:00']],
  // The clock goes from midnight to one o'clock.
  ['Africa/Cairo', '2026-04-24', '2026-04-24', ['04-23T22:00', '04-24T21:00']],
  // The 30th of December was skipped.
  ['Pacific/Apia', '2011-12-29', '2011-12-31', ['12-29T10:00', '12-30T10:00', '12-30T10:00', '12-31T10:00']],
] as const)('the days of %s from %s to %s begin at these hours', (zone, from, to, starts) => {
  expect(startsOf(zone, from, to)).toEqual([...starts])
})

test('only IANA names are time zones', () => {
  expect(['Europe/Berlin', 'UTC', 'America/Argentina/Ushuaia'].every(isTimeZone)).toBe(true)
  expect(['', '+05:30', 'Mars/Olympus', 'Europe/Berlin ', 'x'.repeat(1000)].some(isTimeZone)).toBe(false)
  expect(createDayOf('Asia/Tokyo')(Date.UTC(2026, 0, 1, 15))).toBe(dayOf('2026-01-02'))
})

const service = shareEmailApi(() => createEmailApi({ settings: { TASSIS_PUBLIC_URL: 'https://mail.tassis.test' } }))
const ask = (path: string) => service.api('GET', `/v1/analytics/${path}`)

// Proves: analytics-12
test('days are those of the account, or of the query', async () => {
  const mail = addComplaints(service)
  await mail.delivered({ to: 'a@one.test' })
  // 11:30 in the evening of UTC, which is half past midnight in Berlin.
  service.clock.advance(hours(11))
  await mail.delivered({ to: 'b@one.test' })
  const sentBy = async (query: string) =>
    (at((await ask(`timeseries?metrics=sent,delivered&${query}`)).body, 'data') as { date: string; sent: number }[])
      .filter(({ sent }) => sent > 0)
      .map(({ date, sent }) => `${date} ${sent}`)
  expect(await sentBy('period=7d')).toEqual(['2026-03-15 2'])
  expect(await sentBy('period=7d&timezone=Europe/Berlin')).toEqual(['2026-03-15 1', '2026-03-16 1'])

  const change = (timezone: string) => service.api('PATCH', '/v1/account', { timezone })
  expectError(await change('Mars/Olympus'), 422, 'validation_failed', 'timezone')
  expect(at((await change('Europe/Berlin')).body, 'data', 'timezone')).toBe('Europe/Berlin')
  expect(await sentBy('from=2026-03-16&to=2026-03-16')).toEqual(['2026-03-16 1'])
  const overview = await ask('overview?from=2026-03-16&to=2026-03-29')
  expect(overview.body).toMatchObject({
    data: { sent: 1, delivered: 1, delivery_rate: 1 },
    period: {
      timezone: 'Europe/Berlin',
      starts_at: '2026-03-15T23:00:00.000Z',
      ends_at: '2026-03-29T22:00:00.000Z',
      account_since: '2026-03-15',
    },
  })
  const last = await ask('overview?from=9999-12-31&to=9999-12-31&timezone=UTC')
  expect(at(last.body, 'period', 'ends_at')).toBe('9999-12-31T23:59:59.999Z')
  const hourly = at((await ask('timeseries?interval=hour&from=2026-03-16&to=2026-03-16')).body, 'data')
  expect(hourly).toMatchObject([{ date: '2026-03-16', time: '2026-03-15T23:00:00.000Z', sent: 1 }])
  expect(at((await ask('domains')).body, 'period', 'timezone')).toBe('UTC')
  const csv = await fetch(`${service.url}/v1/analytics/export?from=2026-03-15&to=2026-03-16`, {
    headers: { authorization: `Bearer ${service.key}` },
  })
  expect(await csv.text()).toEndWith('2026-03-15,1,1,0,0,0\r\n2026-03-16,1,1,0,0,0\r\n')
  for (const zone of ['Mars/Olympus', '%2B01:00', ''])
    expectError(await ask(`overview?timezone=${zone}`), 400, 'invalid_parameter', 'timezone')
  expectError(await ask('overview?from=2024-01-01&to=2024-01-02'), 400, 'invalid_parameter', 'from')
  expectBalanced(service)
})

// Proves: analytics-13
test('an overview has the days before, and what became of each accepted email', async () => {
  const mail = addComplaints(service)
  await mail.delivered({ to: 'a@one.test' })
  service.clock.advance(days(2))
  await mail.delivered({ to: 'b@one.test' })
  await mail.delivered({ from: `ada@${UNVERIFIED}` })
  await service.accepted()
  await service.accepted({ send_at: new Date(service.clock.now() + hours(1)).toISOString() })
  const cancelled = await service.accepted({ send_at: new Date(service.clock.now() + hours(1)).toISOString() })
  await service.api('POST', `/v1/emails/${cancelled.id}/cancel`)

  const { body } = await ask('overview?from=2026-03-16&to=2026-03-17&compare=previous')
  const outcomes = { bounced: 0, failed: 0, uncertain: 0, suppressed: 0 }
  expect(body).toMatchObject({
    data: {
      sent: 3,
      delivered: 1,
      bounce_rate: 0,
      complaint_rate: 0,
      outcomes: { ...outcomes, accepted: 5, delivered: 1, cancelled: 1, waiting: 2, captured: 1 },
    },
    previous: {
      data: { sent: 1, delivered: 1, outcomes: { ...outcomes, accepted: 1, delivered: 1, waiting: 0 } },
      period: { from: '2026-03-14', to: '2026-03-15' },
    },
  })
  expect(at((await ask('overview')).body)).not.toHaveProperty('previous')
  expectError(await ask('overview?compare=next'), 400, 'invalid_parameter', 'compare')
  expectBalanced(service)
})
