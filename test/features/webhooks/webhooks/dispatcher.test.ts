/** Delivery of events to webhooks: over TLS, with a clock that the tests move. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { record as recordEvent } from '#features/core/events/record.ts'
import { purgeWebhookHistory } from '#features/webhooks/webhooks/manage/pending.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { getRecord, putWebhook, recordMany, startDispatcher } from '#test/features/webhooks/webhooks/fixture.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { NOW } from '#test/support/email-api.ts'
import type { ReceivedRequest } from '#test/support/https-receiver.ts'
import { type CreatedWebhook, HOOK_HOST, startWebhookService, type WebhookService } from '#test/support/webhooks.ts'

let service: WebhookService
beforeEach(async () => {
  service = await startWebhookService()
})
afterEach(() => service[Symbol.asyncDispose]())

const parseEvent = (request: ReceivedRequest) => JSON.parse(request.text) as Record<string, unknown>
const listAttempts = (requests: readonly ReceivedRequest[]) =>
  requests.map(({ headers }) => Number(headers['x-service-attempt']))
const readTimestamp = (request: ReceivedRequest) =>
  Number(/t=(\d+)/.exec(request.headers['x-service-signature'] ?? '')?.[1])

/** Moves the clock to the next attempt, and no further, because the attempt takes time itself. */
function advanceToNextAttempt({ clock, deliveries }: WebhookService, webhook: CreatedWebhook): void {
  const times = deliveries(webhook).flatMap(({ nextAt }) => nextAt ?? [])
  clock.advance(Math.min(...times) - clock.now())
}

