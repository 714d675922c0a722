import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { announceAccessChange } from '#features/core/app/account-changes.ts'
import { signUserOut } from '#features/people/team/operator-routes.ts'
import { addMember } from '#features/people/team/users.ts'
import { ALL_TYPES } from '#features/webhooks/event-feed/feed.ts'
import {
  createFeedStreams,
  HEARTBEAT_MS,
  MAX_STREAMS,
  MAX_STREAMS_PER_ACCOUNT,
} from '#features/webhooks/event-feed/stream.ts'
import { openEventStream } from '#platform/http/event-stream.ts'
import { CLIENT_STALL_MS } from '#platform/http/paced-body.ts'
import { formatUuid } from '#platform/ids.ts'
import { type Timer, yieldToEventLoop } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectError } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { type BrowserSession, createTestUser, PASSWORD, signIn, type TestUser } from '#test/support/users.ts'
import {
  nextSeqs,
  numbers,
  openStream,
  openUnread,
  page,
  recordEvents,
  type StreamClient,
  seedEvents,
} from './feed-client.ts'

const STREAM = { headers: { accept: 'text/event-stream' } }

/** A clock that knows which timers run, and which of them wait for a client to read. */
class WatchedClock extends ManualClock {
  readonly running = new Set<Timer>()
  readonly untaken = new Set<Timer>()

  override after(delayMs: number, run: () => void): Timer {
    const forget = () => {
      this.running.delete(watched)
      this.untaken.delete(watched)
    }
    const timer = super.after(delayMs, () => {
      forget()
      run()
    })
    const watched: Timer = {
      cancel() {
        forget()
        timer.cancel()
      },
    }
    this.running.add(watched)
    if (delayMs === CLIENT_STALL_MS) this.untaken.add(watched)
    return watched
  }
}

interface StreamApi extends TestApi {
  readonly clock: WatchedClock
  open(query?: string, lastEventId?: string): Promise<StreamClient>
  record(...types: Parameters<typeof recordEvents>[2]): Promise<void>
}

async function createStreamApi(): Promise<StreamApi> {
  const clock = new WatchedClock()
  const service = await createTestApi({ clock })
  const { app, actor, url, key } = service
  return {
    ...service,
    clock,
    open: (query = '', lastEventId) =>
      openStream(url, { key, query, ...(lastEventId !== undefined && { lastEventId }) }),
    record: (...types) => recordEvents(app, actor.accountId, types),
  }
}

let service: StreamApi
beforeEach(async () => {
  service = await createStreamApi()
})
afterEach(() => service[Symbol.asyncDispose]())

function readerOf({ body }: Response) {
  if (!body) throw new Error('the answer has no body')
  return body.getReader()
}

/** Resolves when one client's kernel buffer is full, and the service writes no more to it. */
async function untilStuck({ clock }: StreamApi): Promise<void> {
  let waiting: Timer | undefined
  let looks = 0
  await eventually(() => {
    const [timer] = clock.untaken
    looks = timer !== undefined && timer === waiting ? looks + 1 : 0
    waiting = timer
    return looks === 40
  })
}

/** Whether the account can open its maximum of streams, so that none of its slots is in use. */
async function areSlotsFree(service: StreamApi): Promise<boolean> {
  const streams: StreamClient[] = []
  try {
    while (streams.length < MAX_STREAMS_PER_ACCOUNT) streams.push(await service.open())
    return true
  } catch (error) {
    if (String(error).includes('429')) return false
    throw error
  } finally {
    for (const stream of streams) stream.close()
  }
}

