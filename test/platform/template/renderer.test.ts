import { expect, test } from 'bun:test'
import { AppError } from '#platform/errors.ts'
import { startWorker } from '#platform/process/workers.ts'
import { RENDER_INTERRUPTED, type RenderOutcome, type RenderRequest } from '#platform/template/renderer.ts'
import { type Renderer, type RendererOptions, WorkerRenderer } from '#platform/template/worker-renderer.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { KiB, minutes, seconds } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const silent = { error: () => undefined, warn: () => undefined }

/** The clock stands still unless a test moves it, so that a busy machine's slow Worker is not taken for a silent one. */
const rendererWith = (options: Partial<RendererOptions> = {}): Renderer & Disposable => {
  const renderer = new WorkerRenderer({ clock: new ManualClock(), log: silent, ...options })
  return Object.assign(renderer, { [Symbol.dispose]: () => renderer.close() })
}

const request = (accountId: number, text: string, given: Partial<RenderRequest> = {}): RenderRequest => ({
  accountId,
  urgency: 'now',
  source: { text },
  dataJson: '{}',
  ...given,
})

const endOf = (outcome: RenderOutcome): string =>
  outcome.kind === 'rendered' ? (outcome.parts.text ?? '') : outcome.fault.kind

/** The text, 'rendered' for a long one, the kind of a fault, or the code of a rejection. */
const verdictOf = (rendering: Promise<RenderOutcome>): Promise<string> =>
  rendering.then(
    (outcome) => (endOf(outcome).length > 20 ? 'rendered' : endOf(outcome)),
    (error: unknown) => (error instanceof AppError ? `${error.status} ${error.code}` : String(error)),
  )

const FOREVER = '{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}'
/** A fifth of the budget. */
const LONG = '{% for i in range(10000) %}{% for j in range(4) %}{{ i }}{% endfor %}{% endfor %}'

/** A Worker controlled by the test. */
function fakeWorker(hear: (worker: { say(message: unknown): void; fail(): void }) => void): Worker {
  const listeners: Record<string, (event: unknown) => void> = {}
  const worker = {
    onmessage: undefined as ((event: { data: unknown }) => void) | undefined,
    onerror: undefined as ((event: { message: string }) => void) | undefined,
    addEventListener: (name: string, listener: (event: unknown) => void) => {
      listeners[name] = listener
    },
    postMessage: () =>
      hear({
        say: (data) => queueMicrotask(() => worker.onmessage?.({ data })),
        fail: () => queueMicrotask(() => worker.onerror?.({ message: 'it fell over' })),
      }),
    terminate: () => undefined,
  }
  return worker as unknown as Worker
}

test('only the parts that the source has are rendered, and only HTML is escaped', async () => {
  using renderer = rendererWith()
  const outcome = await renderer.render(
    request(1, '', { source: { subject: 'Hi {{ n }}', html: '<b>{{ n }}</b>' }, dataJson: '{"n": "<Ada>/"}' }),
  )
  expect(outcome).toEqual({ kind: 'rendered', parts: { subject: 'Hi <Ada>/', html: '<b>&lt;Ada&gt;/</b>' } })
  expect(await renderer.render(request(1, '', { source: {} }))).toEqual({ kind: 'rendered', parts: {} })
})

test('accounts take turns, and bulk waits while any other request does', async () => {
  using renderer = rendererWith()
  const done: string[] = []
  const add = (accountId: number, urgency: RenderRequest['urgency'], name: string): Promise<void> =>
    renderer.render(request(accountId, name, { urgency })).then((outcome) => void done.push(endOf(outcome)))
  await Promise.all([
    // Starts immediately; later ones wait.
    add(1, 'bulk', 'a first'),
    add(1, 'bulk', 'a bulk 1'),
    add(1, 'bulk', 'a bulk 2'),
    add(1, 'now', 'a 1'),
    add(1, 'now', 'a 2'),
    add(1, 'now', 'a 3'),
    add(2, 'bulk', 'b bulk 1'),
    add(2, 'now', 'b 1'),
    add(2, 'now', 'b 2'),
    add(3, 'now', 'c 1'),
  ])
  // Account 1 had the last bulk turn, so the other one comes first.
  expect(done).toEqual(['a first', 'a 1', 'b 1', 'c 1', 'a 2', 'b 2', 'a 3', 'b bulk 1', 'a bulk 1', 'a bulk 2'])
})