describe('an event', () => {
  // Proves: notify-1, notify-2, notify-3, notify-4, notify-5, notify-11
  test('is delivered once, as a signed POST of its payload', async () => {
    const webhook = await service.addWebhook(['delivered'])
    const email = await service.email()
    await service.tell(email, 'delivered', { smtp_response: '250 2.0.0 taken', ip_address: '192.0.2.1' })
    service.release()
    const [request] = await service.receiver.received(1)
    const t = Math.floor((NOW + seconds(2)) / 1000)
    const mac = createHmac('sha256', webhook.secret)
      .update(`${t}.`)
      .update(request?.body ?? '')
      .digest('hex')
    expect({
      method: request?.method,
      url: request?.url,
      type: request?.headers['content-type'],
      signature: request?.headers['x-service-signature'],
      event: request?.headers['x-service-event'],
      attempt: request?.headers['x-service-attempt'],
    }).toEqual({
      method: 'POST',
      url: '/hook',
      type: 'application/json',
      signature: `t=${t},v1=${mac}`,
      event: 'delivered',
      attempt: '1',
    })
    expect(request && parseEvent(request)).toMatchObject({
      event: 'delivered',
      email_id: email.id,
      smtp_response: '250 2.0.0 taken',
    })
    expect(await service.settled(webhook, 1)).toEqual([
      {
        event: 'delivered',
        seq: 2,
        status: 'delivered',
        attempts: 1,
        nextAt: null,
        statusCode: 200,
        response: '',
        error: null,
      },
    ])
    expect(service.receiver.requests).toHaveLength(1)
    expect(await getRecord(service, webhook)).toMatchObject({
      failure_count: 0,
      last_success_at: new Date(NOW + seconds(2)).toISOString(),
      last_failure_at: null,
    })
  })

  test('that a webhook does not subscribe to, that is older than it, or that is of another account, is not delivered', async () => {
    const early = await service.email()
    await service.tell(early, 'bounced')
    const webhook = await service.addWebhook(['bounced'])
    const email = await service.email()
    await service.tell(email, 'sent')
    await service.tell(email, 'opened')
    await service.tell(email, 'bounced')
    service.release()
    await service.settled(webhook, 1)
    expect(
      service.receiver.requests.map((request) => [parseEvent(request)['event'], parseEvent(request)['email_id']]),
    ).toEqual([['bounced', email.id]])
  })

  // Proves: notify-44
  test('of an email is not delivered before two seconds after its acceptance', async () => {
    const webhook = await service.addWebhook(['sent'])
    await service.tell(await service.email(), 'sent')
    service.clock.advance(1999)
    await service.app.commit.barrier()
    expect({ inFlight: service.webhooks?.inFlight, requests: service.receiver.requests.length }).toEqual({
      inFlight: 0,
      requests: 0,
    })
    service.clock.advance(1)
    expect(await service.settled(webhook, 1)).toHaveLength(1)
  })

  // Proves: notify-44
  test('of an older email is delivered before the first events of new ones, which are held, and not before its own first events', async () => {
    const webhook = await service.addWebhook(['sent', 'delivered', 'opened'])
    const old = await service.email()
    service.release()
    const fresh = await service.email()
    await service.tell(fresh, 'sent')
    await service.tell(fresh, 'delivered')
    await service.tell(old, 'opened')
    const told = () => service.receiver.requests.map((r) => [r.headers['x-service-event'], parseEvent(r)['email_id']])
    await service.settled(webhook, 1)
    expect(told()).toEqual([['opened', old.id]])
    service.release()
    await service.settled(webhook, 3)
    expect(told().slice(1)).toEqual([
      ['sent', fresh.id],
      ['delivered', fresh.id],
    ])
  })

  // Proves: notify-45
  test('of a recipient does not begin while an earlier one is in flight', async () => {
    const webhook = await service.addWebhook(['sent', 'delivered'])
    // A success makes the webhook trusted, so several attempts may be in flight from now on.
    await recordMany(service, 1)
    await service.settled(webhook, 1)
    const gate = Promise.withResolvers<void>()
    service.receiver.answer(async (request) => {
      if (request.headers['x-service-event'] === 'sent') await gate.promise
      return {}
    })
    const [first, other] = [await service.email(), await service.email()]
    await service.tell(first, 'sent')
    await service.tell(first, 'delivered')
    await service.tell(other, 'delivered')
    service.release()
    const told = () =>
      service.receiver.requests.slice(1).map((r) => [r.headers['x-service-event'], parseEvent(r)['email_id']])
    await service.receiver.received(3)
    expect(told().sort()).toEqual([
      ['delivered', other.id],
      ['sent', first.id],
    ])
    gate.resolve()
    await service.settled(webhook, 4)
    expect(told().at(-1)).toEqual(['delivered', first.id])
  })

  test('of a person erased during its attempt has no response in the history, which might repeat their data', async () => {
    await using service = await startWebhookService({ runsTasks: true })
    const webhook = await service.addWebhook(['rejected'])
    const gate = Promise.withResolvers<void>()
    service.receiver.answer(async ({ text }) => {
      await gate.promise
      return { status: 500, body: `cannot take ${text}` }
    })
    await service.api('POST', '/v1/suppressions', { email_address: 'marker@receiver.test' })
    await service.accepted({ to: 'marker@receiver.test' })
    service.release()
    await service.receiver.received(1)
    const begun = await service.api('DELETE', '/v1/gdpr/erase?email=marker@receiver.test')
    await eventually(async () => {
      const { body } = await service.api('GET', `/v1/operations/${at(begun.body, 'operation_id')}`)
      return at(body, 'data', 'status') === 'completed'
    })
    gate.resolve()
    expect(await service.settled(webhook, 1)).toMatchObject([
      { event: 'rejected', status: 'pending', statusCode: 500, response: null, error: 'The response status was 500.' },
    ])
  })

  // Proves: notify-46
  test('has the prefix of the public clients of the interface, or those of compat.header_prefixes', async () => {
    for (const [settings, prefixes] of [
      [{}, ['x-euromail']],
      [{ TASSIS_COMPAT_HEADER_PREFIXES: 'X-Old,X-Older' }, ['x-old', 'x-older']],
    ] as const) {
      await using service = await startWebhookService({ settings })
      await service.addWebhook(['sent'])
      await recordMany(service, 1)
      const headers = (await service.receiver.received(1))[0]?.headers ?? {}
      for (const name of ['signature', 'event', 'attempt'])
        for (const prefix of ['x-euromail', 'x-old', 'x-older'])
          expect(headers[`${prefix}-${name}`]).toBe(
            prefixes.some((sent) => sent === prefix) ? headers[`x-service-${name}`] : undefined,
          )
    }
  })
})

