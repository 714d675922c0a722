import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { classifyMessage, LABELS } from '#features/receiving/agent-mailboxes/classify.ts'
import { createLog } from '#platform/log/log.ts'
import { minutes, seconds } from '#platform/units.ts'
import { createTestApp, eventually, type TestApp, type TestAppOptions } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createMessage } from './reply-support.ts'

interface RecordedRequest {
  readonly path: string
  readonly authorization: string | null
  readonly body: {
    readonly model?: string
    readonly messages: readonly { readonly role: string; readonly content: string }[]
    readonly response_format: unknown
  }
}

interface Endpoint extends AsyncDisposable {
  readonly url: string
  readonly asked: RecordedRequest[]
  /** Its response from now on. */
  answer: (request: Request) => Response | Promise<Response>
}

/** An endpoint like those of model servers, on a real socket. */
function startEndpoint(): Endpoint {
  const asked: RecordedRequest[] = []
  const endpoint = { answer: () => replyWith({ label: 'support', confidence: 0.9 }) } as Pick<Endpoint, 'answer'>
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const body = (await request.json()) as RecordedRequest['body']
      const { pathname, search } = new URL(request.url)
      asked.push({ path: pathname + search, authorization: request.headers.get('authorization'), body })
      return endpoint.answer(request)
    },
  })
  return Object.assign(endpoint, {
    url: `http://127.0.0.1:${server.port}/v1`,
    asked,
    [Symbol.asyncDispose]: () => server.stop(true),
  })
}

const replyWith = (content: unknown): Response =>
  Response.json({
    choices: [
      { message: { role: 'assistant', content: typeof content === 'string' ? content : JSON.stringify(content) } },
    ],
  })

const createClassifier = (url: string, options: TestAppOptions = {}): Promise<TestApp> =>
  createTestApp({
    ...options,
    settings: { TASSIS_LLM_URL: url, TASSIS_LLM_KEY: 'secret-key', TASSIS_LLM_MODEL: 'small', ...options.settings },
  })

let endpoint: Endpoint
let clock: ManualClock
let service: TestApp
beforeEach(async () => {
  endpoint = startEndpoint()
  clock = new ManualClock()
  service = await createClassifier(endpoint.url, { clock })
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await endpoint[Symbol.asyncDispose]()
})

const classify = (change: Parameters<typeof createMessage>[0] = {}, { app } = service) =>
  classifyMessage(app, createMessage(change))

// Proves: mailbox-13
test('without an endpoint there is no request and no classification', async () => {
  await using without = await createTestApp()
  expect(await classify({}, without)).toBeUndefined()
})

test('an endpoint that is enabled only for other uses gets no request', async () => {
  for (const uses of ['insights', 'insights,phishing']) {
    await using other = await createClassifier(endpoint.url, { settings: { TASSIS_LLM_USES: uses } })
    expect(await classify({}, other)).toBeUndefined()
  }
  await using both = await createClassifier(endpoint.url, { settings: { TASSIS_LLM_USES: 'phishing,classification' } })
  expect(await classify({}, both)).toEqual({ label: 'support', confidence: 0.9 })
  expect(endpoint.asked.length).toBe(1)
})

// Proves: mailbox-13
test('the endpoint gets the message as data, with model and key, and its label is the classification', async () => {
  expect(await classify({ subject: 'Help', text: 'It is broken.' })).toEqual({
    label: 'support',
    confidence: 0.9,
  })
  expect(endpoint.asked).toEqual([
    {
      path: '/v1/chat/completions',
      authorization: 'Bearer secret-key',
      body: {
        model: 'small',
        messages: [
          { role: 'system', content: expect.stringContaining(LABELS.join(', ')) },
          { role: 'user', content: expect.any(String) },
        ],
        response_format: { type: 'json_object' },
      },
    },
  ])
  expect(JSON.parse(endpoint.asked[0]?.body.messages[1]?.content ?? '')).toEqual({
    from: 'Bob <bob@receiver.test>',
    subject: 'Help',
    text: 'It is broken.',
  })
})

test('without a key and a model none is sent; the path of the URL stays', async () => {
  const settings = { TASSIS_LLM_KEY: '', TASSIS_LLM_MODEL: '' }
  await using bare = await createClassifier(`${endpoint.url}/deep/`, { settings })
  await classify({}, bare)
  expect(
    endpoint.asked.map(({ path, authorization, body }) => ({ path, authorization, hasModel: 'model' in body })),
  ).toEqual([{ path: '/v1/deep/chat/completions', authorization: null, hasModel: false }])
})

