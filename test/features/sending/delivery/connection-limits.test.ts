import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { type TotalLimits, WorkerShares } from '#features/sending/delivery/attempt/worker-pool.ts'
import type { ConnectionLimits, ToWorker } from '#features/sending/delivery/protocol.ts'
import type { Connection } from '#features/sending/delivery/worker/connections.ts'
import { SessionPool } from '#features/sending/delivery/worker/deliver.ts'
import { systemClock } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'
import { connectSmtp } from '#protocols/smtp/connect.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { watchWorkers } from './flows.ts'

/** The indexes of the delivery Workers that were told to start messages, by email. */
let started: Map<number, Set<number>>
let watched: Disposable

beforeEach(() => {
  started = new Map()
  let count = 0
  watched = watchWorkers((worker) => {
    const index = count++
    const post = worker.postMessage.bind(worker)
    worker.postMessage = (message: unknown) => {
      for (const one of JSON.parse(String(message)) as ToWorker[]) {
        if (one.type !== 'start') continue
        const workers = started.get(one.job.emailId) ?? new Set()
        started.set(one.job.emailId, workers.add(index))
      }
      post(message)
    }
  })
})
afterEach(() => watched[Symbol.dispose]())

/** A server that counts the sessions that are open at the same time: from its greeting until QUIT. */
async function startCountingSmtp() {
  let open = 0
  const counted = { most: 0, sessions: 0 }
  const server = await startScriptedSmtp({
    greeting: () => {
      counted.sessions++
      counted.most = Math.max(counted.most, ++open)
      return '220 mx.example.test ESMTP'
    },
    body: async () => {
      await systemClock.sleep(3)
      return '250 2.0.0 Queued'
    },
    quit: () => {
      open--
      return '221 2.0.0 Bye'
    },
  })
  return { server, counted }
}

describe('the connections of a site', () => {
  test.each([
    { connections: 1, workers: 1 },
    { connections: 3, workers: 2 },
  ])('are at most $connections over two Workers', async ({ connections, workers }) => {
    const { server, counted } = await startCountingSmtp()
    await using _ = server
    await using flow = await startMailFlow({
      zone: { 'receiver.test': { A: ['127.0.0.1'] } },
      smtpPort: server.port,
      settings: {
        TASSIS_WORKERS: '2',
        // Sessions end often, so that each is followed by another while it closes.
        ...siteLimits({ connections, messages_per_connection: 2 }),
      },
    })
    const sent = await Promise.all(Array.from({ length: 40 }, (_, i) => flow.send({ to: `r${i}@receiver.test` })))
    for (const email of sent) expect((await flow.settled(email)).recipients).toMatchObject([{ status: 'sent' }])
    expect(counted.most).toBeLessThanOrEqual(connections)
    expect(counted.sessions).toBeGreaterThanOrEqual(20)
    expect(new Set([...started.values()].flatMap((indexes) => [...indexes])).size).toBe(workers)
    expectBalanced(flow.service)
  })
})

test('recipients of a large email share a Worker; those of a small one use all', async () => {
  const { server } = await startCountingSmtp()
  await using _ = server
  await using flow = await startMailFlow({
    zone: { 'receiver.test': { A: ['127.0.0.1'] } },
    smtpPort: server.port,
    settings: { TASSIS_WORKERS: '2' },
  })
  const to = Array.from({ length: 8 }, (_, i) => `r${i}@receiver.test`)
  for (const [length, workers] of [
    [100_000, 1],
    [1000, 2],
  ] as const) {
    started.clear()
    const email = await flow.settled(await flow.send({ to, text_body: 'x'.repeat(length) }))
    expect(email.status).toBe('sent')
    expect([...started.values()].map((indexes) => indexes.size)).toEqual([workers])
  }
})

