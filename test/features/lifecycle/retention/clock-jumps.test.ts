/** @module A clock that jumps removes nothing that a correct clock would keep. */
import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dropRawMail, runRetention } from '#features/lifecycle/retention/run.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { endAttempts, SHORT } from '#test/features/lifecycle/retention/year.ts'
import { createTestApp } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi, NOW } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const NOTHING = { content: 0, events: 0, inbound: 0, logs: 0, audit: 0 }

async function withMail(dataDir?: string): Promise<{ api: EmailApi; clock: ManualClock; id: string }> {
  const clock = new ManualClock(NOW)
  const api = await createEmailApi({ clock, settings: { ...SHORT }, ...(dataDir !== undefined && { dataDir }) })
  const { id } = await api.accepted()
  clock.advance(minutes(1))
  await endAttempts({ ...api, clock }, 'receiver.test')
  await runRetention(api.app)
  return { api, clock, id }
}

const bodyOf = async (api: EmailApi, id: string): Promise<unknown> => (await api.detail(id))['text_body']

describe('retention', () => {
  test('removes nothing by a clock that is a year ahead and comes back', async () => {
    const { api, clock, id } = await withMail()
    await using _ = api
    clock.jumpTo(clock.now() + days(365))
    for (let hour = 0; hour < 12; hour++) {
      clock.advance(hours(1))
      expect(await runRetention(api.app)).toEqual(NOTHING)
    }
    clock.jumpTo(clock.now() - days(365))
    expect(await runRetention(api.app)).toEqual(NOTHING)
    expect(await bodyOf(api, id)).toBe('Hello, Bob.')
    expectBalanced(api)
  })

  test('accepts a clock that stays a year ahead for a day, as after a long downtime', async () => {
    const { api, clock, id } = await withMail()
    await using _ = api
    clock.jumpTo(clock.now() + days(365))
    expect(await runRetention(api.app)).toEqual(NOTHING)
    clock.advance(hours(25))
    expect(await runRetention(api.app)).toMatchObject({ content: 1, logs: 1 })
    expect((await api.api('GET', `/v1/emails/${id}`)).status).toBe(404)
    expectBalanced(api)
  })

  test('removes nothing by a clock that is a year ahead after a restart', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'tassis-clock-'))
    try {
      const { api, clock } = await withMail(dataDir)
      await api[Symbol.asyncDispose]()
      const later = new ManualClock(clock.now() + days(365))
      await using again = await createTestApp({ clock: later, dataDir, settings: { ...SHORT } })
      expect(await runRetention(again.app)).toEqual(NOTHING)
      later.advance(hours(25))
      expect(await runRetention(again.app)).toMatchObject({ content: 1 })
    } finally {
      rmSync(dataDir, { recursive: true })
    }
  })

  test('accepts a clock that was set back', async () => {
    const { api, clock } = await withMail()
    await using _ = api
    clock.jumpTo(clock.now() - days(300))
    expect(await runRetention(api.app)).toEqual(NOTHING)
    clock.advance(days(61 + 300))
    expect(await runRetention(api.app)).toMatchObject({ content: 1 })
  })
})

test('raw messages of past months are dropped, except for a month with an unprocessed one', async () => {
  const clock = new ManualClock(NOW)
  await using api = await createEmailApi({ clock })
  const { app } = api
  const [ref = 0] = await app.rawMail.put([Buffer.from('raw')], clock.now())
  app.db.run(
    "INSERT INTO inbound_receipts (mail_from, destinations, source_ip, helo, raw_ref, size_bytes, received_at) VALUES ('', '[]', '', '', ?, 3, 1)",
    [ref],
  )
  clock.advance(days(70))
  expect(await dropRawMail(app)).toBe(0)
  expect(app.rawMail.get(ref).length).toBe(3)
  app.db.run('DELETE FROM inbound_receipts')
  expect(await dropRawMail(app)).toBe(1)
  expect(() => app.rawMail.get(ref)).toThrow(MissingBlobError)
})
