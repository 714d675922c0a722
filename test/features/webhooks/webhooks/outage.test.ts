/** Failures that count against a webhook, and backoffs between them: over TLS, with a clock that the tests move. */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createLog } from '#platform/log/log.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { startHttpsReceiver } from '#test/support/https-receiver.ts'
import { type CreatedWebhook, HOOK_HOST, startWebhookService, type WebhookService } from '#test/support/webhooks.ts'
import { getRecord, putWebhook, recordMany, startDispatcher } from './fixture.ts'

let service: WebhookService
beforeEach(async () => {
  service = await startWebhookService()
})
afterEach(() => service[Symbol.asyncDispose]())

// Hundreds of attempts over TLS take long on a busy machine.
setDefaultTimeout(120_000)

/** Moves through long backoffs. */
const STEP_MS = seconds(10)

const countFailures = ({ app }: WebhookService): number[] =>
  app.db
    .query<{ failures: number }, []>('SELECT failure_count AS failures FROM webhooks ORDER BY id')
    .all()
    .map((row) => row.failures)

/** A webhook that has accepted an event, so that it may use all its attempts. */
async function addTrusted(service: WebhookService): Promise<CreatedWebhook> {
  const webhook = await service.addWebhook(['sent'])
  await recordMany(service, 1)
  await service.settled(webhook, 1)
  return webhook
}