describe('the retry schedule', () => {
  // Proves: notify-4, notify-5, notify-6, notify-11
  test('is 15, 30, 60 and 120 minutes with a few seconds of jitter; after 5 attempts the event is undeliverable', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer({ status: 503, body: 'not now' })
    await recordMany(service, 1)
    const delays: number[] = []
    for (let attempt = 1; attempt <= 4; attempt++) {
      const [delivery] = await eventually(() => {
        const all = service.deliveries(webhook)
        return all[0]?.attempts === attempt && service.webhooks?.inFlight === 0 ? all : undefined
      })
      expect({ ...delivery, nextAt: 0 }).toEqual({
        event: 'sent',
        seq: 2,
        status: 'pending',
        attempts: attempt,
        nextAt: 0,
        statusCode: 503,
        response: 'not now',
        error: 'The response status was 503.',
      })
      const delay = (delivery?.nextAt ?? 0) - service.clock.now()
      delays.push(delay)
      service.clock.advance(delay - 1)
      await service.app.commit.barrier()
      expect(service.receiver.requests).toHaveLength(attempt)
      service.clock.advance(1)
      await service.receiver.received(attempt + 1)
    }
    const steps = [15, 30, 60, 120].map((n) => minutes(n))
    for (const [index, step] of steps.entries()) {
      expect(delays[index]).toBeGreaterThanOrEqual(step)
      expect(delays[index]).toBeLessThanOrEqual(step + seconds(5))
    }
    expect(delays).not.toEqual(steps)
    const [last] = await eventually(() => {
      const all = service.deliveries(webhook)
      return all[0]?.status === 'undeliverable' ? all : undefined
    })
    expect(last).toMatchObject({
      attempts: 5,
      nextAt: null,
      error: 'The response status was 503. That was the last of 5 attempts.',
    })
    service.clock.advance(minutes(600))
    await service.app.commit.barrier()
    expect({ attempts: listAttempts(service.receiver.requests), inFlight: service.webhooks?.inFlight }).toEqual({
      attempts: [1, 2, 3, 4, 5],
      inFlight: 0,
    })
    // Each attempt has a new signature over the same bytes.
    expect(new Set(service.receiver.requests.map(readTimestamp)).size).toBe(5)
    expect(new Set(service.receiver.requests.map(({ text }) => text)).size).toBe(1)
    expect(await getRecord(service, webhook)).toMatchObject({
      is_active: true,
      failure_count: 5,
      last_failure_reason: 'The response status was 503.',
    })
  })

  // Proves: notify-5
  test('ends with a success, which resets the failures', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer('reset')
    await recordMany(service, 1)
    await service.settled(webhook, 1)
    expect(await getRecord(service, webhook)).toMatchObject({ failure_count: 1 })
    service.receiver.answer({ status: 204 })
    advanceToNextAttempt(service, webhook)
    await eventually(() => service.deliveries(webhook)[0]?.status === 'delivered')
    expect(listAttempts(service.receiver.requests)).toEqual([1, 2])
    expect(await getRecord(service, webhook)).toMatchObject({ is_active: true, failure_count: 0 })
  })

  // Proves: notify-5, notify-48
  test('does not apply to a redirect, which is permanent and not followed', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer({ status: 302, headers: { location: 'https://hooks.test/elsewhere' } })
    await recordMany(service, 1)
    expect(await service.settled(webhook, 1)).toMatchObject([
      { status: 'undeliverable', attempts: 1, nextAt: null, statusCode: 302 },
    ])
    expect(service.receiver.requests.map(({ url }) => url)).toEqual(['/hook'])
  })
})

describe('ten consecutive failures, over all events,', () => {
  // Proves: notify-7
  test('deactivate a webhook: no further attempt, pending deliveries become undeliverable, and the record has the reason', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer({ status: 500 })
    await recordMany(service, 12)
    const all = await service.throughRests(async () => {
      const { is_active } = await getRecord(service, webhook)
      if (is_active || service.webhooks?.inFlight !== 0) return undefined
      const deliveries = service.deliveries(webhook)
      // Those that wait end in steps.
      return deliveries.some(({ status }) => status === 'pending') ? undefined : deliveries
    }, minutes(1))
    expect(service.receiver.requests).toHaveLength(10)
    expect(all.filter(({ status, nextAt }) => status !== 'undeliverable' || nextAt !== null)).toEqual([])
    expect(await getRecord(service, webhook)).toMatchObject({
      is_active: false,
      failure_count: 10,
      last_failure_reason: 'deactivated after 10 consecutive failures',
    })
    await recordMany(service, 1)
    service.clock.advance(minutes(300))
    await service.app.commit.barrier()
    expect(service.receiver.requests).toHaveLength(10)
    const audit = (await service.api('GET', '/v1/audit-logs')).body
    expect(at(audit, 'data', 0)).toMatchObject({
      action: 'webhook.deactivated',
      actor_type: 'system',
      resource_id: webhook.id,
    })
  })

  // Proves: notify-7
  test('do not occur when an attempt between them succeeds', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer(() => ({ status: service.receiver.requests.length === 10 ? 200 : 404 }))
    await recordMany(service, 15)
    await service.throughRests(() => service.deliveries(webhook).length === 15, minutes(1))
    await service.settled(webhook, 15)
    // The five attempts after the success were in flight together, so they count as one failure.
    expect(await getRecord(service, webhook)).toMatchObject({ is_active: true, failure_count: 1 })
  })
})

