import { describe, expect, test } from 'bun:test'
import { toEventCode } from '#features/core/events/record.ts'
import { MAX_REPLAYED } from '#features/webhooks/webhooks/history/model.ts'
import { minutes } from '#platform/units.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { expectError, NOW, shareEmailApi } from '#test/support/email-api.ts'
import { startWebhookService } from '#test/support/webhooks.ts'
import { createWebhookApi, type Json, type WebhookApi } from './fixture.ts'

const service = shareEmailApi(createWebhookApi)

const readReplayed = (answer: ApiResponse): unknown => {
  expect(answer.status).toBe(202)
  return at(answer.body, 'data')
}

/** Event and position of a webhook's pending deliveries, in order. */
const listPending = async ({ deliveries }: WebhookApi, id: string): Promise<unknown[]> =>
  (await deliveries(id, '?status=pending&per_page=100')).map(({ event, seq }) => [event, seq]).reverse()

/** Moves the cursor as the dispatcher does once everything so far is delivered. */
const catchUp = ({ app }: WebhookApi): void =>
  void app.db.run(
    'UPDATE webhooks SET cursor_seq = (SELECT last_seq FROM event_sequences WHERE event_sequences.account_id = webhooks.account_id)',
  )

/**
 * An account's events, by position: sent 2, opened 3, bounced 5, sent 6; 1 and 4 are of types that webhooks do not get.
 */
async function recordSomeEvents(service: WebhookApi): Promise<void> {
  const { accepted, rowsOf, tell, clock } = service
  const { emailId } = rowsOf((await accepted()).id)
  clock.advance(minutes(10))
  await tell(['sent', 'opened', 'queued'], { emailId })
  clock.advance(minutes(10))
  await tell(['bounced', 'sent'], { emailId })
  clock.advance(minutes(10))
  catchUp(service)
}

