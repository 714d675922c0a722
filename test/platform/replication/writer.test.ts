/** @module The fence of the log, and appends whose answer is lost, against a real PostgreSQL. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { AppError } from '#platform/errors.ts'
import { unpackEntries } from '#platform/replication/entries.ts'
import type { ReplicationLog } from '#platform/replication/log.ts'
import { LogWriter } from '#platform/replication/writer.ts'
import { isPostgresAvailable, type Postgres, startPostgres } from '#test/support/postgres.ts'
import { createLog, type TestLog, toEntry, toRow } from './database.ts'

setDefaultTimeout(120_000)

let server: Postgres
const hasPostgres = isPostgresAvailable()
beforeAll(async () => {
  if (hasPostgres) server = await startPostgres()
})
afterAll(async () => server?.[Symbol.asyncDispose]())

/** The texts of the log, in order. */
const texts = async ({ log }: TestLog): Promise<string[]> =>
  (await log.read(0)).flatMap(({ data }) => unpackEntries(data).map(({ bytes }) => Buffer.from(bytes).toString()))

const head = async ({ log }: TestLog) => {
  const row = await log.readCluster()
  return { epoch: row?.epoch, seq: row?.seq }
}

function openWriter(log: ReplicationLog, epoch: number, seq = 0) {
  const reasons: string[] = []
  const writer = new LogWriter(log, { epoch, seq, crc: 0, onLost: (reason) => reasons.push(reason) })
  return { reasons, add: (text: string | Uint8Array) => writer.add([toEntry(text)]), writer }
}

const refusal = (error: unknown) =>
  error instanceof AppError ? { status: error.status, code: error.code, retryAfter: error.retryAfterSeconds } : error
const REFUSED = { status: 503, code: 'storage_failed', retryAfter: 5 }

/** What an add and the next one are answered by a writer that may not write. */
async function findRefusals(add: (text: string) => Promise<void>) {
  const first = await add('late').catch(refusal)
  return [first, await add('later').catch(refusal)]
}

describe.skipIf(!hasPostgres)('a log in PostgreSQL', () => {
  test('adds nothing for an old epoch, or for a sequence before or behind its end', async () => {
    await using at = await createLog(server)
    const epoch = await at.lead('a')
    const added = [
      await at.log.append(epoch, 0, [toRow('one'), toRow('two')]),
      await at.log.append(epoch, 0, [toRow('again')]),
      await at.log.append(epoch, 1, [toRow('inside')]),
      await at.log.append(epoch, 3, [toRow('behind')]),
      await at.log.append(epoch - 1, 2, [toRow('old')]),
      await at.log.append(epoch + 1, 2, [toRow('new')]),
    ]
    expect([added, await texts(at), await head(at)]).toEqual([
      [true, false, false, false, false, false],
      ['one', 'two'],
      { epoch, seq: 2 },
    ])
  })

  test('has one of several appends that race for one place', async () => {
    await using at = await createLog(server)
    const epoch = await at.lead('a')
    const logs = Array.from({ length: 6 }, () => at.openAt(at.url))
    const added = await Promise.all(logs.map((log, i) => log.append(epoch, 0, [toRow(String(i))])))
    expect([added.filter(Boolean).length, await texts(at)]).toEqual([1, [String(added.indexOf(true))]])
  })

  test('drops the beginning of a group at a takeover, but never a group that the node has not applied', async () => {
    await using at = await createLog(server)
    const epoch = await at.lead('a')
    await at.log.append(epoch, 0, [toRow('whole')])
    await at.log.append(epoch, 1, [toRow('part', false), toRow('part', false)])
    const seen = await at.log.readCluster()
    if (!seen) throw new Error('no cluster')
    const by = { node: 'b', version: '1.0.0', schema: '' }
    const tooEarly = await at.log.takeOver(seen, 0, by, 'silence')
    const stale = await at.log.takeOver({ ...seen, seq: 1 }, 1, by, 'silence')
    expect([tooEarly, stale, await head(at)]).toEqual([undefined, undefined, { epoch, seq: 3 }])
    expect(await at.log.takeOver(seen, 1, by, 'silence')).toBe(epoch + 1)
    const [{ rows }] = await at.sql`SELECT count(*)::int AS rows FROM tassis_log`
    expect([rows, await head(at)]).toEqual([1, { epoch: epoch + 1, seq: 1 }])
  })
})