describe('a stream', () => {
  test('declares its type, and keeps caches and proxies from buffering it', async () => {
    using stream = await service.open()
    const { headers } = stream.response
    expect({
      type: headers.get('content-type'),
      cache: headers.get('cache-control'),
      buffering: headers.get('x-accel-buffering'),
      id: headers.get('x-request-id'),
    }).toEqual({
      type: 'text/event-stream',
      cache: 'no-store',
      buffering: 'no',
      id: expect.stringMatching(/^[\w-]{36}$/),
    })
    await service.record('queued')
    await stream.next()
    expect(stream.retryMs()).toBe(3000)
  })

  // Proves: feed-4
  test('sends each event with its seq as id, its type as event and the feed record as data', async () => {
    await service.record('queued', 'sent', 'delivered')
    const { data } = await page(service.api)
    using stream = await service.open()
    const told = [await stream.next(), await stream.next(), await stream.next()]
    expect(told).toEqual(data.map((event) => ({ id: String(event.seq), event: event.type, data: event })))
  })

  // Proves: feed-4
  test('begins with the stored events after the given one and continues with new ones, without a gap', async () => {
    seedEvents(service.app, service.actor.accountId, 950)
    using stream = await service.open('?after=7')
    const live = (async () => {
      for (let n = 0; n < 50; n++) await service.record('sent', 'delivered')
    })()
    expect(await nextSeqs(stream, 1043)).toEqual(numbers(8, 1050))
    await live
    await service.record('bounced')
    expect(await nextSeqs(stream, 1)).toEqual([1051])
    expect(stream.waiting).toEqual([])
  })

  test('without a given position begins with the first retained event', async () => {
    seedEvents(service.app, service.actor.accountId, 5)
    service.app.db.run('DELETE FROM events WHERE seq <= 2')
    using stream = await service.open()
    expect(await nextSeqs(stream, 3)).toEqual([3, 4, 5])
  })

  // Proves: feed-4
  test('continues after Last-Event-ID, which overrides after; an empty one is ignored', async () => {
    seedEvents(service.app, service.actor.accountId, 9)
    using resumed = await service.open('?after=2', '6')
    expect(await nextSeqs(resumed, 3)).toEqual([7, 8, 9])
    using fresh = await service.open('?after=2', '')
    expect(await nextSeqs(fresh, 7)).toEqual(numbers(3, 9))
  })

  test("with types sends only those, and the heartbeat moves the client's id past the others", async () => {
    using stream = await service.open('?types=bounced,failed')
    await service.record('queued', 'bounced', 'sent', 'failed', 'sent', 'delivered')
    expect(await nextSeqs(stream, 2)).toEqual([2, 4])
    expect(stream.lastEventId()).toBe('4')
    await eventually(() => {
      service.clock.advance(HEARTBEAT_MS)
      return stream.lastEventId() === '6'
    })
    expect(new Set(stream.comments)).toEqual(new Set(['heartbeat']))
    await service.record('queued', 'bounced')
    expect(await nextSeqs(stream, 1)).toEqual([8])
  })

  test('whose account has only events of other types also sends a comment every 15 seconds', async () => {
    using stream = await service.open('?types=bounced')
    await service.record('bounced')
    expect(await nextSeqs(stream, 1)).toEqual([1])
    for (let seq = 2; stream.comments.length < 2; seq++) {
      if (seq > 200) throw new Error('no comment in 200 seconds')
      await service.record('sent')
      service.clock.advance(seconds(1))
      // A tick in which the stream can check for events and its client can receive the comment.
      expect((await service.api('GET', '/v1/account')).status).toBe(200)
    }
    expect(Number(stream.lastEventId())).toBeGreaterThan(15)
  })

  test('sends no event before it is durable', async () => {
    const { app, actor } = service
    await service.record('queued')
    using stream = await service.open()
    expect(await nextSeqs(stream, 1)).toEqual([1])
    // Simulates a sync in progress: all rows are readable, but the signal does not report the last one as durable yet.
    seedEvents(app, actor.accountId, 3)
    app.eventsRecorded.emit({ accountId: actor.accountId, lastSeq: 3 })
    expect(await nextSeqs(stream, 2)).toEqual([2, 3])
    expect((await page(service.api)).next_after).toBe(4)
    app.eventsRecorded.emit({ accountId: actor.accountId, lastSeq: 3 })
    expect((await service.api('GET', '/v1/account')).status).toBe(200)
    expect(stream.waiting).toEqual([])
    app.eventsRecorded.emit({ accountId: actor.accountId, lastSeq: 4 })
    expect(await nextSeqs(stream, 1)).toEqual([4])
  })

  test('begins only when earlier events are durable', async () => {
    const { app } = service
    await service.record('queued')
    const synced = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<void>()
    const barrier = app.commit.barrier.bind(app.commit)
    app.commit.barrier = () => {
      asked.resolve()
      return synced.promise
    }
    const opening = service.open()
    await asked.promise
    let isOpen = false
    void opening.then(() => {
      isOpen = true
    })
    expect((await service.api('GET', '/v1/account')).status).toBe(200)
    expect(isOpen).toBe(false)
    synced.resolve()
    app.commit.barrier = barrier
    using stream = await opening
    expect(await nextSeqs(stream, 1)).toEqual([1])
  })

  test('sends events recorded while it opens', async () => {
    const { commit } = service.app
    const barrier = commit.barrier.bind(commit)
    commit.barrier = async () => {
      await service.record('sent')
      await barrier()
    }
    using stream = await service.open()
    commit.barrier = barrier
    expect(await nextSeqs(stream, 1)).toEqual([1])
  })

  test('sends no events of other accounts', async () => {
    const other = await service.newAccount()
    using theirs = await openStream(service.url, { key: await service.newKey([], other) })
    using mine = await service.open()
    await service.record('queued', 'sent')
    await recordEvents(service.app, other.accountId, ['bounced'])
    expect(await theirs.next()).toMatchObject({ id: '1', event: 'bounced', data: { account_id: other.accountUuid } })
    expect(await nextSeqs(mine, 2)).toEqual([1, 2])
    expect([theirs.waiting, mine.waiting]).toEqual([[], []])
  })

  // Proves: feed-3
  test('returns the errors of the feed as JSON when it cannot begin', async () => {
    const { app, actor, api } = service
    seedEvents(app, actor.accountId, 9)
    app.db.run('DELETE FROM events WHERE seq <= 4')
    const ask = (query: string, lastEventId?: string) =>
      api('GET', `/v1/events${query}`, undefined, {
        headers: { ...STREAM.headers, ...(lastEventId !== undefined && { 'last-event-id': lastEventId }) },
      })
    const old = await ask('', '3')
    expect(old).toMatchObject({ status: 410, body: { code: 'events_not_kept', next_after: 4, first_seq: 5 } })
    expect((await ask('?after=3')).status).toBe(410)
    expectError(await ask('', '10'), 422, 'validation_failed', 'Last-Event-ID')
    expectError(await ask('?after=5', 'x'), 422, 'validation_failed', 'Last-Event-ID')
    expectError(await ask('?after=10'), 422, 'validation_failed', 'after')
    expectError(await ask('?types=none'), 422, 'unknown_event', 'types')
  })

  // Proves: feed-3
  test('ends when unsent events are removed, and the client then gets an error', async () => {
    using stream = await service.open('?types=bounced')
    await service.record('bounced')
    expect(await nextSeqs(stream, 1)).toEqual([1])
    seedEvents(service.app, service.actor.accountId, 19)
    service.app.db.run('DELETE FROM events')
    await service.record('sent')
    expect(await stream.next()).toBeUndefined()
    const again = await service.api('GET', '/v1/events', undefined, {
      headers: { ...STREAM.headers, 'last-event-id': stream.lastEventId() },
    })
    expect(again).toMatchObject({ status: 410, body: { code: 'events_not_kept', next_after: 20, first_seq: 21 } })
    using resumed = await service.open(`?types=bounced&after=${at(again.body, 'next_after')}`)
    await service.record('bounced')
    expect(await nextSeqs(resumed, 1)).toEqual([22])
  })

  test('is served only for its media type: any other Accept gets JSON', async () => {
    const typeFor = async (accept: string) => {
      const leaving = new AbortController()
      const response = await fetch(`${service.url}/v1/events`, {
        headers: { authorization: `Bearer ${service.key}`, accept },
        signal: leaving.signal,
      })
      leaving.abort()
      return response.headers.get('content-type')
    }
    for (const accept of [
      '*/*',
      'application/json',
      'text/*',
      'text/event-stream;q=0',
      'text/event-stream; q=0.000',
      'text/event-streams',
      'application/json, text/event-stream;q=0.9',
    ])
      expect(await typeFor(accept)).toMatch(/^application\/json/)
    for (const accept of [
      'text/event-stream',
      'text/event-stream;charset=utf-8',
      'application/json;q=0.5, Text/Event-Stream;q=0.9',
      'application/json, text/event-stream, */*;q=0.1',
    ])
      expect(await typeFor(accept)).toBe('text/event-stream')
  })

  // Proves: feed-4
  test('ends immediately when its key is deleted, unlike other streams of the account', async () => {
    const key = await service.newKey(['emails:read'])
    using stream = await openStream(service.url, { key })
    using other = await service.open()
    await service.record('queued')
    await stream.next()
    const keys = await service.api('GET', '/v1/api-keys')
    await service.api('DELETE', `/v1/api-keys/${at(keys.body, 'data', 0, 'id')}`)
    await service.record('queued')
    // The clock stands still: no heartbeat ends it.
    expect(await stream.next()).toBeUndefined()
    expect(await nextSeqs(other, 2)).toEqual([1, 2])
    expect((await service.api('GET', '/v1/events', undefined, { key })).status).toBe(401)
  })

  // Proves: feed-4
  test('ends immediately when its account is disabled, although the key exists', async () => {
    const { app, actor } = service
    using stream = await service.open()
    await service.record('queued')
    await stream.next()
    app.db.run('UPDATE accounts SET disabled_at = 1 WHERE id = ?', [actor.accountId])
    app.accessChanged.emit({ accountId: actor.accountId })
    expect(await stream.next()).toBeUndefined()
    expect((await service.api('GET', '/v1/events')).status).toBe(401)
  })

  test('sends nothing more once its actor has lost access, even without a signal', async () => {
    const key = await service.newKey(['emails:read'])
    using stream = await openStream(service.url, { key })
    await service.record('queued')
    await stream.next()
    service.app.db.run('DELETE FROM api_keys WHERE id = (SELECT max(id) FROM api_keys)')
    await service.record('queued')
    expect(await stream.next()).toBeUndefined()
  })

  test('continues when the revocation of its key is rolled back', async () => {
    const { app, actor } = service
    using stream = await service.open()
    await service.record('queued')
    const undone = app.commit.write((tx) => {
      tx.db.run('DELETE FROM api_keys')
      announceAccessChange(app, tx, actor.accountId)
      throw new Error('undone')
    })
    await expect(undone).rejects.toThrow('undone')
    await service.record('queued')
    expect(await nextSeqs(stream, 2)).toEqual([1, 2])
  })

  describe('of a signed-in user ends immediately when', () => {
    const cases: readonly [
      string,
      (service: StreamApi, session: BrowserSession, person: TestUser) => Promise<unknown>,
    ][] = [
      ['the user signs out', (_, session) => session.ask('POST', '/v1/auth/logout')],
      [
        'the session is ended from another one',
        async (service, session, { email }) => {
          const sessions = await session.ask('GET', '/v1/auth/sessions')
          const other = await signIn(service, email)
          await other.ask('DELETE', `/v1/auth/sessions/${at(sessions.body, 'data', 0, 'id')}`)
        },
      ],
      [
        'the password is changed in another session',
        async (service, _, { email }) => {
          const other = await signIn(service, email)
          await other.ask('PUT', '/v1/auth/password', { current_password: PASSWORD, password: `${PASSWORD} new` })
        },
      ],
      [
        'the membership ends',
        (service, _, { user }) => service.api('DELETE', `/v1/team/members/${formatUuid(user.uuid)}`),
      ],
      [
        'the role changes',
        (service, _, { user }) => service.api('PATCH', `/v1/team/members/${formatUuid(user.uuid)}`, { role: 'viewer' }),
      ],
      ['the operator signs the user out', (service, _, { email }) => signUserOut(service.app, email)],
      [
        'the session is switched to another account',
        async (service, session, { user }) => {
          const { app } = service
          const elsewhere = await service.newAccount()
          await app.commit.write((tx) => addMember(app, tx, elsewhere, user, 'viewer'))
          await session.ask('PUT', '/v1/auth/session', { account_id: elsewhere.accountUuid })
        },
      ],
    ]
    test.each(cases)('%s', async (_, revoke) => {
      const person = await createTestUser(service.app, service.actor, 'ada@people.test', 'developer')
      const session = await signIn(service, person.email)
      using stream = await openStream(service.url, { key: { cookie: session.cookie } })
      await service.record('queued')
      await stream.next()
      await revoke(service, session, person)
      await service.record('queued')
      expect(await stream.next()).toBeUndefined()
    })
  })

  test('ends immediately when the service stops, even if its client does not read', async () => {
    const service = await createStreamApi()
    seedEvents(service.app, service.actor.accountId, 100_000)
    const stream = await service.open('?after=100000')
    const unread = await openUnread(service)
    const closed = new Promise((resolve) => unread.once('close', resolve))
    await untilStuck(service)
    // The clock stands still, so the grace of the stop ends nothing here.
    await service[Symbol.asyncDispose]()
    await stream.ended
    unread.resume()
    await closed
  })

  test('is rejected once the service stops', async () => {
    const { app, actor } = service
    const ending = new AbortController()
    const streams = createFeedStreams(app, ending.signal)
    ending.abort()
    const open = () => streams.open(new Request('http://localhost/'), actor, { after: 0, types: ALL_TYPES })
    expect(open).toThrow(expect.objectContaining({ status: 503, retryAfterSeconds: 1 }))
  })
})

