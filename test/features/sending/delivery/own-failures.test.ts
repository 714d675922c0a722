/**
 * @module Our own failures before a message leaves: transient ones return the mail to the queue, and permanent ones
 * show no path to the tenant.
 */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdirSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { formatUuid } from '#platform/ids.ts'
import { createLog } from '#platform/log/log.ts'
import { hours, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { recipientsOf } from './flows.ts'

let clock: ManualClock
let flow: MailFlow
let lines: string[]

beforeEach(async () => {
  clock = new ManualClock(Date.now())
  lines = []
  const log = createLog('warn', { write: (line) => void lines.push(line) })
  flow = await startMailFlow({ clock, log, settings: { TASSIS_DELIVERY: 'capture' } })
})
afterEach(() => flow[Symbol.asyncDispose]())

const readStatus = () => recipientsOf(flow)[0]

/** An email whose text is in a file, due in an hour; returns the path of the file. */
async function scheduleLarge(): Promise<string> {
  const sendAt = new Date(clock.now() + hours(1)).toISOString()
  await flow.send({ to: ['bob@receiver.test'], text_body: 'A line of text.\r\n'.repeat(30_000), send_at: sendAt })
  const content = join(flow.app.config.dataDir, 'content')
  const month = readdirSync(content).find((name) => /^\d{4}-\d{2}$/.test(name)) ?? ''
  const [file = ''] = readdirSync(join(content, month))
  return join(content, month, file)
}

// Proves: storage-1
test('an unreadable disk returns mail to the queue without an attempt until it is readable', async () => {
  const path = await scheduleLarge()
  renameSync(path, `${path}.away`)
  // Reads of it end with EIO.
  symlinkSync('/proc/self/mem', path)
  clock.advance(hours(1))
  await eventually(() => lines.some((line) => line.includes('delivery postponed') && line.includes('EIO')))
  await eventually(() => readStatus()?.status === 'queued')
  expect(readStatus()).toMatchObject({ attempts: 0, lastError: null })
  rmSync(path)
  renameSync(`${path}.away`, path)
  await eventually(() => {
    clock.advance(seconds(1))
    return readStatus()?.status === 'sent'
  })
  expect(readStatus()).toMatchObject({ attempts: 1 })
})

// Proves: http-23
test('permanently unreadable content fails the mail with a reason that names no path', async () => {
  const path = await scheduleLarge()
  rmSync(path)
  mkdirSync(path)
  clock.advance(hours(1))
  await eventually(() => readStatus()?.status === 'failed')
  expect(readStatus()?.lastError).toBe('The service had an internal error (EISDIR)')
  const email = flow.app.db.query<{ uuid: Uint8Array }, []>('SELECT uuid FROM emails').get()
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({
      msg: 'message not composed',
      email_id: formatUuid(email?.uuid ?? new Uint8Array()),
      account: flow.actor.accountUuid,
      detail: expect.stringContaining('EISDIR'),
    }),
  ])
})
