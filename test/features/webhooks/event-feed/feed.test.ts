import { describe, expect, test } from 'bun:test'
import type { AccountRecord } from '#features/core/accounts/model.ts'
import { skipNumbers } from '#features/core/events/gaps.ts'
import { EVENT_TYPES, record } from '#features/core/events/record.ts'
import { listBounces } from '#features/drop-in/postmark/bounces.ts'
import { ALL_TYPES, parseTypes, readPage } from '#features/webhooks/event-feed/feed.ts'
import { createPageReader } from '#features/webhooks/event-feed/routes.ts'
import { countReplay } from '#features/webhooks/webhooks/history/replay.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { at, type TestApi } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, EMAIL, expectError, shareEmailApi, UUID } from '#test/support/email-api.ts'
import { nextSeqs, numbers, openStream, page, readAll, recordEvents, seedEvents } from './feed-client.ts'

const service = shareEmailApi(createEmailApi)

describe('the feed', () => {
  // Proves: list-19, feed-1
  test('has every event of the account in one order, each with its position and otherwise as in the details of its email', async () => {
    const { accepted, detail, api, clock } = service
    const first = await accepted()
    clock.advance(1000)
    const later = await accepted({ send_at: new Date(clock.now() + 3_600_000).toISOString() })
    await api('POST', `/v1/emails/${later.id}/cancel`)
    const eventsOf = async (id: string) => at(await detail(id), 'events') as Record<string, unknown>[]
    const [queued] = await eventsOf(first.id)
    const [scheduled, cancelled] = await eventsOf(later.id)
    expect(await page(api)).toEqual({
      data: [
        { seq: 1, type: 'queued', ...queued },
        { seq: 2, type: 'scheduled', ...scheduled },
        { seq: 3, type: 'cancelled', ...cancelled },
      ],
      next_after: 3,
      first_seq: 1,
      last_seq: 3,
    })
  })

  test('notes when an API key first read it', async () => {
    // The service remembers accounts that have read.
    await using unread = await createEmailApi()
    const { api, app } = unread
    const findReadAt = async () => (at((await api('GET', '/v1/account')).body, 'data') as AccountRecord).events_read_at
    expect(await findReadAt()).toBeUndefined()
    await page(api)
    await app.commit.barrier()
    const first = await findReadAt()
    expect(first).toMatch(/Z$/)
    await Bun.sleep(2)
    await page(api)
    expect(await findReadAt()).toBe(first)
  })

  test('has all data of an event', async () => {
    const { app, actor, api } = service
    const data = {
      ip_address: '192.0.2.1',
      remote_mta: 'mx.example.test',
      diagnostic_code: 'smtp; 450 4.2.1 later',
      bounce_type: 'soft',
      bounce_category: 'rate_limited',
      link_url: 'https://example.test/',
      user_agent: 'Agent/1',
      reason: 'later',
      next_retry_at: Date.UTC(2026, 0, 1),
    }
    await recordEvents(app, actor.accountId, ['deferred'], data)
    const { next_retry_at: _, reason, ...fields } = data
    const created = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect((await page(api)).data).toEqual([
      {
        seq: 1,
        id: expect.stringMatching(UUID),
        email_id: null,
        account_id: actor.accountUuid,
        event_type: 'deferred',
        type: 'deferred',
        created_at: created,
        timestamp: created,
        recipient: null,
        ...fields,
        raw_payload: { ...fields, reason, next_retry_at: '2026-01-01T00:00:00.000Z' },
      },
    ])
  })

  test('of an account without events is empty and begins with 1', async () => {
    for (const query of ['', '?after=0'])
      expect(await page(service.api, query)).toEqual({ data: [], next_after: 0, first_seq: 1, last_seq: 0 })
  })

  // Proves: feed-1
  test('is read to its end by repeated requests with next_after, at any limit, and continues from there', async () => {
    const { app, actor, api } = service
    await recordEvents(app, actor.accountId, new Array(23).fill('queued'))
    for (const limit of [1, 7, 23, 24, 1000])
      expect((await readAll(api, 0, limit)).map(({ seq }) => seq)).toEqual(numbers(1, 23))
    expect(await page(api, '?after=23')).toEqual({ data: [], next_after: 23, first_seq: 1, last_seq: 23 })
    await recordEvents(app, actor.accountId, ['sent'])
    expect(await page(api, '?after=23')).toMatchObject({ data: [{ seq: 24, type: 'sent' }], next_after: 24 })
  })

  // Proves: feed-1
  test('has 100 events on a page by default and 1000 at most', async () => {
    const { app, actor, api } = service
    seedEvents(app, actor.accountId, 1500)
    const lengths = async (query: string) => {
      const { data, next_after } = await page(api, query)
      return [data.length, next_after]
    }
    expect(await lengths('')).toEqual([100, 100])
    expect(await lengths('?limit=1000')).toEqual([1000, 1000])
    expect(await lengths('?after=1400&limit=1000')).toEqual([100, 1500])
    for (const limit of ['0', '1001', '-1', '1.5', 'x'])
      expectError(await api('GET', `/v1/events?limit=${limit}`), 422, 'validation_failed', 'limit')
  })

  test('treats an empty after, types or limit as missing', async () => {
    const { app, actor, api } = service
    await recordEvents(app, actor.accountId, ['queued', 'sent', 'delivered'])
    const whole = await page(api, '')
    for (const query of ['?after=', '?types=', '?limit=', '?after=&types=&limit='])
      expect(await page(api, query)).toEqual(whole)
    const { data } = await page(api, '?after=1&types=&limit=1')
    expect(data.map(({ seq }) => seq)).toEqual([2])
  })

  // Proves: feed-1
  test('with types has only those, and next_after skips the others', async () => {
    const { app, actor, api } = service
    await recordEvents(app, actor.accountId, EVENT_TYPES)
    await recordEvents(app, actor.accountId, ['bounced', 'queued'])
    const found = async (query: string) => {
      const { data, next_after } = await page(api, query)
      return { types: data.map(({ seq, type }) => [seq, type]), next_after }
    }
    const count = EVENT_TYPES.length
    const next_after = count + 2
    for (const [index, type] of EVENT_TYPES.slice(1, 6).entries())
      expect(await found(`?types=${type}`)).toEqual({ types: [[index + 2, type]], next_after })
    expect(await found('?types=uncertain,%20bounced,bounced')).toEqual({
      types: [
        [7, 'bounced'],
        [14, 'uncertain'],
        [count + 1, 'bounced'],
      ],
      next_after,
    })
    expect(await found('?types=bounced&limit=1')).toEqual({ types: [[7, 'bounced']], next_after: 7 })
    expect(await found(`?types=bounced&after=${count + 1}`)).toEqual({ types: [], next_after })
  })

  // Proves: feed-2
  test('has received mail with its ids and without an email', async () => {
    const { app, actor, api } = service
    const [inbound, mailbox, message] = [newUuid(), newUuid(), newUuid()].map(formatUuid)
    const dataOf = { inbound_email_id: inbound ?? '' }
    const ids = { mailbox_id: mailbox ?? '', mailbox_message_id: message ?? '' }
    await app.commit.write((tx) => {
      const event = { accountId: actor.accountId, at: app.eventTime() }
      record(tx, { ...event, type: 'queued' })
      record(tx, { ...event, type: 'email.inbound', data: dataOf })
      record(tx, { ...event, type: 'mailbox.message.received', data: ids })
    })
    const { data, next_after } = await page(api, '?types=email.inbound,mailbox.message.received')
    expect(next_after).toBe(3)
    const noEmail = { email_id: null, recipient: null }
    expect(data).toMatchObject([
      { ...noEmail, seq: 2, type: 'email.inbound', event_type: 'email.inbound', raw_payload: dataOf },
      { ...noEmail, seq: 3, type: 'mailbox.message.received', raw_payload: ids },
    ])
  })

  test.each(['opend', ',', 'sent,', 'sent;opened', '__proto__', 'SENT'])(
    'with the type %j is a 422 that lists the known ones',
    async (types) => {
      const answer = await service.api('GET', `/v1/events?types=${encodeURIComponent(types)}`)
      expectError(answer, 422, 'unknown_event', 'types')
      for (const type of EVENT_TYPES) expect(at(answer.body, 'message')).toContain(type)
    },
  )

  test('examines at most 10,000 events per call, so that a rare type costs no more than a frequent one', async () => {
    const { app, actor, api } = service
    seedEvents(app, actor.accountId, 20_500)
    await recordEvents(app, actor.accountId, ['bounced'])
    const first = await page(api, '?types=bounced')
    expect(first).toEqual({ data: [], next_after: 10_000, first_seq: 1, last_seq: 20_501 })
    const second = await page(api, '?types=bounced&after=10000')
    expect(second).toEqual({ data: [], next_after: 20_000, first_seq: 1, last_seq: 20_501 })
    expect(await page(api, '?types=bounced&after=20000')).toMatchObject({ data: [{ seq: 20_501 }], next_after: 20_501 })
  })

  test('has fewer events on a page when they carry much data, and omits none', async () => {
    const { app, actor, api } = service
    seedEvents(app, actor.accountId, 150, 3, JSON.stringify({ link_url: 'x'.repeat(40_000) }))
    const { data, next_after } = await page(api, '?limit=1000')
    expect(data.length).toBeLessThan(75)
    expect(next_after).toBe(data.length)
    expect((await readAll(api, 0)).map(({ seq }) => seq)).toEqual(numbers(1, 150))
  })

  test.each(['-1', '1.5', 'x', '1e3', '9'.repeat(30), '%00', '1%20'])('after %j is a 422', async (after) => {
    expectError(await service.api('GET', `/v1/events?after=${after}`), 422, 'validation_failed', 'after')
  })

  test('after a future event is a 422 that names the last one', async () => {
    const { app, actor, api } = service
    const early = await api('GET', '/v1/events?after=1')
    expectError(early, 422, 'validation_failed', 'after')
    expect(at(early.body, 'message')).toContain('no events yet')
    seedEvents(app, actor.accountId, 41)
    expect((await api('GET', '/v1/events?after=41')).status).toBe(200)
    const answer = await api('GET', '/v1/events?after=42')
    expectError(answer, 422, 'validation_failed', 'after')
    expect(at(answer.body, 'message')).toContain('the last one is 41')
  })

  // Proves: error-11, feed-3
  test('after an event whose successors were deleted is a 410 that states where to continue', async () => {
    const { app, actor, api } = service
    seedEvents(app, actor.accountId, 50)
    app.db.run('DELETE FROM events WHERE seq <= 20')
    for (const after of [0, 1, 19]) {
      const answer = await api('GET', `/v1/events?after=${after}`)
      expect(answer).toMatchObject({
        status: 410,
        body: { code: 'events_not_kept', type: 'invalid_request', next_after: 20, first_seq: 21, last_seq: 50 },
      })
      expect(at(answer.body, 'message')).toContain('after=20.')
    }
    expect(await page(api, '?after=20&limit=1')).toMatchObject({ data: [{ seq: 21 }], next_after: 21, first_seq: 21 })
    expect(await page(api, '?limit=1')).toMatchObject({ data: [{ seq: 21 }], next_after: 21, first_seq: 21 })
    app.db.run('DELETE FROM events')
    expect(await page(api)).toEqual({ data: [], next_after: 50, first_seq: 51, last_seq: 50 })
    expect((await api('GET', '/v1/events?after=49')).status).toBe(410)
  })

  test('is read in batches of at most 100 events, or 1,000 examined ones, each in its own turn', async () => {
    const { app, actor } = service
    seedEvents(app, actor.accountId, 2500)
    let turns = 0
    const read = async (types: string, limit: number) => {
      turns = 0
      const wanted = { after: '0', types: parseTypes(types), limit }
      const { events, nextAfter } = await readPage(app, actor, wanted, async () => void turns++)
      return { events: events.length, nextAfter, turns }
    }
    expect(await read('queued', 250)).toEqual({ events: 250, nextAfter: 250, turns: 3 })
    expect(await read('bounced', 250)).toEqual({ events: 0, nextAfter: 2500, turns: 3 })
  })

  test('reads pages of one account one after another, and pages of different accounts concurrently', async () => {
    const { app, actor } = service
    const other = await service.newAccount()
    for (const { accountId } of [actor, other]) seedEvents(app, accountId, 300)
    const read = createPageReader(app)
    const made: string[] = []
    const ask = async (name: string, of: typeof actor, after: string, limit: number): Promise<void> => {
      await read(of, 'oldest', { after, types: ALL_TYPES, limit }).catch(() => undefined)
      made.push(name)
    }
    await Promise.all([
      ask('large', actor, '0', 300),
      ask('refused', actor, '301', 1),
      ask('small', actor, '0', 1),
      ask('small of another', other, '0', 1),
    ])
    expect(made).toEqual(['small of another', 'large', 'refused', 'small'])
  })

  // Proves: feed-3
  test('has no gap when the next events are deleted during a read: the page ends there, and the next is a 410', async () => {
    const { app, actor } = service
    seedEvents(app, actor.accountId, 500)
    /** Reads a page, and deletes all events before the given one during the given turn. */
    const read = async (after: string | undefined, turn: number, before: number) => {
      let turns = 0
      const { events, nextAfter, firstSeq } = await readPage(
        app,
        actor,
        { after, types: ALL_TYPES, limit: 1000 },
        async () => {
          if (++turns === turn) app.db.run('DELETE FROM events WHERE seq < ?', [before])
        },
      )
      return { seqs: events.map((event) => Number(at(JSON.parse(event), 'seq'))), nextAfter, firstSeq }
    }
    expect(await read('0', 2, 150)).toEqual({ seqs: numbers(1, 100), nextAfter: 100, firstSeq: 1 })
    // Deleted before the first turn: a read without `after` begins at the feed's new start, a read with `after` is
    // rejected.
    expect(await read(undefined, 1, 200)).toEqual({ seqs: numbers(200, 500), nextAfter: 500, firstSeq: 200 })
    await expect(read('199', 1, 300)).rejects.toMatchObject({ status: 410, facts: { next_after: 299, first_seq: 300 } })
  })

  test('of one account has its own numbering and no events of others', async () => {
    const { app, actor, api } = service
    const other = await service.newAccount()
    const theirs = { key: await service.newKey([], other) }
    await recordEvents(app, actor.accountId, ['queued', 'sent'])
    await recordEvents(app, other.accountId, ['bounced'])
    const answer = await api('GET', '/v1/events', undefined, theirs)
    expect(answer.body).toMatchObject({
      data: [{ seq: 1, type: 'bounced', account_id: other.accountUuid }],
      next_after: 1,
    })
    expectError(await api('GET', '/v1/events?after=2', undefined, theirs), 422, 'validation_failed', 'after')
    expect((await page(api)).data.map(({ type }) => type)).toEqual(['queued', 'sent'])
  })

  test('responds only when its events are durable', async () => {
    const { app, actor, api } = service
    await recordEvents(app, actor.accountId, ['queued'])
    const order: string[] = []
    const synced = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<void>()
    const { commit } = app
    const barrier = commit.barrier.bind(commit)
    commit.barrier = async () => {
      asked.resolve()
      await synced.promise
      order.push('on disk')
    }
    const answered = page(api).then(() => order.push('answered'))
    await asked.promise
    // Another request, which waits for no durable event, is served in between.
    expect((await api('GET', '/v1/account')).status).toBe(200)
    synced.resolve()
    await answered
    commit.barrier = barrier
    expect(order).toEqual(['on disk', 'answered'])
  })

  test('is described with both content types and all parameters', async () => {
    const { body } = await service.api('GET', '/openapi.json')
    const operation = at(body, 'paths', '/v1/events', 'get')
    expect(Object.keys(Object(at(operation, 'responses', '200', 'content')))).toEqual([
      'application/json',
      'text/event-stream',
    ])
    const parameters = at(operation, 'parameters') as { name: string; in: string; required: boolean }[]
    expect(parameters.map(({ name, in: place, required }) => `${place} ${name} ${required}`).sort()).toEqual([
      'header last-event-id false',
      'query after false',
      'query before false',
      'query limit false',
      'query order false',
      'query types false',
    ])
  })

  test('answers HEAD like GET, without a body and without a stream', async () => {
    for (const accept of ['application/json', 'text/event-stream']) {
      const answer = await service.api('HEAD', '/v1/events', undefined, { headers: { accept } })
      expect([answer.status, answer.headers.get('content-type'), answer.body]).toEqual([
        200,
        expect.stringMatching(/^application\/json/),
        undefined,
      ])
    }
  })
})

