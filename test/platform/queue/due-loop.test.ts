import { expect, test } from 'bun:test'
import { createSignal } from '#platform/process/signal.ts'
import { startDueLoop, wakeAt } from '#platform/queue/due-loop.ts'
import { minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

/** A loop that records the time of each step; `next` returns what a step resolves with. */
function startNoted(next: (count: number, now: number) => number | undefined | Promise<number | undefined>) {
  const clock = new ManualClock(0)
  const steps: number[] = []
  const errors: unknown[] = []
  const loop = startDueLoop({
    name: 'test',
    clock,
    log: { error: (context) => void errors.push(context) },
    step: async () => {
      steps.push(clock.now())
      return next(steps.length, clock.now())
    },
  })
  return { clock, loop, steps, errors }
}

const turns = async (count = 20): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}

test('a loop steps immediately and then at the time that each step returned', async () => {
  const { clock, steps, loop } = startNoted((_, now) => now + 1000)
  await turns()
  clock.advance(999)
  await turns()
  expect(steps).toEqual([0])
  clock.advance(1)
  await turns()
  expect(steps).toEqual([0, 1000])
  await loop.stop()
})

test('a step without further work is not followed by another until the loop is woken', async () => {
  const { clock, steps, loop } = startNoted(() => undefined)
  await turns()
  clock.advance(minutes(10))
  await turns()
  expect(steps).toEqual([0])
  loop.wake()
  await turns()
  expect(steps).toEqual([0, minutes(10)])
  await loop.stop()
})

test('a wake during a step starts another step after it, never two concurrently', async () => {
  let release: () => void = () => undefined
  let running = 0
  let most = 0
  const { steps, loop } = startNoted(async (count) => {
    most = Math.max(most, ++running)
    if (count === 1)
      await new Promise<void>((resolve) => {
        release = resolve
      })
    running--
    return undefined
  })
  await turns()
  loop.wake()
  loop.wake()
  await turns()
  expect(steps.length).toBe(1)
  release()
  await eventually(() => steps.length === 2)
  await turns()
  expect({ steps: steps.length, most }).toEqual({ steps: 2, most: 1 })
  await loop.stop()
})

test('a failing step is logged and retried after five seconds, without spinning', async () => {
  const { clock, steps, errors, loop } = startNoted((count) => {
    if (count === 1) throw new Error('no')
    return undefined
  })
  await turns()
  expect({ steps: steps.length, errors: errors.length }).toEqual({ steps: 1, errors: 1 })
  clock.advance(4999)
  await turns()
  expect(steps.length).toBe(1)
  clock.advance(1)
  await turns()
  expect(steps).toEqual([0, 5000])
  await loop.stop()
})

test('a stopped loop waits for its step and starts no other', async () => {
  let release: () => void = () => undefined
  const { clock, steps, loop } = startNoted(async (_, now) => {
    await new Promise<void>((resolve) => {
      release = resolve
    })
    return now
  })
  await turns()
  let isStopped = false
  const stopping = loop.stop().then(() => {
    isStopped = true
  })
  await turns()
  expect(isStopped).toBe(false)
  release()
  await stopping
  loop.wake()
  clock.advance(minutes(10))
  await turns()
  expect(steps.length).toBe(1)
})

test('a signal wakes a loop until it is stopped, and onEnded is called then', async () => {
  const signal = createSignal<number>()
  let steps = 0
  let ended = 0
  const loop = startDueLoop({
    name: 'test',
    clock: new ManualClock(0),
    log: { error: () => undefined },
    wokenBy: [signal],
    onEnded: () => ended++,
    step: async () => {
      steps++
      return undefined
    },
  })
  await turns()
  expect(steps).toBe(1)
  signal.emit(7)
  await turns()
  expect({ steps, ended }).toEqual({ steps: 2, ended: 0 })
  await loop.stop()
  expect(ended).toBe(1)
  signal.emit(8)
  await turns()
  expect(steps).toBe(2)
})

test('wakeAt calls at the time, but after a minute at the latest', () => {
  const clock = new ManualClock(minutes(5))
  const calls: string[] = []
  wakeAt(clock, minutes(5) + 10, () => calls.push('soon'))
  wakeAt(clock, minutes(90), () => calls.push('far ahead'))
  wakeAt(clock, 0, () => calls.push('past'))
  wakeAt(clock, minutes(5) + 20, () => calls.push('cancelled')).cancel()
  clock.advance(9)
  expect(calls).toEqual(['past'])
  clock.advance(1)
  expect(calls).toEqual(['past', 'soon'])
  clock.advance(minutes(1) - 11)
  expect(calls).toHaveLength(2)
  clock.advance(1)
  expect(calls).toEqual(['past', 'soon', 'far ahead'])
})