describe('a range', () => {
  // Proves: notify-38
  test('by position creates a delivery of each subscribed event, in order and due now, with an audit row', async () => {
    const { api, addWebhook, audited, clock, deliveries } = service
    const { id } = await addWebhook()
    await recordSomeEvents(service)
    const answer = await api('POST', `/v1/webhooks/${id}/replay`, { from_seq: 1 })
    expect(readReplayed(answer)).toEqual({ deliveries: 3, from_seq: 2, to_seq: 6 })
    expect(await listPending(service, id)).toEqual([
      ['sent', 2],
      ['bounced', 5],
      ['sent', 6],
    ])
    const now = new Date(clock.now()).toISOString()
    expect((await deliveries(id))[0]).toMatchObject({ attempts: 0, next_attempt_at: now, created_at: now })
    expect(await audited(1)).toEqual([['webhook.replayed', id]])
  })

  const time = (afterMinutes: number): string => new Date(NOW + minutes(afterMinutes)).toISOString()
  const RANGES: [range: Json, positions: number[]][] = [
    [{ from_seq: 2, to_seq: 5 }, [2, 5]],
    [{ from_seq: 3, to_seq: 4 }, []],
    [{ from_seq: 6, to_seq: 1000 }, [6]],
    [{ from_seq: 7 }, []],
    [{ from: time(0) }, [2, 5, 6]],
    [{ from: time(10) }, [2, 5, 6]],
    [{ from: time(10.001) }, [5, 6]],
    [{ from: time(0), to: time(10) }, [2]],
    [{ from: time(0), to: time(9.999) }, []],
    [{ from: time(10), to: time(20), to_seq: 5 }, [2, 5]],
    [{ from_seq: 3, to: time(20) }, [5, 6]],
    [{ from: '2026-03-15' }, [2, 5, 6]],
    [{ from: time(21) }, []],
    [{ from_seq: 1, events: ['sent'] }, [2, 6]],
    [{ from_seq: 1, events: ['bounced', 'bounced'] }, [5]],
  ]
  // Proves: notify-38
  test('replays the subscribed events at its positions, in its time and of its types', async () => {
    await recordSomeEvents(service)
    for (const [range, positions] of RANGES) {
      const { id } = await service.addWebhook()
      const replayed = readReplayed(await service.api('POST', `/v1/webhooks/${id}/replay`, range))
      expect<unknown>([range, replayed]).toEqual([
        range,
        { deliveries: positions.length, from_seq: positions[0] ?? null, to_seq: positions.at(-1) ?? null },
      ])
      expect((await listPending(service, id)).map((row) => at(row, 1))).toEqual(positions)
    }
  })

  const WRONG_RANGES: [range: Json, field: string][] = [
    [{}, 'from_seq'],
    [{ to_seq: 5 }, 'from_seq'],
    [{ to: '2026-03-15T12:00:00Z' }, 'from_seq'],
    [{ from_seq: 0 }, 'from_seq'],
    [{ from_seq: 1.5 }, 'from_seq'],
    [{ from_seq: '1' }, 'from_seq'],
    [{ from_seq: 5, to_seq: 4 }, 'to_seq'],
    [{ from: 'yesterday' }, 'from'],
    [{ from: '2026-02-30' }, 'from'],
    [{ from: '2026-03-15', to: '2026-03-14' }, 'to'],
    [{ from_seq: 1, events: [] }, 'events'],
    [{ from_seq: 1, events: ['opened'] }, 'events'],
    [{ from_seq: 1, events: ['test'] }, 'events'],
    [{ from_seq: 1, colour: 'red' }, 'colour'],
  ]
  // Proves: notify-38
  test('that is wrong is a 422 on its field and queues nothing', async () => {
    const { id } = await service.addWebhook()
    await recordSomeEvents(service)
    for (const [range, field] of WRONG_RANGES) {
      const refused = await service.api('POST', `/v1/webhooks/${id}/replay`, range)
      expect([range, refused.status, at(refused.body, 'details', 0, 'field')]).toEqual([range, 422, field])
    }
    expect(await listPending(service, id)).toEqual([])
  })

  test('of an unknown event is a 422 unknown_event, and of an unsubscribed one another 422', async () => {
    const { id } = await service.addWebhook()
    const replay = (name: string) => service.api('POST', `/v1/webhooks/${id}/replay`, { from_seq: 1, events: [name] })
    expectError(await replay('open'), 422, 'unknown_event', 'events')
    expectError(await replay('opened'), 422, 'validation_failed', 'events')
  })

  test('skips events whose first attempt is still to come', async () => {
    const { api, addWebhook, tell, finish } = service
    const { id } = await addWebhook()
    const [told = 0] = await tell(['sent'])
    catchUp(service)
    const [, ahead = 0] = await tell(['sent', 'sent', 'sent'])
    // This event was delivered already, although an earlier one is still in flight.
    finish(id, { event: 'sent', status: 1, seq: ahead })
    await api('POST', `/v1/webhooks/${id}/replay`, { from_seq: 1 })
    expect(await listPending(service, id)).toEqual([
      ['sent', told],
      ['sent', ahead],
    ])
  })

  // Proves: notify-38
  test('holds at most 10,000 events; the 422 states where the first 10,000 end', async () => {
    const { app, api, actor, addWebhook, rowId } = service
    const { id } = await addWebhook()
    // The webhook subscribes to every second event.
    app.db.run(
      `INSERT INTO events (account_id, seq, type, at)
       WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20010)
       SELECT ?, n, iif(n % 2 = 0, ?, ?), ? FROM numbers`,
      [actor.accountId, toEventCode('sent'), toEventCode('queued'), NOW],
    )
    app.db.run('INSERT INTO event_sequences (account_id, last_seq) VALUES (?, 20010)', [actor.accountId])
    catchUp(service)
    const refused = await api('POST', `/v1/webhooks/${id}/replay`, { from_seq: 1 })
    expectError(refused, 422, 'replay_too_large', 'to_seq')
    expect(at(refused.body, 'message')).toContain('to_seq 20000')
    expect(await listPending(service, id)).toEqual([])
    const queued = await api('POST', `/v1/webhooks/${id}/replay`, { from_seq: 1, to_seq: 20_000 })
    expect(readReplayed(queued)).toEqual({ deliveries: MAX_REPLAYED, from_seq: 2, to_seq: 20_000 })
    const rows = app.db
      .query<{ n: number; seqs: number }, [number]>(
        'SELECT COUNT(*) AS n, COUNT(DISTINCT seq) AS seqs FROM webhook_deliveries WHERE webhook_id = ? AND next_at IS NOT NULL',
      )
      .get(rowId(id))
    expect(rows).toEqual({ n: MAX_REPLAYED, seqs: MAX_REPLAYED })
    // The number of pending deliveries has a limit too.
    app.db.run(
      `INSERT INTO webhook_deliveries (uuid, webhook_id, event, status, attempts, next_at, created_at)
       WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 90000)
       SELECT randomblob(16), ?, 'sent', 0, 0, 1, 1 FROM numbers`,
      [rowId(id)],
    )
    const full = await api('POST', `/v1/webhooks/${id}/replay`, { from_seq: 2, to_seq: 2 })
    expectError(full, 409, 'too_many_pending')
  })
})