// Proves: feed-1
test('nothing is missing, duplicated or out of order while many send and many read, in pages and streams', async () => {
  const { url, key, api, accepted } = service
  const SENDS = 400
  const senders = numbers(1, 8).map(async () => {
    for (let sent = 0; sent < SENDS / 8; sent++) await accepted(EMAIL)
  })
  let isSending = true
  const sending = Promise.all(senders).then(() => {
    isSending = false
  })
  const poll = async (limit: number): Promise<number[]> => {
    const seqs: number[] = []
    for (let position = 0; ; ) {
      const wasSending = isSending
      const { data, next_after } = await page(api, `?after=${position}&limit=${limit}`)
      seqs.push(...data.map(({ seq }) => seq))
      if (next_after === position && !wasSending) return seqs
      position = next_after
    }
  }
  const stream = async (): Promise<number[]> => {
    using client = await openStream(url, { key })
    return await nextSeqs(client, SENDS)
  }
  /** Disconnects after every few events and returns with the id of the last. */
  const restlessStream = async (): Promise<number[]> => {
    const seqs: number[] = []
    let lastEventId = ''
    while (seqs.length < SENDS) {
      using client = await openStream(url, { key, lastEventId })
      seqs.push(...(await nextSeqs(client, Math.min(17, SENDS - seqs.length))))
      lastEventId = String(seqs.at(-1))
    }
    return seqs
  }
  const [, ...readers] = await Promise.all([
    sending,
    poll(1),
    poll(10),
    poll(1000),
    stream(),
    stream(),
    restlessStream(),
  ])
  for (const seqs of readers) expect(seqs).toEqual(numbers(1, SENDS))
}, 60_000)