describe.skipIf(!hasPostgres)('a writer of the log', () => {
  test('stores what was added at once in one append, in order, and a large group in rows of which the last is whole', async () => {
    await using at = await createLog(server)
    const { add, writer } = openWriter(at.log, await at.lead('a'))
    await Promise.all(['one', 'two', 'three'].map(add))
    const large = Array.from({ length: 6 }, () =>
      toEntry(
        crypto
          .getRandomValues(new Uint8Array(1024 * 1024).subarray(0, 65_536))
          .toHex()
          .repeat(8),
      ),
    )
    await writer.add(large)
    const rows = await at.sql`SELECT seq::int, whole FROM tassis_log ORDER BY seq`
    expect([(await texts(at)).slice(0, 3), [...rows], writer.stored.seq]).toEqual([
      ['one', 'two', 'three'],
      [true, false, false, false, false, false, true].map((whole, i) => ({ seq: i + 1, whole })),
      7,
    ])
  })

  test.each<[string, (at: TestLog) => Promise<unknown>, RegExp]>([
    ['another node leads', (at) => at.lead('b'), /^b leads now \(epoch 2, ours was 1\)$/],
    [
      'the tables were emptied',
      ({ sql }) => sql`DELETE FROM tassis_cluster`,
      /^the tables of the log in PostgreSQL were emptied$/,
    ],
    [
      'the tables were dropped',
      ({ sql }) => sql`DROP TABLE tassis_cluster`,
      /relation "tassis_cluster" does not exist/,
    ],
    [
      'the log was restored from an older state',
      ({ sql }) => sql.unsafe('DELETE FROM tassis_log WHERE seq > 1; UPDATE tassis_cluster SET seq = 1'),
      /^the log in PostgreSQL ends at 1 instead of 2: it was restored from an older state/,
    ],
    [
      'its place was taken by rows of the same epoch',
      ({ log }) => log.append(1, 2, [toRow('foreign')]),
      /^the log in PostgreSQL ends at 3 instead of 2/,
    ],
    [
      'its role may not write',
      ({ sql }) =>
        sql`ALTER TABLE tassis_log ADD CHECK (what = '')`.catch(() => sql`ALTER TABLE tassis_log ADD CHECK (seq < 3)`),
      /violates check constraint/,
    ],
  ])('loses and says why when %s', async (_, change, reason) => {
    await using at = await createLog(server)
    const { add, reasons, writer } = openWriter(at.log, await at.lead('a'))
    await add('one')
    await add('two')
    await change(at)
    const before = await at.sql`SELECT count(*)::int FROM tassis_log`
    expect(await findRefusals(add)).toEqual([REFUSED, REFUSED])
    expect([reasons.length, writer.stored.seq]).toEqual([1, 2])
    expect(reasons[0]).toMatch(reason)
    expect(await at.sql`SELECT count(*)::int FROM tassis_log`).toEqual(before)
  })

  test('rejects all that waits when it loses, in the order of the calls', async () => {
    await using at = await createLog(server)
    const { add, reasons } = openWriter(at.log, await at.lead('a'))
    await at.lead('b')
    const settled: string[] = []
    const adds = ['one', 'two'].map((text) => add(text).catch(() => settled.push(text)))
    // The first append is on its way; these wait for it.
    await Promise.resolve()
    await Bun.sleep(0)
    adds.push(...['three', 'four'].map((text) => add(text).catch(() => settled.push(text))))
    await Promise.all(adds)
    expect([settled.toSorted(), reasons.length, await texts(at)]).toEqual([['four', 'one', 'three', 'two'], 1, []])
  })
})