describe('a delivery', () => {
  // Proves: notify-37
  test('is replayed as a new one of the same event, due now, with an audit row', async () => {
    const { api, addWebhook, finish, deliveries, audited, clock } = service
    const { id } = await addWebhook()
    await recordSomeEvents(service)
    finish(id, { event: 'bounced', status: 2, seq: 5 })
    const [failed] = await deliveries(id)
    const answer = await api('POST', `/v1/webhooks/${id}/deliveries/${failed?.['id']}/replay`)
    const now = new Date(clock.now()).toISOString()
    expect(readReplayed(answer)).toEqual({
      ...failed,
      id: expect.not.stringMatching(String(failed?.['id'])),
      status: 'pending',
      attempts: 0,
      next_attempt_at: now,
      attempted_at: null,
      duration_ms: null,
      status_code: null,
      response: null,
      error: null,
      created_at: now,
    })
    expect(await deliveries(id)).toEqual([readReplayed(answer) as Json, failed ?? {}])
    expect(await audited(1)).toEqual([['webhook_delivery.replayed', failed?.['id']]])
  })

  test('of a test is replayed with the payload that it had', async () => {
    const { app, api, addWebhook, deliveries } = service
    const { id } = await addWebhook()
    await api('POST', `/v1/webhooks/${id}/test`)
    const [test] = await deliveries(id)
    readReplayed(await api('POST', `/v1/webhooks/${id}/deliveries/${test?.['id']}/replay`))
    const payloads = app.db.query<{ payload: string }, []>('SELECT payload FROM webhook_deliveries').all()
    expect(payloads).toHaveLength(2)
    expect(payloads[0]).toEqual(payloads[1] ?? { payload: '' })
  })

  // Proves: notify-37
  test('of an event that is no longer subscribed is a 409, not a delivery that cannot be made', async () => {
    const { api, addWebhook, put, finish, deliveries } = service
    const { id } = await addWebhook()
    await recordSomeEvents(service)
    finish(id, { event: 'bounced', status: 2, seq: 5 })
    const [failed] = await deliveries(id)
    await put(id, { events: ['sent'] })
    const replay = () => api('POST', `/v1/webhooks/${id}/deliveries/${failed?.['id']}/replay`)
    expectError(await replay(), 409, 'event_not_subscribed')
    expect(await deliveries(id)).toEqual([failed ?? {}])
    await put(id, { events: ['sent', 'bounced'] })
    readReplayed(await replay())
  })

  // Proves: notify-37
  test('whose event was deleted, or that is of another webhook, is not replayed', async () => {
    const { api, addWebhook, finish, deliveries } = service
    const [id, other] = [(await addWebhook()).id, (await addWebhook()).id]
    finish(id, { event: 'sent', status: 1, seq: 4711 })
    const [row] = await deliveries(id)
    expectError(await api('POST', `/v1/webhooks/${id}/deliveries/${row?.['id']}/replay`), 409, 'event_gone')
    const foreign = await api('POST', `/v1/webhooks/${other}/deliveries/${row?.['id']}/replay`)
    expectError(foreign, 404, 'delivery_not_found')
  })
})

// Proves: notify-37, notify-38
test('nothing is replayed to an inactive webhook: 409', async () => {
  const { api, addWebhook, put, finish, deliveries } = service
  const { id } = await addWebhook()
  await recordSomeEvents(service)
  finish(id, { event: 'sent', status: 1, seq: 2 })
  const [row] = await deliveries(id)
  await put(id, { is_active: false })
  for (const [path, body] of [
    ['replay', { from_seq: 1 }],
    [`deliveries/${row?.['id']}/replay`, undefined],
  ] as const) {
    const refused = await api('POST', `/v1/webhooks/${id}/${path}`, body)
    expectError(refused, 409, 'webhook_inactive')
    expect(at(refused.body, 'message')).toEndWith('activate it first with PUT, with url, events and is_active true.')
  }
  expect(await deliveries(id)).toHaveLength(1)
})

// Proves: notify-37
test('a replay sends the same bytes, as a first attempt with its own retry schedule', async () => {
  await using service = await startWebhookService()
  const { api, clock, receiver, addWebhook, email, tell, release, settled, deliveries, throughRests } = service
  const hook = await addWebhook()
  const sent = await email()
  release()
  const seq = await tell(sent, 'sent')
  const [first] = await settled(hook, 1)
  expect(first).toMatchObject({ status: 'delivered', seq })
  const delivery = at((await api('GET', `/v1/webhooks/${hook.id}/deliveries`)).body, 'data', 0, 'id')
  receiver.answer({ status: 500 })
  clock.advance(minutes(1))
  const now = clock.now()
  readReplayed(await api('POST', `/v1/webhooks/${hook.id}/deliveries/${delivery}/replay`))
  readReplayed(await api('POST', `/v1/webhooks/${hook.id}/replay`, { from_seq: seq }))
  const rows = await throughRests(() => {
    const all = deliveries(hook)
    return all.length === 3 && all.every(({ attempts }) => attempts === 1) && all
  })
  expect(rows.map(({ status, attempts }) => [status, attempts])).toEqual([
    ['delivered', 1],
    ['pending', 1],
    ['pending', 1],
  ])
  for (const { nextAt } of rows.slice(1)) expect(nextAt).toBeGreaterThanOrEqual(now + minutes(15))
  expect(receiver.requests.map(({ headers }) => headers['x-service-attempt'])).toEqual(['1', '1', '1'])
  expect(new Set(receiver.requests.map(({ text }) => text)).size).toBe(1)
  expect(new Set(receiver.requests.map(({ headers }) => headers['x-service-signature'])).size).toBeGreaterThan(1)
})