/** Skips numbers as a restored copy does; returns the last skipped one. */
const restore = ({ app }: Pick<TestApi, 'app'>): number =>
  app.db.transaction(() => skipNumbers(app.db, app.clock.now())).immediate()

const recordCount = ({ app, actor }: TestApi, count: number): Promise<void> =>
  recordEvents(app, actor.accountId, Array<'insights.generated'>(count).fill('insights.generated'))

const seqsOf = (events: readonly { readonly seq: number }[]): number[] => events.map(({ seq }) => seq)

// Proves: feed-3
test('after a restore, readers at the end of the backup go on, and those beyond it get a 410 with where to go on', async () => {
  const { api, url, key } = service
  await recordCount(service, 3)
  const last = restore(service)
  expect(seqsOf((await page(api, '?after=3')).data)).toEqual([])
  await recordCount(service, 2)
  const all = [1, 2, 3, last + 1, last + 2]
  for (const after of [3, last]) expect(seqsOf((await page(api, `?after=${after}`)).data)).toEqual(all.slice(3))
  expect(seqsOf(await readAll(api, 0, 1))).toEqual(all)
  for (const after of [4, 20_000, last - 1]) {
    const answer = await api('GET', `/v1/events?after=${after}`)
    expect(answer).toMatchObject({
      status: 410,
      body: { code: 'events_not_kept', next_after: last, first_seq: 1, last_seq: last + 2 },
    })
    expect(at(answer.body, 'message')).toContain(`after=${last}`)
  }
  expect((await api('GET', `/v1/events?after=${last + 3}`)).status).toBe(422)
  // Newest first, in pages that meet the gap, and with a place within it.
  const newest: number[] = []
  for (let before: number | null | undefined = last + 3; before; ) {
    const { data, next_before } = await page(api, `?order=newest&limit=2&before=${before}`)
    newest.push(...seqsOf(data))
    before = next_before
  }
  expect(newest).toEqual(all.toReversed())
  expect(seqsOf((await page(api, '?order=newest&before=20000')).data)).toEqual([3, 2, 1])
  using stream = await openStream(url, { key, query: '?after=2' })
  expect([(await stream.next())?.id, (await stream.next())?.id]).toEqual(['3', String(last + 1)])
  expectBalanced({ app: service.app, dataDir: service.dataDir, delivery: undefined })
})