describe('streams have limits', () => {
  test(`the ${MAX_STREAMS_PER_ACCOUNT + 1}th stream of an account is a 429; another account has its own limit`, async () => {
    const streams: StreamClient[] = []
    while (streams.length < MAX_STREAMS_PER_ACCOUNT) streams.push(await service.open())
    expectError(await service.api('GET', '/v1/events', undefined, STREAM), 429, 'too_many_streams')
    expect((await service.api('GET', '/v1/events')).status).toBe(200)
    const other = await service.newKey([], await service.newAccount())
    using theirs = await openStream(service.url, { key: other })
    expect(theirs.response.status).toBe(200)
    for (const stream of streams) stream.close()
  })

  test('a client that disconnects frees its slot, and no listener remains', async () => {
    const { app, actor } = service
    let listeners = 0
    const { listen } = app.eventsRecorded
    app.eventsRecorded.listen = (listener) => {
      listeners++
      const stop = listen(listener)
      return () => {
        listeners--
        stop()
      }
    }
    for (let round = 0; round < 3; round++) {
      const streams: StreamClient[] = []
      while (streams.length < MAX_STREAMS_PER_ACCOUNT) streams.push(await service.open())
      expect(listeners).toBe(1)
      await service.record('queued')
      for (const stream of streams) await stream.next()
      for (const stream of streams) stream.close()
      await eventually(() => listeners === 0)
    }
    // A client that disconnects while it has unread data.
    seedEvents(app, actor.accountId, 50_000)
    const unread = await openUnread(service)
    await untilStuck(service)
    expect(listeners).toBe(1)
    unread.destroy()
    await eventually(() => listeners === 0)
    expect(await areSlotsFree(service)).toBe(true)
  })

  test(`at most ${MAX_STREAMS} are open in all; the next is a 429, until those whose clients do not read are closed`, async () => {
    const { app, actor, clock } = service
    const streams = createFeedStreams(app, new AbortController().signal)
    const open = (accountId: number) =>
      streams.open(new Request('http://localhost/'), { ...actor, accountId }, { after: 0, types: ALL_TYPES })
    for (let account = 1; account <= MAX_STREAMS / MAX_STREAMS_PER_ACCOUNT; account++)
      for (let n = 0; n < MAX_STREAMS_PER_ACCOUNT; n++) open(account)
    expect(streams.size).toBe(MAX_STREAMS)
    expect(() => open(5000)).toThrow(expect.objectContaining({ status: 429, code: 'too_many_streams' }))
    clock.advance(CLIENT_STALL_MS)
    expect(streams.size).toBe(0)
    const response = open(5000)
    await response.body?.cancel()
    expect(streams.size).toBe(0)
  })

  // Proves: feed-4
  test('all streams that catch up produce one piece per tick together, so a request waits for one piece, not for one of each', async () => {
    const { app, actor } = service
    seedEvents(app, actor.accountId, 2000)
    const streams = createFeedStreams(app, new AbortController().signal)
    let isOver = false
    let turns = 0
    const counting = (async () => {
      for (; !isOver; turns++) await yieldToEventLoop()
    })()
    const pieceTurns: number[] = []
    const readers = numbers(1, MAX_STREAMS_PER_ACCOUNT).map(async () => {
      const response = streams.open(new Request('http://localhost/'), actor, { after: 0, types: ALL_TYPES })
      const reader = readerOf(response)
      expect(new TextDecoder().decode((await reader.read()).value)).toStartWith('retry: ')
      for (let piece = 0; piece < 3; piece++) {
        await reader.read()
        pieceTurns.push(turns)
      }
      await reader.cancel()
    })
    await Promise.all(readers)
    isOver = true
    await counting
    expect(pieceTurns).toHaveLength(3 * MAX_STREAMS_PER_ACCOUNT)
    expect(new Set(pieceTurns).size).toBe(pieceTurns.length)
  })

  test('no piece is produced before its client reads, and nothing remains when the client disconnects', async () => {
    const { app, actor, clock } = service
    await service.record('queued', 'sent')
    const request = new Request('http://localhost/')
    let asked = 0
    const { response } = openEventStream({
      request,
      clock,
      next: async () => `${++asked}`,
      onEnded: () => {},
      onError: () => {},
    })
    const taking = readerOf(response)
    await taking.read()
    await yieldToEventLoop()
    expect(asked).toBe(1)
    await taking.cancel()
    const before = clock.running.size
    const streams = createFeedStreams(app, new AbortController().signal)
    const reader = readerOf(streams.open(request, actor, { after: 0, types: ALL_TYPES }))
    await reader.read()
    await reader.read()
    // The client has everything, and its stream waits for more.
    const waiting = reader.read()
    await eventually(() => clock.running.size > before)
    await yieldToEventLoop()
    await reader.cancel()
    await waiting
    // The stream does not go on waiting either.
    for (let turn = 0; turn < 5; turn++) await yieldToEventLoop()
    expect([clock.running.size, streams.size]).toEqual([before, 0])
  })

  test('a client that reads nothing for a minute is disconnected, and its slot is free', async () => {
    const { app, actor, clock } = service
    seedEvents(app, actor.accountId, 100_000)
    const unread = await openUnread(service)
    let closed = false
    unread.once('close', () => {
      closed = true
    })
    await untilStuck(service)
    clock.advance(CLIENT_STALL_MS - 1)
    expect(await areSlotsFree(service)).toBe(false)
    clock.advance(1)
    expect(await areSlotsFree(service)).toBe(true)
    unread.resume()
    await eventually(() => closed)
  })

  // Proves: feed-4
  test('clients that never read use limited memory during 100,000 events, and others are served', async () => {
    // In a process of its own: the garbage of other tests would be measured as well.
    const child = Bun.spawn([process.execPath, new URL('unread-memory.ts', import.meta.url).pathname], {
      env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' },
      stderr: 'inherit',
    })
    const measured = (await new Response(child.stdout).json()) as Readonly<Record<string, number>>
    const { events, taken, answered, grownMiB = 0, bufferedMiB = 0 } = measured
    console.log(measured)
    expect(taken).toBe(events)
    expect(answered).toBeGreaterThan(10)
    expect(grownMiB).toBeLessThan(bufferedMiB / 2)
  }, 120_000)
})
