import { expect, test } from 'bun:test'
import { AppError } from '#platform/errors.ts'
import { startWorker } from '#platform/process/workers.ts'
import {
  RENDER_INTERRUPTED,
  type Renderer,
  type RenderOutcome,
  type RenderRequest,
} from '#platform/template/renderer.ts'
import { type RendererOptions, WorkerRenderer } from '#platform/template/worker-renderer.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { KiB, minutes } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const silent = { error: () => undefined, warn: () => undefined }

const rendererWith = (options: Partial<RendererOptions> = {}): Renderer & Disposable => {
  const renderer = new WorkerRenderer({ clock: new ManualClock(), log: silent, ...options })
  return Object.assign(renderer, { [Symbol.dispose]: () => renderer.close() })
}

const request = (accountId: number, urgency: RenderRequest['urgency'], text: string): RenderRequest => ({
  accountId,
  urgency,
  source: { text },
  dataJson: '{}',
})

const FOREVER = '{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}'
/** A fifth of the budget. */
const LONG = '{% for i in range(10000) %}{% for j in range(4) %}{{ i }}{% endfor %}{% endfor %}'

/** The text, 'rendered' for a long one, the kind of an error, or the code of a rejection. */
const endOf = (rendering: Promise<RenderOutcome>): Promise<string> =>
  rendering.then(
    (outcome) =>
      outcome.kind === 'fault'
        ? outcome.fault.kind
        : (outcome.parts.text ?? '').length > 20
          ? 'rendered'
          : (outcome.parts.text ?? ''),
    (error: unknown) => (error instanceof AppError ? `${error.status} ${error.code}` : String(error)),
  )

/** A Worker that never responds. */
const silentWorker = (): Worker =>
  ({ postMessage: () => undefined, terminate: () => undefined, addEventListener: () => undefined }) as unknown as Worker

test.each([
  ['requests', 'short', 1000],
  ['bytes', 'x'.repeat(1023 * KiB - 2), 32],
])('bulk takes at most half of the waiting %s of an account, and the rest stays free', async (_, text, most) => {
  using renderer = rendererWith({ clock: new ManualClock(), newWorker: silentWorker })
  const refused: string[] = []
  const ask = (accountId: number, urgency: RenderRequest['urgency']): void =>
    void endOf(renderer.render(request(accountId, urgency, text))).then((end) =>
      refused.push(`${accountId} ${urgency}: ${end}`),
    )
  // The first one is running.
  for (let n = 0; n < 1 + most; n++) ask(1, 'bulk')
  await yieldToEventLoop()
  expect(refused).toEqual([])
  ask(1, 'bulk')
  for (let n = 0; n < most; n++) ask(1, 'now')
  ask(2, 'bulk')
  await yieldToEventLoop()
  expect(refused).toEqual(['1 bulk: 503 server_busy'])
  ask(1, 'now')
  await yieldToEventLoop()
  expect(refused).toEqual(['1 bulk: 503 server_busy', '1 now: 503 server_busy'])
})

test('bulk of an account under penalty is refused until the penalty ends, and never rendered with fewer units', async () => {
  const clock = new ManualClock()
  using renderer = rendererWith({ clock })
  const end = (accountId: number, urgency: RenderRequest['urgency'], text: string): Promise<string> =>
    endOf(renderer.render(request(accountId, urgency, text)))
  const last = renderer.render(request(1, 'now', 'last'))
  const wasted = Array.from({ length: 5 }, () => end(1, 'now', FOREVER))
  // Already waits when the penalty begins.
  const waiting = end(1, 'bulk', LONG)
  await last
  expect(await Promise.all(wasted)).toEqual(Array(5).fill('limit'))
  expect([await waiting, await end(1, 'bulk', 'short'), await end(2, 'bulk', LONG), await end(1, 'now', LONG)]).toEqual(
    ['rendered', '503 server_busy', 'rendered', 'limit'],
  )
  clock.advance(minutes(2))
  expect(await end(1, 'bulk', LONG)).toBe('rendered')
})

test('bulk that exceeds the budget brings no penalty: it runs only when nothing else waits', async () => {
  using renderer = rendererWith({ clock: new ManualClock() })
  const ends: string[] = []
  for (let time = 0; time < 6; time++) ends.push(await endOf(renderer.render(request(1, 'bulk', FOREVER))))
  expect(ends).toEqual(Array(6).fill('limit'))
  expect(await endOf(renderer.render(request(1, 'now', LONG)))).toBe('rendered')
})

test('bulk that kills a Worker is rejected, without a permanent verdict on the template', async () => {
  const workers: Worker[] = []
  const newWorker = (): Worker => {
    const worker = startWorker('render')
    workers.push(worker)
    return worker
  }
  using renderer = rendererWith({ newWorker })
  await renderer.render(request(1, 'now', 'warm'))
  const killed = endOf(renderer.render(request(1, 'bulk', FOREVER)))
  const next = endOf(renderer.render(request(1, 'bulk', 'next')))
  workers[0]?.terminate()
  expect([await killed, await next]).toEqual([`503 ${RENDER_INTERRUPTED}`, 'next'])
})