describe('an endpoint that does not respond', () => {
  // Proves: notify-47
  test('has one attempt at a time and delays no other endpoint', async () => {
    await using service = await startWebhookService({ webhookConcurrency: 4 })
    const slow = await service.addWebhook(['sent'], '/slow')
    const good = await service.addWebhook(['sent'], '/good')
    service.receiver.answer(({ url }) => (url === '/slow' ? 'hang' : {}))
    await recordMany(service, 30)
    const requestsTo = (path: string) => service.receiver.requests.filter(({ url }) => url === path)
    await eventually(() => service.deliveries(good).length === 30 && requestsTo('/slow').length > 0)
    expect(requestsTo('/slow')).toHaveLength(1)
    expect(service.deliveries(slow)).toEqual([])
  })

  test('within a second has five attempts at a time, until it responds faster again', async () => {
    const webhook = await service.addWebhook(['sent'])
    const gates = Array.from({ length: 20 }, () => Promise.withResolvers<void>())
    service.receiver.answer(async () => {
      await gates[service.receiver.requests.length - 1]?.promise
      return {}
    })
    /** Records that many events after some ms, and waits until that many are in flight. */
    const after = async (told: number, ms: number, underWay: number): Promise<void> => {
      service.clock.advance(ms)
      gates[told - 1]?.resolve()
      await eventually(() => service.deliveries(webhook).length === told && service.webhooks?.inFlight === underWay)
      await service.receiver.received(told + underWay)
      await service.app.commit.barrier()
      expect(service.webhooks?.inFlight).toBe(underWay)
    }
    await recordMany(service, gates.length)
    await service.receiver.received(1)
    await after(1, seconds(1) + 1, 5)
    await after(2, seconds(1), 10)
    for (const gate of gates) gate.resolve()
    await service.settled(webhook, gates.length)
  })

  // Proves: notify-1, notify-5
  test('times out after 10 seconds, and is retried', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer('hang')
    await recordMany(service, 1)
    await service.receiver.received(1)
    service.clock.advance(seconds(10))
    expect(await service.settled(webhook, 1)).toMatchObject([
      {
        status: 'pending',
        attempts: 1,
        statusCode: null,
        error: `${HOOK_HOST} did not answer within 10 seconds.`,
      },
    ])
    const { body } = await service.api('GET', `/v1/webhooks/${webhook.id}/deliveries`)
    expect(at(body, 'data', 0)).toMatchObject({
      attempted_at: new Date(NOW + seconds(2)).toISOString(),
      duration_ms: 10_000,
    })
    expect(await getRecord(service, webhook)).toMatchObject({
      last_success_at: null,
      last_failure_at: new Date(NOW + seconds(2)).toISOString(),
    })
  })
})

describe('a restart', () => {
  // Proves: notify-16
  test('repeats attempts in flight, but none whose outcome is stored', async () => {
    const webhook = await service.addWebhook(['sent'])
    await recordMany(service, 1)
    await service.settled(webhook, 1)
    const held = await service.email()
    service.receiver.answer((request) => (parseEvent(request)['email_id'] === held.id ? 'hang' : {}))
    await service.tell(held, 'sent')
    await recordMany(service, 3)
    // The three later events have their rows; the cursor is still before the event whose response hangs.
    await eventually(() => service.deliveries(webhook).length === 4)
    // The request of that event may be the last to arrive, because each has a connection of its own.
    await service.receiver.received(5)
    await service.webhooks?.stop(0)
    service.receiver.answer({})
    await using again = startDispatcher(service.app)
    const all = await eventually(() => {
      const rows = service.deliveries(webhook)
      return rows.length >= 5 && again.inFlight === 0 ? rows : undefined
    })
    expect(all.map(({ status }) => status)).toEqual(Array(5).fill('delivered'))
    expect(new Set(all.map(({ seq }) => seq)).size).toBe(5)
    const told = service.receiver.requests.map((request) => parseEvent(request)['email_id'])
    expect(told).toHaveLength(6)
    expect(told.filter((id) => id === held.id)).toHaveLength(2)
  })

  // Proves: notify-6
  test('resumes pending retries', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer({ status: 500 })
    await recordMany(service, 2)
    await service.throughRests(() => service.deliveries(webhook).length === 2)
    await service.webhooks?.stop(0)
    service.receiver.answer({})
    service.clock.advance(minutes(20))
    await using _again = startDispatcher(service.app)
    await eventually(() => service.deliveries(webhook).every(({ status }) => status === 'delivered'))
    expect(listAttempts(service.receiver.requests)).toEqual([1, 1, 2, 2])
  })
})