/** A relay to PostgreSQL that can break the connection at a chunk. */
async function startBreakingRelay(at: TestLog) {
  let plan: 'request' | 'answer' | undefined
  let breaks = 0
  let rowsAtBreak: number | undefined
  const sockets = new Set<Socket>()
  const relay = createServer((client) => {
    const upstream = connect(server.port, '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
    }
    const breakOff = () => {
      plan = undefined
      breaks++
      client.destroy()
      upstream.destroy()
    }
    client.on('data', (chunk) => {
      if (plan === 'request') breakOff()
      else upstream.write(chunk)
    })
    upstream.on('data', async (chunk) => {
      if (plan !== 'answer') {
        client.write(chunk)
        return
      }
      plan = undefined
      // What the server answers is committed.
      const [row] = await at.sql`SELECT count(*)::int AS rows FROM tassis_log`
      rowsAtBreak = row.rows
      breakOff()
    })
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  })
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve))
  return {
    log: at.openAt(at.url.replace(/:\d+\//, `:${(relay.address() as AddressInfo).port}/`)),
    breakAt(chunk: 'request' | 'answer') {
      plan = chunk
    },
    breakNow() {
      for (const socket of sockets) socket.destroy()
    },
    get breaks() {
      return breaks
    },
    get rowsAtBreak() {
      return rowsAtBreak
    },
    [Symbol.dispose]() {
      for (const socket of sockets) socket.destroy()
      relay.close()
    },
  }
}

describe.skipIf(!hasPostgres)('an append that is not answered', () => {
  test('is in the log once when only its answer was lost', async () => {
    await using at = await createLog(server)
    using relay = await startBreakingRelay(at)
    const { add, reasons, writer } = openWriter(relay.log, await at.lead('a'))
    // From here on an append is one request and one answer.
    await add('one')
    relay.breakAt('answer')
    await add('two')
    await add('three')
    expect([relay.breaks, relay.rowsAtBreak, await texts(at), writer.stored.seq, reasons]).toEqual([
      1,
      2,
      ['one', 'two', 'three'],
      3,
      [],
    ])
  })

  test('is repeated when it did not arrive', async () => {
    await using at = await createLog(server)
    using relay = await startBreakingRelay(at)
    const { add, reasons, writer } = openWriter(relay.log, await at.lead('a'))
    await add('one')
    relay.breakAt('request')
    await add('two')
    expect([relay.breaks, await texts(at), writer.stored.seq, reasons]).toEqual([1, ['one', 'two'], 2, []])
  })

  test('is in the log once when it still runs in PostgreSQL while it is repeated', async () => {
    await using at = await createLog(server)
    using relay = await startBreakingRelay(at)
    const { add, reasons, writer } = openWriter(relay.log, await at.lead('a'))
    await add('one')
    const released = Promise.withResolvers<void>()
    const locked = Promise.withResolvers<void>()
    const holding = at.sql.begin(async (tx) => {
      await tx`SELECT 1 FROM tassis_cluster FOR UPDATE`
      locked.resolve()
      await released.promise
    })
    await locked.promise
    const added = add('two')
    await waitForLocks(1)
    relay.breakNow()
    // The first append waits in the server, whose client is gone, and the second waits behind it.
    await waitForLocks(2)
    released.resolve()
    await Promise.all([holding, added])
    expect([await texts(at), writer.stored.seq, reasons]).toEqual([['one', 'two'], 2, []])
  })

  test('loses after another node took over meanwhile, whose log it leaves as it is', async () => {
    await using at = await createLog(server)
    using relay = await startBreakingRelay(at)
    const { add, reasons } = openWriter(relay.log, await at.lead('a'))
    await add('one')
    server.pause()
    const added = add('two').catch(refusal)
    relay.breakNow()
    server.resume()
    await at.lead('b')
    const result = await added
    // Either it was there before the takeover, and then it counts, or not at all.
    const stored = (await texts(at)).length === 2
    expect([result, reasons.length]).toEqual(stored ? [undefined, 0] : [REFUSED, 1])
  })

  test('for more than 4 s loses, and all that waits is rejected', async () => {
    await using at = await createLog(server)
    const { add, reasons } = openWriter(at.log, await at.lead('a'))
    await add('one')
    server.pause()
    const startedAtMs = performance.now()
    try {
      const adds = [add('two')]
      await Bun.sleep(1)
      adds.push(add('three'), add('four'))
      const settled = await Promise.allSettled(adds)
      expect(settled.map((one) => (one.status === 'rejected' ? refusal(one.reason) : one))).toEqual([
        REFUSED,
        REFUSED,
        REFUSED,
      ])
      expect(reasons).toEqual([`PostgreSQL at 127.0.0.1:${server.port}: no answer in 4 s`])
      // One more attempt would last 4 s longer.
      expect(performance.now() - startedAtMs).toBeWithin(3900, 7500)
    } finally {
      server.resume()
    }
  })
})

/** Resolves when so many connections wait for a lock. */
async function waitForLocks(count: number): Promise<void> {
  for (;;) {
    const [row] = await server.query("SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    if (row?.['n'] === count) return
    await Bun.sleep(10)
  }
}
