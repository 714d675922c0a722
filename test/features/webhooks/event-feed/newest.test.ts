/** @module The feed from its end: pages with the newest event first, and streams of what happens from now on. */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { MAX_EXAMINED } from '#features/webhooks/event-feed/feed.ts'
import { at, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { isChromiumAvailable, startBrowser } from '#test/support/browser.ts'
import { createEmailApi, expectError, shareEmailApi } from '#test/support/email-api.ts'
import { createTestUser, signIn } from '#test/support/users.ts'
import { type FeedPage, numbers, openStream, page, recordEvents, seedEvents } from './feed-client.ts'

// A browser starts slowly on a busy machine.
setDefaultTimeout(120_000)

const seqsOf = ({ data }: FeedPage): number[] => data.map(({ seq }) => seq)

/**
 * Forwards TCP connections to `port` until `cut` ends those that are open; new ones are accepted again after that.
 * `sent` returns what the server has sent so far; clients get it before they see the end.
 */
async function startRelay(port: number) {
  const sockets = new Set<Socket>()
  let sent = ''
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.pipe(to)
      from.on('error', () => to.destroy()).on('close', () => to.destroy())
    }
    // Called after the pipe has written the same octets to the client.
    upstream.on('data', (octets: Buffer) => {
      sent += octets.toString('latin1')
    })
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    for (const socket of sockets) socket.destroy()
    sockets.clear()
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    sent: () => sent,
    [Symbol.dispose]() {
      cut()
      server.close()
    },
  }
}

/** All events, newest first, page by page. */
async function readBackwards({ api }: TestApi, query: string): Promise<number[]> {
  const seqs: number[] = []
  for (let before: number | null | undefined; before !== null; ) {
    const next = await page(api, `?order=newest&${query}${before === undefined ? '' : `&before=${before}`}`)
    seqs.push(...seqsOf(next))
    if (next.next_before === undefined) throw new Error('a page newest first without next_before')
    before = next.next_before
  }
  return seqs
}

const service = shareEmailApi(createEmailApi)

describe('the feed, newest first', () => {
  // Proves: feed-6
  test('is read to its beginning by repeated requests with next_before, at any limit', async () => {
    const { app, actor } = service
    await recordEvents(app, actor.accountId, new Array(23).fill('queued'))
    for (const limit of [1, 7, 22, 23, 24, 1000])
      expect(await readBackwards(service, `limit=${limit}`)).toEqual(numbers(1, 23).reverse())
    const first = await page(service.api, '?order=newest&limit=2')
    expect([seqsOf(first), { ...first, data: [] }]).toEqual([
      [23, 22],
      { data: [], next_after: 23, next_before: 22, first_seq: 1, last_seq: 23 } as never,
    ])
    expect((await page(service.api, '?after=21')).data).toEqual(first.data.toReversed())
  })

  test('with types has only those, and examines at most 10,000 events per call', async () => {
    const { app, actor } = service
    await recordEvents(app, actor.accountId, ['bounced', 'queued', 'bounced'])
    seedEvents(app, actor.accountId, 2 * MAX_EXAMINED)
    const first = await page(service.api, '?order=newest&types=bounced')
    expect<unknown>(first).toEqual({
      data: [],
      next_after: 20_003,
      next_before: MAX_EXAMINED + 4,
      first_seq: 1,
      last_seq: 20_003,
    })
    expect(await readBackwards(service, 'types=bounced&limit=1')).toEqual([3, 1])
    expect(await readBackwards(service, 'types=bounced,queued&limit=2')).toHaveLength(20_003)
  }, 240_000)

  test('ends before events that were deleted, also when they are deleted between two pages', async () => {
    const { app, actor, api } = service
    seedEvents(app, actor.accountId, 50)
    expect(await page(api, '?order=newest&limit=10')).toMatchObject({ next_before: 41 })
    app.db.run('DELETE FROM events WHERE seq <= 44')
    expect(seqsOf(await page(api, '?order=newest'))).toEqual(numbers(45, 50).reverse())
    expect<unknown>(await page(api, '?order=newest&before=41')).toEqual({
      data: [],
      next_after: 50,
      next_before: null,
      first_seq: 45,
      last_seq: 50,
    })
    app.db.run('DELETE FROM events')
    expect<unknown>(await page(api, '?order=newest')).toEqual({
      data: [],
      next_after: 50,
      next_before: null,
      first_seq: 51,
      last_seq: 50,
    })
  })

  test.each([
    ['order=oldest&before=2', 'before'],
    ['before=2', 'before'],
    ['order=newest&after=2', 'after'],
    ['order=newest&after=latest', 'after'],
    ['order=up', 'order'],
    ['order=newest&before=0', 'before'],
    ['order=newest&before=-1', 'before'],
    ['order=newest&before=latest', 'before'],
    ['order=newest&since=1', 'since'],
  ])('%s is a 422 that names the parameter', async (query, field) => {
    const answer = await service.api('GET', `/v1/events?${query}`)
    expect([answer.status, at(answer.body, 'details', 0, 'field')]).toEqual([422, field])
  })
})