describe('while the database refuses outcomes', () => {
  /** Acts like a full disk: every write is refused until `end`. */
  function refuseWrites({ app: { commit } }: WebhookService) {
    const write = commit.writeFromReserve.bind(commit)
    let refusals = 0
    commit.writeFromReserve = (() => {
      refusals++
      return Promise.reject(new Error('full'))
    }) as typeof commit.writeFromReserve
    return {
      refusals: () => refusals,
      end() {
        commit.writeFromReserve = write
      },
    }
  }

  test('no further attempt begins, and no outcome is lost', async () => {
    await using service = await startWebhookService({ webhookConcurrency: 1 })
    const webhook = await service.addWebhook(['sent'])
    await recordMany(service, 1)
    await service.settled(webhook, 1)
    for (let i = 0; i < 6; i++) await service.tell(await service.email(), 'sent')
    const full = refuseWrites(service)
    service.release()
    // The second attempt began before the outcome of the first was refused.
    await eventually(() => full.refusals() >= 2)
    expect({ requests: service.receiver.requests.length, inFlight: service.webhooks?.inFlight }).toEqual({
      requests: 3,
      inFlight: 0,
    })
    full.end()
    service.clock.advance(seconds(1))
    await service.settled(webhook, 7)
    expect(service.receiver.requests).toHaveLength(7)
  })

  test('of one event only, nothing else waits, and the next start delivers that event again', async () => {
    const { app, receiver, clock } = service
    const bad = await service.addWebhook(['bounced'], '/bad')
    const good = await service.addWebhook(['sent'], '/good')
    app.db.run(
      "CREATE TRIGGER damaged BEFORE INSERT ON webhook_deliveries WHEN NEW.event = 'bounced' BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    await service.tell(await service.email(), 'bounced')
    service.release()
    await receiver.received(1)
    await recordMany(service, 2)
    expect(
      await eventually(() => (service.deliveries(good).length === 2 ? service.deliveries(good) : undefined)),
    ).toMatchObject([{ status: 'delivered' }, { status: 'delivered' }])
    const stopped = service.webhooks?.stop(0)
    clock.advance(seconds(1))
    await stopped
    app.db.run('DROP TRIGGER damaged')
    await using _again = startDispatcher(app)
    await eventually(() => service.deliveries(bad).length === 1)
    expect(receiver.requests.map(({ url }) => url)).toEqual(['/bad', '/good', '/good', '/bad'])
  })

  test('a due retry of another webhook waits until the database accepts outcomes again', async () => {
    const [a, b] = [await service.addWebhook(['sent'], '/a'), await service.addWebhook(['bounced'], '/b')]
    service.receiver.answer(({ url }) => ({ status: url === '/b' ? 500 : 200 }))
    await service.tell(await service.email(), 'bounced')
    service.release()
    await service.settled(b, 1)
    service.receiver.answer({})
    await service.tell(await service.email(), 'sent')
    const full = refuseWrites(service)
    service.release()
    await eventually(() => full.refusals() >= 1)
    advanceToNextAttempt(service, b)
    full.end()
    service.clock.advance(seconds(1))
    await eventually(() => service.deliveries(b)[0]?.status === 'delivered')
    expect(await service.settled(a, 1)).toMatchObject([{ status: 'delivered' }])
  })
})

describe('within one webhook', () => {
  /** Replays all events so far; the replays stay pending. */
  const replayAll = async ({ api }: WebhookService, { id }: CreatedWebhook, count: number) => {
    const answer = await api('POST', `/v1/webhooks/${id}/replay`, { from_seq: 1 })
    expect(at(answer.body, 'data', 'deliveries')).toBe(count)
  }

  test('new events and replays alternate, and a test comes before the replays', async () => {
    await using service = await startWebhookService({ webhookConcurrency: 1 })
    const webhook = await service.addWebhook(['sent', 'bounced'])
    await recordMany(service, 30)
    await service.settled(webhook, 30)
    const gate = Promise.withResolvers<void>()
    service.receiver.answer(async () => {
      if (service.receiver.requests.length === 31) await gate.promise
      return {}
    })
    await replayAll(service, webhook, 30)
    await service.receiver.received(31)
    for (let i = 0; i < 3; i++) await service.tell(await service.email(), 'bounced')
    service.release()
    await service.api('POST', `/v1/webhooks/${webhook.id}/test`)
    gate.resolve()
    await service.settled(webhook, 64)
    const told = service.receiver.requests.slice(31).map(({ headers }) => headers['x-service-event'])
    expect(told.slice(0, 8)).toEqual(['bounced', 'test', 'bounced', 'sent', 'bounced', 'sent', 'sent', 'sent'])
  })

  test('an event that waits for a slow attempt of its recipient does not delay others', async () => {
    const webhook = await service.addWebhook(['opened', 'sent'])
    const slow = await service.email()
    for (let i = 0; i < 40; i++) await service.tell(slow, 'opened')
    await recordMany(service, 10)
    await service.settled(webhook, 50)
    service.receiver.answer((request) => (parseEvent(request)['email_id'] === slow.id ? 'hang' : {}))
    await replayAll(service, webhook, 50)
    const others = await eventually(() => {
      const told = service.receiver.requests.slice(50).filter((request) => parseEvent(request)['email_id'] !== slow.id)
      return told.length === 10 ? told : undefined
    })
    expect(new Set(others.map((request) => parseEvent(request)['email_id'])).size).toBe(10)
    expect(service.receiver.requests).toHaveLength(61)
  })

  test('an event that is no longer subscribed is not retried', async () => {
    const webhook = await service.addWebhook(['sent', 'bounced'])
    service.receiver.answer({ status: 500 })
    await service.tell(await service.email(), 'bounced')
    service.release()
    await service.settled(webhook, 1)
    await putWebhook(service, webhook, { events: ['sent'] })
    advanceToNextAttempt(service, webhook)
    expect(
      await eventually(() => service.deliveries(webhook).filter(({ nextAt }) => nextAt === null)[0]),
    ).toMatchObject({
      status: 'undeliverable',
      attempts: 1,
      error: 'The webhook no longer subscribes to bounced.',
    })
    expect(service.receiver.requests).toHaveLength(1)
  })

  test('an event that was skipped before its subscription can be replayed immediately', async () => {
    const webhook = await service.addWebhook(['sent'])
    const seq = await service.tell(await service.email(), 'opened')
    await service.app.commit.barrier()
    await putWebhook(service, webhook, { events: ['sent', 'opened'] })
    const answer = await service.api('POST', `/v1/webhooks/${webhook.id}/replay`, { from_seq: seq })
    expect(at(answer.body, 'data', 'deliveries')).toBe(1)
    expect(await service.settled(webhook, 1)).toMatchObject([{ event: 'opened', status: 'delivered' }])
  })

  test('failures with a test between them stay consecutive, and the tenth is the last attempt', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer(({ headers }) => ({ status: headers['x-service-event'] === 'test' ? 200 : 400 }))
    const sent = () => service.receiver.requests.filter(({ headers }) => headers['x-service-event'] === 'sent')
    await recordMany(service, 30)
    await service.throughRests(() => sent().length === 9, minutes(1))
    await service.settled(webhook, 9)
    await service.api('POST', `/v1/webhooks/${webhook.id}/test`)
    await service.settled(webhook, 10)
    await service.throughRests(async () => (await getRecord(service, webhook))['is_active'] === false, minutes(1))
    // The accepted test caused one attempt before the end of the backoff, which does not count.
    expect(sent()).toHaveLength(11)
  })

  test('deliveries that a deactivation ended stay ended after the reactivation, and new ones are retried', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer({ status: 400 })
    await service.tell(await service.email(), 'sent')
    service.release()
    await service.settled(webhook, 1)
    // More deliveries than one transaction ends. They are due long after this test.
    service.app.db.run(
      `INSERT INTO webhook_deliveries (uuid, webhook_id, event, payload, status, attempts, next_at, created_at)
       WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1500)
       SELECT randomblob(16), (SELECT id FROM webhooks), 'sent', '{}', 0, 1, ?, 0 FROM numbers`,
      [service.clock.now() + minutes(119)],
    )
    await recordMany(service, 9)
    await service.throughRests(async () => (await getRecord(service, webhook))['is_active'] === false, minutes(1))
    await eventually(() => service.deliveries(webhook).every(({ status }) => status === 'undeliverable'))
    await putWebhook(service, webhook)
    service.receiver.answer({ status: 500 })
    await recordMany(service, 1)
    const all = await service.settled(webhook, 1511)
    expect(Map.groupBy(all, ({ status }) => status).get('pending')).toMatchObject([{ attempts: 1, statusCode: 500 }])
    expect(all.filter(({ status }) => status === 'undeliverable')).toHaveLength(1510)
  })
})