test('an account that exceeds the budget five times in a minute gets a tenth of it for a minute', async () => {
  const clock = new ManualClock()
  using renderer = rendererWith({ clock })
  const end = (accountId: number, text: string): Promise<string> => verdictOf(renderer.render(request(accountId, text)))
  const wasted: string[] = []
  for (let time = 0; time < 4; time++) wasted.push(await end(1, FOREVER))
  expect([...wasted, await end(1, LONG)]).toEqual(['limit', 'limit', 'limit', 'limit', 'rendered'])
  await end(1, FOREVER)
  expect({ long: await end(1, LONG), short: await end(1, 'short'), other: await end(2, LONG) }).toEqual({
    long: 'limit',
    short: 'short',
    other: 'rendered',
  })
  clock.advance(minutes(1))
  expect(await end(1, LONG)).toBe('rendered')
})

test('five renders that exceed the budget, but not within a minute, have no consequences', async () => {
  const clock = new ManualClock()
  using renderer = rendererWith({ clock })
  const waste = (): Promise<unknown> => renderer.render(request(1, FOREVER))
  await waste()
  await waste()
  clock.advance(seconds(40))
  await waste()
  await waste()
  clock.advance(seconds(30))
  await waste()
  expect(endOf(await renderer.render(request(1, LONG))).length).toBeGreaterThan(20)
})

test.each([
  ['now', 'limit'],
  ['bulk', `503 ${RENDER_INTERRUPTED}`],
] as const)(
  'a Worker that dies affects only the running request: with urgency %s it is a %s',
  async (urgency, verdict) => {
    const workers: Worker[] = []
    const newWorker = (): Worker => {
      const worker = startWorker('render')
      workers.push(worker)
      return worker
    }
    using renderer = rendererWith({ newWorker })
    await renderer.render(request(1, 'warm'))
    const killed = renderer.render(request(1, FOREVER, { urgency }))
    const waiting = [renderer.render(request(1, 'next')), renderer.render(request(2, 'other'))]
    workers[0]?.terminate()
    expect(await Promise.all([killed, ...waiting].map(verdictOf))).toEqual([verdict, 'next', 'other'])
    expect(workers.length).toBe(2)
  },
)

test('a Worker that is silent for three seconds is replaced, and its account refused for a minute', async () => {
  const clock = new ManualClock()
  const workers: Worker[] = []
  let requestCount = 0
  const newWorker = (): Worker => {
    // Ready, then silent.
    const worker =
      workers.length > 0
        ? startWorker('render')
        : fakeWorker(({ say }) => requestCount++ === 0 && say({ type: 'ready' }))
    workers.push(worker)
    return worker
  }
  using renderer = rendererWith({ clock, newWorker })
  const silenced = renderer.render(request(1, 'a'))
  const ofTheSame = ['now', 'bulk'].map((urgency) => renderer.render(request(1, 'c', { urgency: urgency as 'now' })))
  const next = renderer.render(request(2, 'b'))
  const refusedFor = (wait: number) => ({ status: 503, code: 'server_busy', retryAfterSeconds: wait })
  await Promise.resolve()
  clock.advance(seconds(2))
  expect(workers.length).toBe(1)
  clock.advance(seconds(1))
  for (const waiting of ofTheSame) expect(await waiting.catch((error: unknown) => error)).toMatchObject(refusedFor(60))
  expect([await silenced, await next].map(endOf)).toEqual(['limit', 'b'])
  expect(workers.length).toBe(2)
  clock.advance(seconds(20))
  expect(await renderer.render(request(1, 'a')).catch((error: unknown) => error)).toMatchObject(refusedFor(40))
  clock.advance(seconds(40))
  expect(endOf(await renderer.render(request(1, 'd')))).toBe('d')
})

test('a Worker that cannot be started fails the request, without blaming the template', async () => {
  using renderer = rendererWith({ newWorker: () => fakeWorker(({ fail }) => fail()) })
  const rejected = await renderer.render(request(1, 'a')).catch((error: unknown) => error)
  expect(String(rejected)).toBe('Error: the render worker could not be started: it fell over')
})