test('the numbers of an account without events begin after those that a restore skipped, also after several', async () => {
  const { api } = service
  const [first, second] = [restore(service), restore(service)]
  expect(second).toBeGreaterThan(first)
  expect(await page(api)).toMatchObject({ data: [], next_after: second, first_seq: second + 1, last_seq: second })
  expect((await api('GET', '/v1/events?after=5')).status).toBe(410)
  await recordCount(service, 1)
  const third = restore(service)
  const fourth = restore(service)
  await recordCount(service, 1)
  expect(seqsOf(await readAll(api, second))).toEqual([second + 1, fourth + 1])
  expect((await api('GET', `/v1/events?after=${third}`)).status).toBe(410)
  expectBalanced({ app: service.app, dataDir: service.dataDir, delivery: undefined })
})

test('lists that search through event numbers skip those of a restore', async () => {
  const { app, actor } = service
  await recordEvents(app, actor.accountId, ['bounced', 'bounced'])
  const last = restore(service)
  await recordEvents(app, actor.accountId, ['bounced'])
  const request = new Request('http://tassis.test/')
  const { Bounces } = await listBounces({ ...actor, app, actor, request, read: () => undefined } as never)
  expect(Bounces.map(({ ID }) => ID)).toEqual([last + 1, 2, 1])
})

test('a replay over the numbers that a restore skipped counts and scans only events', async () => {
  const { app, actor, api } = service
  const created = await api('POST', '/v1/webhooks', { url: 'https://hooks.test/', events: ['bounced'] })
  const id = String(at(created.body, 'data', 'id'))
  await recordEvents(app, actor.accountId, ['bounced', 'bounced'])
  const last = restore(service)
  await recordEvents(app, actor.accountId, ['bounced'])
  const webhook = app.db.query<{ id: number }, []>('SELECT id FROM webhooks').get()?.id ?? 0
  app.db.run('UPDATE webhooks SET cursor_seq = ? WHERE id = ?', [last + 1, webhook])
  const count = await countReplay(app, actor, id, { from_seq: 1 })
  expect(count).toEqual({ deliveries: 3, from_seq: 1, to_seq: last + 1 })
})