// Proves: notify-47
test('fifty silent endpoints leave a healthy one of their account all its attempts', async () => {
  await using service = await startWebhookService({ webhookConcurrency: 8 })
  const good = await service.addWebhook()
  await recordMany(service, 1)
  await service.settled(good, 1)
  service.receiver.answer('hang')
  for (let i = 0; i < 50; i++) await service.addWebhook(['opened'], '/slow')
  await service.tell(await service.email(), 'opened')
  service.release()
  await service.receiver.received(1 + 50)
  for (let i = 0; i < 9; i++) await service.tell(await service.email(), 'sent')
  service.release()
  await service.receiver.received(1 + 50 + 8)
  await service.app.commit.barrier()
  expect(service.webhooks?.inFlight).toBe(50 + 8)
})

// Proves: notify-47
test('silent endpoints delay no mail', async () => {
  await using service = await startWebhookService({
    delivers: true,
    settings: { TASSIS_DELIVERY: 'capture' },
    webhookConcurrency: 1,
  })
  const delivered = async () => {
    const { id } = await service.accepted()
    await eventually(async () => (await service.detail(id))['status'] === 'sent')
  }
  service.receiver.answer('hang')
  for (let i = 0; i < 10; i++) await service.addWebhook(['sent'])
  await delivered()
  service.release()
  await service.receiver.received(10)
  await delivered()
  expect(service.webhooks?.inFlight).toBe(10)
})

/** The most attempts that begin in one tick, until so many are in flight. */
async function countMostPerTick(total: number): Promise<number> {
  let most = 0
  for (let before = 0; before < total; ) {
    const now = service.webhooks?.inFlight ?? 0
    most = Math.max(most, now - before)
    before = now
    await yieldToEventLoop()
  }
  return most
}

test('an event for a hundred webhooks begins some attempts per tick, so that other work runs in between', async () => {
  service.receiver.answer('hang')
  for (let i = 0; i < 100; i++) await service.addWebhook(['sent'])
  await service.tell(await service.email(), 'sent')
  await service.app.commit.barrier()
  service.release()
  expect(await countMostPerTick(100)).toBeLessThanOrEqual(64)
})