describe('the share of a Worker', () => {
  const limits = (key: string, connections: number): TotalLimits => ({
    key,
    connections,
    messagesPerConnection: 100,
    maxAgeMs: minutes(5),
    idleMs: 5000,
  })
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

  test.each([1, 2, 3, 10, 64, 100])(
    'of %i connections adds up with those of the others to the limit',
    (connections) => {
      for (const count of [1, 2, 3, 8]) {
        const shares = new WorkerShares(count)
        const parts = Array.from({ length: count }, (_, worker) =>
          shares.limitsOf(worker, limits('a.test', connections)),
        )
        expect(sum(parts.map((part) => part.connections))).toBe(connections)
        expect(sum(parts.map((part) => part.bulkConnections))).toBe(
          Math.min(connections, Math.max(1, Math.floor(connections * 0.8))),
        )
      }
    },
  )

  test('decides how many attempts it gets, and one without a share gets none', () => {
    const shares = new WorkerShares(4)
    for (const [connections, most] of [
      [1, 40],
      [2, 20],
      [8, 10],
    ] as const) {
      const key = `${connections}.test`
      const total = limits(key, connections)
      shares.update(total)
      const assigned = Array.from({ length: 40 }, () => shares.assign(key, false))
      for (const worker of new Set(assigned)) {
        expect(shares.limitsOf(worker, total).connections).toBeGreaterThan(0)
        expect(assigned.filter((other) => other === worker)).toHaveLength(most)
      }
    }
  })

  test('is ignored by attempts that share a body: they share a Worker, though never one without a share', () => {
    const shares = new WorkerShares(4)
    for (const connections of [1, 2, 8]) {
      const total = limits(`${connections}.test`, connections)
      shares.update(total)
      for (let body = 0; body < 20; body++) {
        const assigned = new Set(Array.from({ length: 10 }, () => shares.assign(total.key, false, body)))
        expect(assigned.size).toBe(1)
        for (const worker of assigned) expect(shares.limitsOf(worker, total).connections).toBeGreaterThan(0)
      }
    }
  })

  test('is none while the limit is 0, and attempts still get a Worker, which returns them', () => {
    const shares = new WorkerShares(2)
    const total = limits('a.test', 0)
    shares.update(total)
    for (const isBulk of [false, true]) {
      const worker = shares.assign(total.key, isBulk)
      expect(shares.assign(total.key, isBulk, 7)).toBe(worker)
      expect(shares.limitsOf(worker, total)).toMatchObject({ connections: 0, bulkConnections: 0 })
    }
  })

  test('is told again only when the limit changes while attempts are in flight', () => {
    const shares = new WorkerShares(2)
    expect(shares.update(limits('a.test', 4))).toEqual([])
    const worker = shares.assign('a.test', false)
    expect(shares.update(limits('a.test', 4))).toEqual([])
    const changed = shares.update(limits('a.test', 1))
    expect(changed).toHaveLength(2)
    expect(sum(changed.map(([, { connections }]) => connections))).toBe(1)
    shares.leave('a.test', worker)
    expect(shares.update(limits('a.test', 8))).toEqual([])
  })
})

describe('the sessions of a Worker that share one limit', () => {
  const limits: ConnectionLimits = {
    key: 'provider.test',
    connections: 1,
    bulkConnections: 1,
    messagesPerConnection: 100,
    maxAgeMs: minutes(5),
    idleMs: minutes(10),
  }
  const open = async (port: number, clock = systemClock): Promise<Connection> => {
    const result = await connectSmtp({
      host: 'mx.example.test',
      address: '127.0.0.1',
      port,
      ehloName: 'mail.test',
      clock: systemClock,
      tls: 'never',
      verifyCertificate: false,
    })
    if (result.kind !== 'connected') throw new Error('not connected')
    const session = { host: 'mx.example.test', address: '127.0.0.1', localAddress: undefined, tls: 'none' }
    return {
      client: result.client,
      session,
      openedAtMs: clock.monotonicMs(),
      isReused: false,
      user: { trace: undefined },
    }
  }

  test('are reused for their own site; for another site the idle one ends first', async () => {
    await using server = await startScriptedSmtp()
    const pool = new SessionPool(systemClock, limits, () => undefined)
    pool.beginAttempt()
    pool.release('a.test', await open(server.port))
    pool.endAttempt()
    expect(server.session.commands).not.toContain('QUIT')

    pool.beginAttempt()
    const reused = pool.reuse('a.test')
    expect(reused?.isReused).toBe(true)
    if (reused) pool.release('a.test', reused)
    pool.endAttempt()

    pool.beginAttempt()
    expect(pool.hasCapacity(false)).toBe(false)
    expect(pool.reuse('b.test')).toBeUndefined()
    await pool.waitForCapacity()
    expect(server.session.commands).toContain('QUIT')
    pool.endAttempt()
    expect(pool.isEmpty).toBe(true)
  })

  test('end when they are too old, however little they were used', async () => {
    await using server = await startScriptedSmtp()
    const clock = new ManualClock()
    const pool = new SessionPool(clock, limits, () => undefined)
    pool.beginAttempt()
    pool.release('a.test', await open(server.port, clock))
    pool.endAttempt()
    clock.advance(limits.maxAgeMs - 1)
    expect(pool.isEmpty).toBe(false)
    clock.advance(1)
    expect(pool.reuse('a.test')).toBeUndefined()
    await eventually(() => server.session.commands.includes('QUIT'))
    await eventually(() => pool.isEmpty)
  })

  test('above a lowered limit end: idle ones at once, one in use after its message', async () => {
    await using server = await startScriptedSmtp()
    const pool = new SessionPool(systemClock, { ...limits, connections: 2 }, () => undefined)
    const [first, second] = [await open(server.port), await open(server.port)]
    pool.beginAttempt()
    pool.beginAttempt()
    pool.release('a.test', first)
    pool.endAttempt()
    pool.setLimits({ ...limits, connections: 0 })
    await eventually(() => server.sessions.filter(({ commands }) => commands.includes('QUIT')).length === 1)
    pool.release('a.test', second)
    pool.endAttempt()
    await eventually(() => pool.isEmpty)
    expect(server.sessions.every(({ commands }) => commands.includes('QUIT'))).toBe(true)
  })
})