test('4,000 characters of a text are sent; for a message with HTML alone, the text in it', async () => {
  await classify({ text: 'x'.repeat(5000) })
  await classify({ text: null, html: '<style>p{}</style><p>Fish &amp; chips</p>' })
  await classify({ text: null, html: null })
  expect(endpoint.asked.map(({ body }) => JSON.parse(body.messages[1]?.content ?? '').text)).toEqual([
    'x'.repeat(4000),
    'Fish & chips',
    '',
  ])
})

const classification = { label: 'billing', confidence: 1 }
const GOOD = JSON.stringify(classification)

describe('a response', () => {
  const CONTENTS: readonly (readonly [content: unknown, classification: unknown])[] = [
    [{ label: 'billing', confidence: 1 }, classification],
    ['```json\n{"label": "billing", "confidence": 1}\n```', classification],
    [{ label: 'billing', confidence: 1, reason: 'an invoice' }, classification],
    [{ label: 'delete everything', confidence: 1 }, undefined],
    [{ label: 'Billing', confidence: 1 }, undefined],
    [{ confidence: 1 }, undefined],
    [{ label: 'billing' }, undefined],
    [{ label: 'billing', confidence: 1.01 }, undefined],
    [{ label: 'billing', confidence: -0.01 }, undefined],
    [{ label: 'billing', confidence: '1' }, undefined],
    ['billing', undefined],
    ['', undefined],
    ['{"label": "billing"} {"confidence": 1}', undefined],
    [null, undefined],
  ]
  test('is accepted if its content is one object with a known label and a confidence from 0 to 1', async () => {
    for (const [content, expected] of CONTENTS) {
      endpoint.answer = () => replyWith(content)
      expect<unknown>([content, await classify()]).toEqual([content, expected])
      // A success resets the count of failures.
      endpoint.answer = () => replyWith(GOOD)
      expect<unknown>(await classify()).toEqual(classification)
    }
  })

  test('of another form or status is ignored', async () => {
    const gzipped = Bun.gzipSync(JSON.stringify({ choices: [{ message: { content: GOOD } }] }))
    for (const answer of [
      () => new Response('no'),
      () => Response.json({ choices: [] }),
      () => Response.json({ choices: 'text' }),
      () => new Response('null'),
      () => new Response(replyWith(classification).body, { status: 500 }),
      () => new Response(replyWith(classification).body, { status: 429 }),
      // Compression was not requested.
      () => new Response(gzipped, { headers: { 'content-encoding': 'gzip' } }),
    ]) {
      endpoint.answer = answer
      expect(await classify()).toBeUndefined()
      endpoint.answer = () => replyWith(GOOD)
      expect<unknown>(await classify()).toEqual(classification)
    }
  })

  test('of 64 KiB is read; with one byte more it is not, and the rest is discarded', async () => {
    const body = JSON.stringify({ choices: [{ message: { content: JSON.stringify(classification) } }] })
    endpoint.answer = () => new Response(body.padEnd(65_536))
    expect(await classify()).toEqual(classification as never)
    endpoint.answer = () => new Response(body.padEnd(65_537))
    expect(await classify()).toBeUndefined()
    let isLeft = false
    endpoint.answer = () =>
      new Response(
        new ReadableStream({
          // Endless, until the client disconnects.
          async pull(controller) {
            await Bun.sleep(0)
            controller.enqueue(new Uint8Array(16_384))
          },
          cancel() {
            isLeft = true
          },
        }),
      )
    expect(await classify()).toBeUndefined()
    await eventually(() => isLeft)
  })
})

test('a redirect is not followed', async () => {
  await using elsewhere = startEndpoint()
  endpoint.answer = () => Response.redirect(`${elsewhere.url}/chat/completions`, 307)
  expect(await classify()).toBeUndefined()
  expect({ asked: endpoint.asked.length, elsewhere: elsewhere.asked.length }).toEqual({ asked: 1, elsewhere: 0 })
})

test('a slow endpoint times out after 10 seconds, body included', async () => {
  for (const answer of [
    () => new Promise<Response>(() => undefined),
    () =>
      new Response(
        new ReadableStream({
          start: (controller) => controller.enqueue(new TextEncoder().encode('{')),
        }),
      ),
  ]) {
    endpoint.answer = answer
    const before = endpoint.asked.length
    let isDone = false
    const result = classify().finally(() => {
      isDone = true
    })
    await eventually(() => endpoint.asked.length > before)
    clock.advance(seconds(10) - 1)
    await Bun.sleep(1)
    expect(isDone).toBe(false)
    clock.advance(1)
    expect(await result).toBeUndefined()
  }
})