test('long stretches of unsubscribed events are skipped by one webhook at a time, so that other work runs in between', async () => {
  service.receiver.answer('hang')
  for (let i = 0; i < 20; i++) await service.addWebhook(['complained'])
  const { emailId, recipientId } = await service.email()
  service.release()
  const { app, actor } = service
  await app.commit.write((tx) => {
    const event = { accountId: actor.accountId, at: app.eventTime(), emailId, recipientId } as const
    for (let i = 0; i < 1900; i++) recordEvent(tx, { ...event, type: 'opened' })
    recordEvent(tx, { ...event, type: 'complained' })
  })
  expect(await countMostPerTick(20)).toBeLessThanOrEqual(5)
})

describe('a fast clock that is set back', () => {
  test('holds no event longer than two seconds', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.clock.jumpTo(NOW + minutes(1440))
    const email = await service.email()
    service.clock.jumpTo(NOW)
    await service.tell(email, 'sent')
    await service.app.commit.barrier()
    service.release()
    expect(await service.settled(webhook, 1)).toMatchObject([{ status: 'delivered' }])
  })

  test('leaves no retry waiting beyond the retry schedule', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer({ status: 500 })
    await recordMany(service, 1)
    await service.settled(webhook, 1)
    service.app.db.run('UPDATE webhook_deliveries SET next_at = next_at + ?', [minutes(500_000)])
    service.receiver.answer({})
    // The time of the dispatcher's next check, once a minute.
    service.clock.advance(minutes(1))
    await eventually(() => service.deliveries(webhook)[0]?.status === 'delivered')
  })
})

describe('a change while attempts are in flight', () => {
  /** A webhook that has succeeded, with ten attempts that are held until `release` and then get a 503. */
  const startHeld = async (service: WebhookService) => {
    const webhook = await service.addWebhook(['sent'], '/old')
    await recordMany(service, 1)
    await service.settled(webhook, 1)
    const gate = Promise.withResolvers<void>()
    service.receiver.answer(async ({ url }) => {
      if (url !== '/old') return {}
      await gate.promise
      return { status: 503 }
    })
    await recordMany(service, 10)
    await service.receiver.received(11)
    return { webhook, release: () => gate.resolve() }
  }

  test('of the URL: responses of the old one do not count for the new one', async () => {
    const { webhook, release } = await startHeld(service)
    const url = service.receiver.url(HOOK_HOST, '/new')
    await putWebhook(service, webhook, { url })
    release()
    const all = await service.settled(webhook, 11)
    expect(await getRecord(service, webhook)).toMatchObject({ is_active: true, failure_count: 0, url })
    expect(all.slice(1).map(({ status, attempts }) => [status, attempts])).toEqual(Array(10).fill(['pending', 1]))
    advanceToNextAttempt(service, webhook)
    await eventually(() => service.receiver.requests.some((request) => request.url === '/new'))
  })

  test('to inactive and back: attempts in flight do not deactivate the webhook', async () => {
    const { webhook, release } = await startHeld(service)
    for (const is_active of [false, true]) await putWebhook(service, webhook, { is_active })
    release()
    await service.settled(webhook, 11)
    expect(await getRecord(service, webhook)).toMatchObject({ is_active: true, failure_count: 0 })
  })

  test('to inactive and back: an ended retry stays ended', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer({ status: 503 })
    await recordMany(service, 1)
    await service.settled(webhook, 1)
    const gate = Promise.withResolvers<void>()
    service.receiver.answer(async () => {
      await gate.promise
      return { status: 503 }
    })
    advanceToNextAttempt(service, webhook)
    await service.receiver.received(2)
    service.clock.advance(1)
    for (const is_active of [false, true]) await putWebhook(service, webhook, { is_active })
    gate.resolve()
    expect(await service.settled(webhook, 1)).toMatchObject([{ status: 'undeliverable', attempts: 2, nextAt: null }])
  })

  test('to more events: those after the attempt in flight are delivered', async () => {
    const { webhook, release } = await startHeld(service)
    const email = await service.email()
    await service.tell(email, 'opened')
    await service.app.commit.barrier()
    await putWebhook(service, webhook, { events: ['sent', 'opened'] })
    release()
    const all = await service.throughRests(() => {
      const rows = service.deliveries(webhook)
      return rows.length === 12 && rows
    })
    expect(all.filter(({ event }) => event === 'opened')).toHaveLength(1)
    expect(new Set(all.map(({ seq }) => seq)).size).toBe(12)
  })
})

