import { expect, test } from 'bun:test'
import type { Engagement } from '#features/sending/tracking/engage.ts'
import { createRecorder, MAX_WAITING } from '#features/sending/tracking/pages.ts'
import { createLog } from '#platform/log/log.ts'
import { minutes } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const CLICK: Engagement = {
  recipient: { account: 1, recipientId: 1, day: 1 },
  url: 'https://a.test',
  visitor: 'human',
  ipAddress: null,
  userAgent: null,
}

/** Waits until all settled promises were handled. */
const waitForTick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** A recorder whose writes the test ends. */
function createSlowRecorder() {
  const clock = new ManualClock()
  const lines: string[] = []
  const writes: { end(): void; fail(): void }[] = []
  const write = <T>(): Promise<T> =>
    new Promise((resolve, reject) =>
      writes.push({
        end: () => resolve(undefined as T),
        fail: () => reject(new Error('the row is wrong')),
      }),
    )
  const log = createLog('error', { write: (line) => void lines.push(line) })
  const keep = createRecorder({ commit: { write }, clock, log, eventTime: () => clock.now() })
  return {
    clock,
    writes,
    keep: (times = 1) => {
      for (let i = 0; i < times; i++) keep(CLICK)
    },
    /** The number of lost events in each log line. */
    losses: () => lines.map((line) => JSON.parse(line).dropped),
  }
}

test('at most 10,000 writes are pending; more are dropped', async () => {
  const recorder = createSlowRecorder()
  recorder.keep(MAX_WAITING)
  expect([recorder.writes.length, recorder.losses()]).toEqual([10_000, []])
  recorder.keep(3)
  expect([recorder.writes.length, recorder.losses()]).toEqual([10_000, [1]])
  recorder.writes[0]?.end()
  await waitForTick()
  recorder.keep(2)
  expect(recorder.writes).toHaveLength(10_001)
  recorder.clock.advance(minutes(1))
  recorder.keep()
  expect(recorder.losses()).toEqual([1, 4])
})

test('failed writes are logged once a minute, with their number, and free capacity for others', async () => {
  const recorder = createSlowRecorder()
  recorder.keep(MAX_WAITING)
  for (const write of recorder.writes.splice(0)) write.fail()
  await waitForTick()
  expect(recorder.losses()).toEqual([1])
  recorder.keep(5)
  expect(recorder.writes).toHaveLength(5)
  recorder.clock.advance(minutes(1))
  recorder.writes[0]?.fail()
  await waitForTick()
  expect(recorder.losses()).toEqual([1, 10_000])
})