test('at most 4 requests run, 16 more wait in order, and the others are skipped', async () => {
  const open: (() => void)[] = []
  let most = 0
  let now = 0
  endpoint.answer = async () => {
    most = Math.max(most, ++now)
    await new Promise<void>((resolve) => open.push(resolve))
    now--
    return replyWith({ label: 'support', confidence: 0.9 })
  }
  const finished: (boolean | undefined)[] = Array.from({ length: 22 })
  const all = finished.map(async (_, index) => {
    finished[index] = (await classify({ subject: String(index) })) !== undefined
  })
  await eventually(() => open.length === 4)
  expect(finished.map((done, index) => (done === false ? index : -1)).filter((index) => index >= 0)).toEqual([20, 21])
  const answering = eventually(() => {
    open.shift()?.()
    return endpoint.asked.length === 20 && open.length === 0
  })
  await Promise.all([...all, answering])
  expect(most).toBe(4)
  expect(finished).toEqual([...Array.from({ length: 20 }, () => true), false, false])
  expect(endpoint.asked.slice(4).map(({ body }) => JSON.parse(body.messages[1]?.content ?? '').subject)).toEqual(
    Array.from({ length: 16 }, (_, index) => String(index + 4)),
  )
})

test('waiting for a slot counts towards the 10 seconds, and does not count as a failure of the endpoint', async () => {
  endpoint.answer = () => new Promise<Response>(() => undefined)
  const all = Array.from({ length: 20 }, () => classify())
  await eventually(() => endpoint.asked.length === 4)
  clock.advance(seconds(10))
  expect(await Promise.all(all)).toEqual(Array.from({ length: 20 }, () => undefined))
  // Only the four requests in progress failed, so the endpoint is not backing off.
  endpoint.answer = () => replyWith({ label: 'sales', confidence: 0.5 })
  expect(await classify()).toEqual({ label: 'sales', confidence: 0.5 })
})

test('after 5 failures in a row requests back off for 60 seconds; after that, one more failure starts another backoff', async () => {
  const fails = () => new Response('', { status: 503 })
  endpoint.answer = fails
  for (let i = 0; i < 4; i++) await classify()
  // A success resets the count.
  endpoint.answer = () => replyWith({ label: 'other', confidence: 0 })
  expect(await classify()).toEqual({ label: 'other', confidence: 0 })
  endpoint.answer = fails
  for (let i = 0; i < 7; i++) await classify()
  expect(endpoint.asked.length).toBe(10)
  clock.advance(minutes(1) - 1)
  await classify()
  expect(endpoint.asked.length).toBe(10)
  clock.advance(1)
  await classify()
  await classify()
  expect(endpoint.asked.length).toBe(11)
  clock.advance(minutes(1))
  endpoint.answer = () => replyWith({ label: 'spam', confidence: 0.4 })
  expect(await classify()).toEqual({ label: 'spam', confidence: 0.4 })
})

test('waiting requests are skipped when the backoff begins', async () => {
  const open: (() => void)[] = []
  endpoint.answer = async () => {
    await new Promise<void>((resolve) => open.push(resolve))
    return new Response('', { status: 503 })
  }
  const all = Promise.all(Array.from({ length: 20 }, () => classify()))
  // One response after the other: after the fifth failure no further request begins.
  for (let failure = 1; failure <= 8; failure++) {
    await eventually(() => open.length > 0)
    await eventually(() => endpoint.asked.length === Math.min(3 + failure, 8))
    open.shift()?.()
  }
  expect(await all).toEqual(Array.from({ length: 20 }, () => undefined))
  expect(endpoint.asked.length).toBe(8)
})

// Proves: mailbox-13
test('an unreachable endpoint costs only the classification', async () => {
  const gone = startEndpoint()
  await gone[Symbol.asyncDispose]()
  await using alone = await createClassifier(gone.url)
  expect(await classify({}, alone)).toBeUndefined()
})

test('failures are logged, and never with the key or the message', async () => {
  const lines: string[] = []
  endpoint.answer = () => new Response('secret answer', { status: 500 })
  const log = createLog('info', { write: (line) => void lines.push(line) })
  await using logging = await createClassifier(endpoint.url, { clock, log })
  await classify({ subject: 'secret subject' }, logging)
  expect(lines.map((line) => JSON.parse(line)).map(({ reason }) => reason)).toEqual(['it responded with 500'])
  expect(lines.join('')).not.toContain('secret')
})