describe('a read that fails', () => {
  /** Renames a table while `run` runs. */
  const without = async ({ app }: WebhookService, table: string, run: () => void | Promise<void>): Promise<void> => {
    app.db.run(`ALTER TABLE ${table} RENAME TO away`)
    await run()
    app.db.run(`ALTER TABLE away RENAME TO ${table}`)
  }

  test('of an event is repeated, for first attempts and retries', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer({ status: 500 })
    await recordMany(service, 2)
    await service.throughRests(() => service.deliveries(webhook).length === 2)
    service.receiver.answer({})
    await service.tell(await service.email(), 'sent')
    await service.app.commit.barrier()
    await without(service, 'accounts', () => {
      service.release()
      advanceToNextAttempt(service, webhook)
    })
    service.clock.advance(seconds(1))
    const all = await service.throughRests(() => {
      const rows = service.deliveries(webhook)
      return rows.length === 3 && rows.every(({ status }) => status === 'delivered') ? rows : undefined
    })
    expect(all.map(({ attempts }) => attempts).sort()).toEqual([1, 2, 2])
  })

  test('of a corrupt event is repeated like an attempt without counting a failure, and the others are delivered', async () => {
    const webhook = await service.addWebhook(['sent'])
    const seq = await service.tell(await service.email(), 'sent', { reason: 'x' })
    await service.tell(await service.email(), 'sent')
    service.app.db.run("UPDATE events SET data = '{' WHERE seq = ?", [seq])
    service.release()
    await eventually(() => {
      if (service.deliveries(webhook).length === 0) service.clock.advance(seconds(1))
      return service.deliveries(webhook).length > 0
    })
    expect(await service.settled(webhook, 2)).toMatchObject([
      { seq, status: 'pending', statusCode: null, error: 'The event could not be read.' },
      { status: 'delivered' },
    ])
    const ended = await eventually(() => {
      service.clock.advance(minutes(1))
      return service.deliveries(webhook).find(({ status }) => status === 'undeliverable')
    })
    expect(ended.error).toBe('The event could not be read. That was the last of 5 attempts.')
    expect(await getRecord(service, webhook)).toMatchObject({ failure_count: 0 })
    expect(service.receiver.requests).toHaveLength(1)
  })

  test('for a while delays nothing else and reveals no path', async () => {
    await using service = await startWebhookService({ sendsWebhooks: false })
    const { app, clock, receiver } = service
    const webhook = await service.addWebhook(['sent'])
    const seq = await service.tell(await service.email(), 'sent')
    await service.tell(await service.email(), 'sent')
    let isLocked = true
    /** The database, from which the first event cannot be read. */
    const db = new Proxy(app.db, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        if (name !== 'prepare') return value.bind(target)
        return (text: string) => {
          const statement = target.prepare(text)
          if (!text.includes('FROM events JOIN accounts')) return statement
          const get = (...values: number[]) => {
            if (isLocked && values[1] === seq)
              throw Object.assign(new Error("EMFILE: too many open files, open '/data/x'"), { code: 'EMFILE' })
            return statement.get(...values)
          }
          return { get }
        }
      },
    })
    await using _ = startDispatcher({ ...app, db })
    service.release()
    const from = clock.now()
    const rows = await eventually(() => {
      if (clock.now() - from < minutes(3)) clock.advance(seconds(1))
      return clock.now() - from >= minutes(3) && service.deliveries(webhook).length === 2 && service.deliveries(webhook)
    })
    expect(rows.map(({ status, error }) => [status, error])).toContainEqual(['pending', 'The event could not be read.'])
    expect(receiver.requests).toHaveLength(1)
    const longEnoughForAllAttempts = clock.now() + hours(12)
    await eventually(() => {
      clock.advance(minutes(1))
      return clock.now() > longEnoughForAllAttempts
    })
    expect(service.deliveries(webhook).map(({ status }) => status)).toContain('pending')
    isLocked = false
    await eventually(() => {
      clock.advance(seconds(1))
      return service.deliveries(webhook).every(({ status }) => status === 'delivered')
    })
    expect(listAttempts(receiver.requests)).toEqual([1, 3])
  })

  test('of a corrupt event leaves no row of a webhook that was deleted since then', async () => {
    const webhook = await service.addWebhook(['sent'])
    const seq = await service.tell(await service.email(), 'sent', { reason: 'x' })
    service.app.db.run("UPDATE events SET data = '{' WHERE seq = ?", [seq])
    service.release()
    await service.api('DELETE', `/v1/webhooks/${webhook.id}`)
    await purgeWebhookHistory(service.app)
    await eventually(() => {
      if (service.webhooks?.inFlight !== 0) service.clock.advance(seconds(1))
      return service.webhooks?.inFlight === 0
    })
    const left = service.app.db.query('SELECT id FROM webhooks UNION ALL SELECT id FROM webhook_deliveries').all()
    expect(left).toEqual([])
  })

  test('of a webhook is repeated', async () => {
    const webhook = await service.addWebhook(['sent'])
    const { id } = service.app.db.query<{ id: number }, []>('SELECT id FROM webhooks').get() ?? { id: 0 }
    await without(service, 'webhooks', () => service.app.webhookChanged.emit({ webhookId: id }))
    service.clock.advance(seconds(1))
    await recordMany(service, 1)
    expect(await service.settled(webhook, 1)).toMatchObject([{ status: 'delivered' }])
  })
})