describe('after=latest', () => {
  // Proves: feed-7
  test('is an empty page that says where to go on', async () => {
    const { app, actor, api } = service
    const empty = (next: number) => ({ data: [], next_after: next, first_seq: 1, last_seq: next })
    expect<unknown>(await page(api, '?after=latest')).toEqual(empty(0))
    seedEvents(app, actor.accountId, 12)
    expect<unknown>(await page(api, '?after=latest')).toEqual(empty(12))
    await recordEvents(app, actor.accountId, ['sent'])
    expect(seqsOf(await page(api, '?after=12'))).toEqual([13])
  })

  // Proves: feed-7
  test('is a stream that begins with the next event, and tells the client its position first', async () => {
    const { app, actor, url, key } = service
    seedEvents(app, actor.accountId, 12)
    using stream = await openStream(url, { key, query: '?after=latest' })
    await eventually(() => stream.lastEventId() || undefined)
    // A client that loses the connection now gets what happens until it reconnects.
    expect([stream.lastEventId(), stream.waiting]).toEqual(['12', []])
    await recordEvents(app, actor.accountId, ['sent'])
    expect(await stream.next()).toMatchObject({ id: '13', event: 'sent' })
    using again = await openStream(url, { key, query: '?after=latest', lastEventId: '12' })
    expect(await again.next()).toMatchObject({ id: '13', event: 'sent' })
  })

  test('newest first is for pages only', async () => {
    const answer = await service.api('GET', '/v1/events?order=newest', undefined, {
      headers: { accept: 'text/event-stream' },
    })
    expectError(answer, 422, 'validation_failed', 'order')
  })
})

describe.if(isChromiumAvailable())('EventSource in a browser', () => {
  // Proves: feed-7
  test('with the session of a user gets what happens from now on, and after a lost connection what it missed', async () => {
    const { app, actor, url } = service
    await createTestUser(app, actor, 'ada@people.test', 'viewer')
    const { cookie } = await signIn(service, 'ada@people.test')
    using relay = await startRelay(Number(new URL(url).port))
    seedEvents(app, actor.accountId, 12)
    await using browser = await startBrowser()
    const context = await browser.newContext()
    const [name = '', value = ''] = cookie.split('=')
    await context.addCookies([{ name, value, url: relay.url, httpOnly: true, sameSite: 'Lax' }])
    const tab = await context.newPage()
    // A page of the same origin that may connect.
    await tab.goto(`${relay.url}/openapi.json`)
    const read = <T>(code: string): Promise<T> => tab.evaluate<T>(code)
    await read(`(() => {
      window.seen = []
      window.opened = 0
      const source = new EventSource('/v1/events?after=latest')
      source.onopen = () => { window.opened++ }
      for (const type of ['sent', 'delivered'])
        source.addEventListener(type, (event) => window.seen.push(event.lastEventId + ' ' + JSON.parse(event.data).type))
    })()`)
    const untilOpened = (times: number) =>
      eventually(async () => ((await read<number>('window.opened')) >= times ? true : undefined))
    await untilOpened(1)
    // The position of a stream without events.
    await eventually(() => relay.sent().includes('id: 12\n'))
    relay.cut()
    await recordEvents(app, actor.accountId, ['sent'])
    await untilOpened(2)
    await recordEvents(app, actor.accountId, ['delivered'])
    await eventually(async () => ((await read<string[]>('window.seen')).length >= 2 ? true : undefined))
    expect(await read<string[]>('window.seen')).toEqual(['13 sent', '14 delivered'])
    await context.close()
  })
})