test('the Worker starts with the first request and ends after an idle minute', async () => {
  const clock = new ManualClock()
  let started = 0
  using renderer = rendererWith({
    clock,
    newWorker: () => {
      started++
      return startWorker('render')
    },
  })
  expect(started).toBe(0)
  await renderer.render(request(1, 'a'))
  await renderer.render(request(1, 'b'))
  expect(started).toBe(1)
  clock.advance(minutes(1))
  expect(endOf(await renderer.render(request(1, 'c')))).toBe('c')
  expect(started).toBe(2)
})

test('no account has more than 2,000 requests or 64 MiB waiting', async () => {
  const renderer = rendererWith({ newWorker: () => fakeWorker(() => undefined) })
  const outcomes: Promise<unknown>[] = []
  const add = (accountId: number, text: string): void => {
    outcomes.push(renderer.render(request(accountId, text)).catch((error: unknown) => error))
  }
  for (let count = 0; count < 2000; count++) add(1, 'a')
  add(1, 'a')
  add(1, 'one too many')
  const large = 'x'.repeat(1_000_000)
  for (let count = 0; count < 67; count++) add(2, large)
  add(2, large)
  renderer.close()
  const ends = (await Promise.all(outcomes)).map((error) =>
    error instanceof AppError
      ? { status: error.status, code: error.code, wait: error.retryAfterSeconds }
      : String(error),
  )
  const refused = { status: 503, code: 'server_busy', wait: 1 }
  expect(ends).toEqual([
    ...Array<string>(2001).fill('Error: the renderer is closed'),
    refused,
    ...Array<string>(67).fill('Error: the renderer is closed'),
    refused,
  ])
})

test('a draining renderer refuses waiting and new requests, and finishes the running one', async () => {
  using renderer = rendererWith()
  const inHand = renderer.render(request(1, 'a'))
  const waiting = [renderer.render(request(1, 'b')), renderer.render(request(2, 'c', { urgency: 'bulk' }))]
  renderer.drain()
  const late = renderer.render(request(3, 'd'))
  const refused = { status: 503, code: 'server_busy', retryAfterSeconds: 1 }
  for (const each of [...waiting, late]) expect(await each.catch((error: unknown) => error)).toMatchObject(refused)
  expect(endOf(await inHand)).toBe('a')
})

test('a closed renderer rejects every request', async () => {
  const renderer = rendererWith()
  renderer.close()
  expect(await renderer.render(request(1, 'a')).catch(String)).toBe('Error: the renderer is closed')
})

test('a source over a MiB is refused before it waits', async () => {
  using renderer = rendererWith({ newWorker: () => fakeWorker(() => undefined) })
  const html = 'x'.repeat(1024 * 1024 + 1)
  expect(await renderer.render(request(1, '', { source: { html } }))).toMatchObject({
    fault: { part: 'html_body', kind: 'limit', message: 'html_body is longer than 1048576 bytes: make it shorter.' },
  })
  expect(await renderer.check({ accountId: 1, source: { html } })).toMatchObject([{ part: 'html_body', kind: 'limit' }])
  expect(await renderer.render(request(1, 'a', { dataJson: JSON.stringify({ html }) }))).toMatchObject({
    fault: { part: undefined, kind: 'limit' },
  })
})

test.each([
  ['requests', 'short', 1000],
  ['bytes', 'x'.repeat(1023 * KiB - 2), 32],
])('bulk takes at most half of the waiting %s of an account, and the rest stays free', async (_, text, most) => {
  using renderer = rendererWith({ newWorker: () => fakeWorker(() => undefined) })
  const refused: string[] = []
  const ask = (accountId: number, urgency: RenderRequest['urgency']): void =>
    void verdictOf(renderer.render(request(accountId, text, { urgency }))).then((end) =>
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
    verdictOf(renderer.render(request(accountId, text, { urgency })))
  const last = renderer.render(request(1, 'last'))
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
  using renderer = rendererWith()
  const ends: string[] = []
  for (let time = 0; time < 6; time++)
    ends.push(await verdictOf(renderer.render(request(1, FOREVER, { urgency: 'bulk' }))))
  expect(ends).toEqual(Array(6).fill('limit'))
  expect(await verdictOf(renderer.render(request(1, LONG)))).toBe('rendered')
})