describe('an outage', () => {
  // Proves: notify-8
  test('in which fifty attempts in flight fail is one failure', async () => {
    await using service = await startWebhookService({ webhookConcurrency: 50 })
    const webhook = await addTrusted(service)
    const gate = Promise.withResolvers<void>()
    service.receiver.answer(async () => {
      await gate.promise
      return service.receiver.requests.length % 2 === 0 ? 'reset' : { status: 404 }
    })
    await recordMany(service, 50)
    await service.receiver.received(51)
    gate.resolve()
    await service.settled(webhook, 51)
    expect(await getRecord(service, webhook)).toMatchObject({ is_active: true, failure_count: 1 })
  })

  // Proves: notify-9
  test('of 1.5 seconds counts at most twice; new events are delivered right after it, failed ones by their own retries', async () => {
    const webhook = await addTrusted(service)
    service.receiver.answer({ status: 502 })
    const from = service.clock.now()
    await recordMany(service, 200)
    while (service.clock.now() - from < seconds(2) + 1500) {
      await eventually(() => service.webhooks?.inFlight === 0)
      service.clock.advance(100)
    }
    const during = await getRecord(service, webhook)
    expect(during['is_active']).toBe(true)
    expect(during['failure_count']).toBeLessThanOrEqual(2)
    const before = service.clock.now()
    let firstAt = Number.POSITIVE_INFINITY
    service.receiver.answer(() => {
      firstAt = Math.min(firstAt, service.clock.now())
      return {}
    })
    const all = await service.throughRests(() => {
      const rows = service.deliveries(webhook)
      return rows.length === 201 && rows
    })
    // The backoff after two consecutive failures.
    expect(firstAt - before).toBeLessThanOrEqual(seconds(2) + 500)
    const states = all.map(({ status }) => status)
    expect(states).not.toContain('undeliverable')
    expect(states.filter((status) => status === 'pending').length).toBeLessThan(20)
    expect(await getRecord(service, webhook)).toMatchObject({ is_active: true, failure_count: 0 })
    await service.throughRests(
      () => service.deliveries(webhook).every(({ status }) => status === 'delivered'),
      seconds(10),
    )
  })

  // Proves: notify-7, notify-9
  test('backs off for 1, 3, 9 seconds and up to 30 minutes, so the tenth failure comes more than an hour after the first', async () => {
    const webhook = await service.addWebhook(['sent'])
    const times: number[] = []
    service.receiver.answer(() => {
      times.push(service.clock.now())
      return { status: 503 }
    })
    await recordMany(service, 12)
    await service.throughRests(() => times.length === 6)
    const isActive = async () => (await getRecord(service, webhook))['is_active'] === true
    await service.throughRests(async () => times.length === 10 && !(await isActive()), STEP_MS)
    const rests = times.slice(1).map((time, i) => time - (times[i] ?? 0))
    for (const [i, rest] of [1, 3, 9, 27, 81, 243, 729, 1800, 1800].entries()) {
      expect(rests[i]).toBeGreaterThanOrEqual(seconds(rest))
      expect(rests[i]).toBeLessThan(seconds(rest) + (i < 5 ? seconds(1) : 2 * STEP_MS))
    }
    expect((times[9] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(hours(1))
    expect(service.receiver.requests).toHaveLength(10)
  })

  // Proves: notify-7
  for (const [name, answer] of [
    ['a 503', { status: 503 }],
    ['refused connections', 'reset'],
    ['a 404 of a proxy without a backend', { status: 404 }],
  ] as const)
    test(`of 50 minutes with ${name} deactivates nothing; what was recorded in it arrives in order`, async () => {
      await using service = await startWebhookService({ webhookConcurrency: 1 })
      const webhook = await service.addWebhook(['sent'])
      service.receiver.answer(answer)
      const from = service.clock.now()
      for (let i = 0; i < 25; i++) {
        await service.throughRests(() => service.clock.now() >= from + i * minutes(2), STEP_MS)
        await service.tell(await service.email(), 'sent')
      }
      const tried = service.receiver.requests.length
      service.receiver.answer({})
      await service.throughRests(() => service.receiver.requests.length >= tried + 15, STEP_MS)
      // The pause that ran when the endpoint came back is no longer than the outage.
      expect(service.clock.now() - from).toBeLessThan(minutes(100))
      expect(await getRecord(service, webhook)).toMatchObject({ is_active: true, failure_count: 0 })
      const isRefusal = typeof answer === 'object' && answer.status === 404
      const all = await service.throughRests(() => {
        const rows = service.deliveries(webhook)
        return rows.length === 25 && rows.every(({ status }) => status !== 'pending') && rows
      }, STEP_MS)
      const count = (status: string) => all.filter((row) => row.status === status).length
      // A refusal is final for its event in our own format.
      expect([count('delivered'), count('undeliverable')]).toEqual(isRefusal ? [25 - tried, tried] : [25, 0])
      const seqs = all.filter(({ attempts, status }) => attempts === 1 && status === 'delivered').map(({ seq }) => seq)
      expect(seqs.length).toBeGreaterThanOrEqual(15)
      expect(seqs).toEqual(seqs.toSorted((x, y) => Number(x) - Number(y)))
    })

  // Proves: notify-9
  test('continues after a restart: the backoff does not end early', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer({ status: 503 })
    await recordMany(service, 20)
    await service.throughRests(() => countFailures(service)[0] === 4)
    await service.webhooks?.stop(0)
    for (let restarts = 0; restarts < 10; restarts++) {
      await using again = startDispatcher(service.app)
      await eventually(() => again.inFlight === 0)
      service.clock.advance(500)
    }
    expect({ failures: countFailures(service), requests: service.receiver.requests.length }).toEqual({
      failures: [4],
      requests: 4,
    })
    await using _again = startDispatcher(service.app)
    service.receiver.answer({})
    service.clock.advance(seconds(27))
    await eventually(() => service.deliveries(webhook).length === 20)
    expect(countFailures(service)).toEqual([0])
  })

  test('does not delay a test', async () => {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer({ status: 503 })
    await recordMany(service, 3)
    await service.settled(webhook, 1)
    await service.api('POST', `/v1/webhooks/${webhook.id}/test`)
    await service.receiver.received(2)
    expect(service.receiver.requests.map(({ headers }) => headers['x-service-event'])).toEqual(['sent', 'test'])
  })
})

// Proves: notify-8
test('attempts without a response do not count when attempts begun later succeed, however many of them end in a row', async () => {
  await using service = await startWebhookService({ webhookConcurrency: 40 })
  const webhook = await addTrusted(service)
  const lost = new Set<number>()
  service.receiver.answer(() => {
    // Every tenth of the first 150 gets no response.
    const number = service.receiver.requests.length
    if (number > 150 || number % 10 !== 0) return {}
    lost.add(number)
    return 'hang'
  })
  await recordMany(service, 300)
  await eventually(() => service.deliveries(webhook).length === 301 - lost.size && service.webhooks?.inFlight === 15)
  service.clock.advance(seconds(10))
  const all = await service.settled(webhook, 301)
  expect(all.filter(({ status }) => status === 'pending')).toHaveLength(15)
  expect(await getRecord(service, webhook)).toMatchObject({ is_active: true, failure_count: 0 })
})

test('an endpoint that fails every other time is neither deactivated nor called faster than its backoff', async () => {
  await using service = await startWebhookService({ webhookConcurrency: 1 })
  const webhook = await service.addWebhook(['sent'])
  service.receiver.answer(() => ({ status: service.receiver.requests.length % 2 === 0 ? 500 : 200 }))
  const from = service.clock.now()
  await recordMany(service, 40)
  await service.throughRests(() => service.deliveries(webhook).length === 40)
  expect(await getRecord(service, webhook)).toMatchObject({ is_active: true, failure_count: 1 })
  expect(service.clock.now() - from).toBeGreaterThanOrEqual(seconds(19))
})

// Proves: notify-9
test('a single rejection causes no backoff; ten in a row deactivate a webhook after more than an hour', async () => {
  const webhook = await service.addWebhook(['sent'])
  service.receiver.answer({ status: 301, headers: { location: 'https://hooks.test/' } })
  const from = service.clock.now()
  await recordMany(service, 15)
  await service.receiver.received(2)
  expect(service.clock.now() - from).toBe(seconds(2))
  await service.throughRests(async () => (await getRecord(service, webhook))['is_active'] === false, STEP_MS)
  expect(service.receiver.requests).toHaveLength(10)
  expect(service.clock.now() - from).toBeGreaterThan(hours(1))
})

// Proves: notify-9
test('a 429 is final for its event, and causes a backoff', async () => {
  const webhook = await service.addWebhook(['sent'])
  service.receiver.answer({ status: 429 })
  await recordMany(service, 5)
  expect(await service.settled(webhook, 1)).toMatchObject([{ status: 'undeliverable', statusCode: 429 }])
  await service.app.commit.barrier()
  expect(service.receiver.requests).toHaveLength(1)
  service.receiver.answer({})
  service.clock.advance(seconds(1))
  await eventually(() => service.deliveries(webhook).length === 5)
})

// Proves: notify-53
test.each(['resend', 'postmark'] as const)(
  'in the format of %s an event is repeated after a 429 or 404, and nothing is sent before the Retry-After',
  async (format) => {
    const webhook = await service.addWebhook(['delivered'], '/hook', format)
    const times: number[] = []
    service.receiver.answer(() => {
      times.push(service.clock.now())
      return times.length === 1 ? { status: 429, headers: { 'retry-after': '1500' } } : { status: 404 }
    })
    for (let i = 0; i < 2; i++) await service.tell(await service.email(), 'delivered')
    service.release()
    const [first] = await service.settled(webhook, 1)
    expect(first).toMatchObject({ status: 'pending', attempts: 1, statusCode: 429 })
    expect(first?.nextAt).toBe((times[0] ?? 0) + seconds(1500))
    await service.throughRests(() => times.length === 2, STEP_MS)
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(seconds(1500))
    service.receiver.answer({})
    const all = await service.throughRests(() => {
      const rows = service.deliveries(webhook)
      return rows.length === 2 && rows.every(({ status }) => status === 'delivered') && rows
    }, STEP_MS)
    expect(all.map(({ attempts }) => attempts).toSorted()).toEqual([1, 3])
  },
)

describe('an endpoint that its owner has mended', () => {
  /** A webhook that has failed five times and backs off. */
  async function addFailing(service: WebhookService): Promise<CreatedWebhook> {
    const webhook = await service.addWebhook(['sent'])
    service.receiver.answer({ status: 503 })
    await recordMany(service, 30)
    await service.throughRests(() => countFailures(service)[0] === 5, seconds(5))
    return webhook
  }

  const ACTIONS: readonly [string, (service: WebhookService, webhook: CreatedWebhook) => Promise<unknown>][] = [
    [
      'a test that it accepts',
      async ({ api, clock }, { id }) => {
        // Not more than five in a minute.
        clock.advance(seconds(20))
        await api('POST', `/v1/webhooks/${id}/test`)
      },
    ],
    ['a PUT without a change', (service, webhook) => putWebhook(service, webhook)],
    [
      'a replay',
      async ({ api }, { id }) => {
        const listed = at((await api('GET', `/v1/webhooks/${id}/deliveries?event=sent`)).body, 'data', 0, 'id')
        await api('POST', `/v1/webhooks/${id}/deliveries/${listed}/replay`)
      },
    ],
  ]

  // Proves: notify-54
  test.each(ACTIONS)('gets everything after %s, without waiting for the end of the backoff', async (_, act) => {
    const webhook = await addFailing(service)
    service.receiver.answer({})
    await act(service, webhook)
    await eventually(() => new Set(service.deliveries(webhook).map(({ seq }) => seq)).size >= 30)
    expect(countFailures(service)).toEqual([0])
  })

  // Proves: notify-54
  test.each(ACTIONS)('and still fails is tried once after %s; that does not count', async (name, act) => {
    const webhook = await addFailing(service)
    const isTest = name.includes('test')
    service.receiver.answer(({ headers }) => ({ status: headers['x-service-event'] === 'test' ? 200 : 503 }))
    const requests = service.receiver.requests.length
    for (let i = 1; i <= 4; i++) {
      await act(service, webhook)
      await service.receiver.received(requests + i * (isTest ? 2 : 1))
      await eventually(() => service.webhooks?.inFlight === 0)
    }
    await service.app.commit.barrier()
    expect(countFailures(service)).toEqual([5])
    expect(service.receiver.requests).toHaveLength(requests + 4 * (isTest ? 2 : 1))
  })
})

describe('a failure of the service itself', () => {
  const HOSTS = ['a.test', 'b.test', 'c.test', 'd.test'] as const

  // Proves: notify-10
  test('of its DNS servers for a minute counts against no webhook and uses no retry; it is logged once', async () => {
    const zone: Zone = Object.fromEntries(HOSTS.map((host) => [host, { A: ['127.0.0.1'], ttl: 1 }]))
    await using dns = await startDnsServer(zone)
    await using receiver = await startHttpsReceiver({ names: HOSTS })
    const lines: string[] = []
    await using service = await startWebhookService({
      log: createLog('error', { write: (line) => lines.push(line) }),
      settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_EXTRA_CA_FILE: receiver.caFile },
    })
    for (const host of HOSTS)
      for (let i = 0; i < 3; i++)
        await service.api('POST', '/v1/webhooks', { url: receiver.url(host), events: ['sent'] })
    const silence = Object.fromEntries([...HOSTS, '.'].map((name) => [name, 'SILENCE' as const]))
    const answering = { ...zone }
    Object.assign(zone, silence)
    service.clock.advance(seconds(5))
    await recordMany(service, 3)
    const from = service.clock.now()
    const asked = dns.queries.length
    await eventually(() => {
      service.clock.advance(500)
      // Every webhook has waited for a lookup, however slowly the queries go out.
      return service.clock.now() - from > minutes(1) && dns.queries.length > asked + 12
    })
    expect(countFailures(service)).toEqual(Array(12).fill(0))
    expect(service.app.db.query('SELECT id FROM webhook_deliveries').all()).toEqual([])
    expect(lines.filter((line) => line.includes('webhooks wait'))).toHaveLength(1)
    // Lookups in flight time out by the clock. Those that begin later have their full time.
    await eventually(() => {
      if (service.webhooks?.inFlight === 0) return true
      service.clock.advance(500)
      return false
    })
    delete zone['.']
    Object.assign(zone, answering)
    const delivered = () =>
      service.app.db
        .query<{ n: number }, []>('SELECT COUNT(*) AS n FROM webhook_deliveries WHERE status = 1 AND attempts = 1')
        .get()?.n
    await service.throughRests(() => delivered() === 36)
  })

  test('does not include a name whose own servers are silent while others respond', async () => {
    const zone: Zone = { [HOOK_HOST]: { A: ['127.0.0.1'], ttl: 1 } }
    await using dns = await startDnsServer(zone)
    await using service = await startWebhookService({ settings: { TASSIS_DNS_SERVERS: dns.address } })
    const webhook = await service.addWebhook(['sent'])
    zone[HOOK_HOST] = 'SERVFAIL'
    service.clock.advance(seconds(5))
    await recordMany(service, 1)
    await service.settled(webhook, 1)
    expect(await getRecord(service, webhook)).toMatchObject({
      failure_count: 1,
      last_failure_reason: `The DNS servers could not look up the addresses of ${HOOK_HOST} (SERVFAIL).`,
    })
  })

  // Proves: notify-10
  test('includes hosts that fall silent together, but not a single one', async () => {
    const zone: Zone = Object.fromEntries(HOSTS.map((host) => [host, { A: ['127.0.0.1'] }]))
    await using dns = await startDnsServer(zone)
    await using receiver = await startHttpsReceiver({ names: HOSTS })
    await using service = await startWebhookService({
      settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_EXTRA_CA_FILE: receiver.caFile },
    })
    for (const host of HOSTS) await service.api('POST', '/v1/webhooks', { url: receiver.url(host), events: ['sent'] })
    const rows = () => service.app.db.query('SELECT id FROM webhook_deliveries').all().length
    const isIdle = () => service.webhooks?.inFlight === 0
    await recordMany(service, 1)
    await eventually(() => rows() === 4 && isIdle())
    // One host fails many times, while the others respond in between.
    receiver.answer(({ headers }) => (headers['host']?.startsWith('a.test') ? 'reset' : {}))
    for (let count = 1; count <= 3; count++) {
      await recordMany(service, 1)
      await service.throughRests(() => countFailures(service)[0] === count)
    }
    await service.throughRests(() => rows() === 16)
    expect(countFailures(service)).toEqual([3, 0, 0, 0])
    // Now all.
    receiver.answer('reset')
    const asked = receiver.requests.length
    await recordMany(service, 5)
    // All hosts that are not backing off fail, before one that fails quickly is tried again.
    await eventually(() => new Set(receiver.requests.slice(asked).map(({ headers }) => headers['host'])).size >= 3)
    const from = service.clock.now()
    await service.throughRests(() => service.clock.now() - from > minutes(10), seconds(5))
    // Two hosts failed before the cause could be known.
    const counted = countFailures(service).reduce((sum, count) => sum + count, 0) - 3
    expect(counted).toBeLessThanOrEqual(2)
    receiver.answer({})
    await service.throughRests(() => rows() === 36)
    expect(countFailures(service)).toEqual([0, 0, 0, 0])
    // Hosts without success for a day count as failed themselves.
    receiver.answer('reset')
    const tookAt = service.clock.now()
    await service.throughRests(() => service.clock.now() - tookAt > hours(25), hours(1))
    await recordMany(service, 30)
    await service.throughRests(
      () => service.app.db.query('SELECT id FROM webhooks WHERE off_by_failures = 1').all().length === 4,
      seconds(5),
    )
  })
})
