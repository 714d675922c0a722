/** @module The time zone that the reader chose, in fields and filters. */
import { expect, test } from 'bun:test'
import { parseLocalTime, toLocalTime } from '#dashboard/parts/zone.ts'

test('a local time is the instant that the zone means, also near a change of its offset', () => {
  const instants = [
    ['UTC', '2026-11-28T15:04', '2026-11-28T15:04:00.000Z'],
    ['Europe/Berlin', '2026-03-29T03:30', '2026-03-29T01:30:00.000Z'],
    ['America/New_York', '2026-03-08T23:59:59.999', '2026-03-09T03:59:59.999Z'],
    ['Asia/Kolkata', '2026-10-25T02:30', '2026-10-24T21:00:00.000Z'],
  ] as const
  for (const [zone, local, instant] of instants) {
    const at = parseLocalTime(local, zone)
    expect([zone, at.toISOString(), toLocalTime(at, zone).slice(0, 16)]).toEqual([zone, instant, local.slice(0, 16)])
  }
  expect(parseLocalTime('99999-01-01T00:00', 'UTC').getTime()).toBeNaN()
})
