/**
 * @module What nodes do when something is wrong with PostgreSQL, the log in it, or a data directory: they wait and say so,
 * go on by themselves, or end with a sentence that says what to change. As processes, against a real PostgreSQL.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { cpSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { SQL } from 'bun'
import { findFreePort } from '#test/support/free-port.ts'
import { findPostgres, isPostgresAvailable, type Postgres, postgresUrl, startPostgres } from '#test/support/postgres.ts'
import { createClient, runTassis, runTassisProcess } from '../process.ts'
import { createDatabase, createSite, type Site, setUpSite, startNode } from './nodes.ts'

// Nodes run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

let server: Postgres
const hasPostgres = isPostgresAvailable()
beforeAll(async () => {
  if (hasPostgres) server = await startPostgres()
})
afterAll(async () => server?.[Symbol.asyncDispose]())

/** What a node says that ends at once. */
async function findRefusal(site: Site, settings: Record<string, string> = {}) {
  const { exitCode, stderr, stdout } = await runTassisProcess(['serve'], { ...site.settings, ...settings })
  return { exitCode, text: `${stderr}${stdout}` }
}

const MAIL = {
  from: 'ada@sender.test',
  to: ['bob@receiver.test'],
  subject: 'Hello',
  text_body: 'Hello',
  send_at: new Date(Date.now() + 30 * 86_400_000).toISOString(),
}

describe.skipIf(!hasPostgres)('a node', () => {
  test('waits for a PostgreSQL that cannot be reached, says so, and goes on by itself', async () => {
    const port = await findFreePort()
    using site = await createSite('a', postgresUrl(port))
    await using node = startNode(site)
    await node.isReady(503, /The node a does not lead: it cannot reach PostgreSQL/)
    await node.says(new RegExp(`PostgreSQL at 127.0.0.1:${port}: `))
    const [alive, other] = await Promise.all([fetch(`${site.url}/healthz`), fetch(`${site.url}/v1/emails`)])
    const { error } = (await other.json()) as { error: { code: string } }
    expect([alive.status, other.status, other.headers.get('retry-after'), error.code]).toEqual([
      200,
      503,
      '5',
      'not_leader',
    ])
    await using _ = await startPostgres({ port })
    await node.isReady()
    expect(await node.stop()).toBe(0)
  })

  test.each([
    [
      'a wrong password',
      (url: string) => url.replace(':secret@', ':wrong@'),
      /password authentication failed.*correct user, password and pg_hba\.conf/,
    ],
    ['a missing database', (url: string) => `${url}x`, /does not exist; create the database, or correct its name/],
  ])('ends with 2 and says what to change for %s', async (_, change, sentence) => {
    using site = await createSite('a', change(server.url))
    const { exitCode, text } = await findRefusal(site)
    expect([exitCode, text]).toEqual([2, expect.stringMatching(sentence)])
    expect(text).not.toContain('wrong')
  })

  test('connects to no host on the network without TLS', async () => {
    let connections = 0
    const listener = createServer((socket) => {
      connections++
      socket.destroy()
    })
    const port = await new Promise<number>((resolve) =>
      listener.listen(0, '127.0.0.1', () => resolve((listener.address() as { port: number }).port)),
    )
    try {
      // An address of this machine, in a form that does not count as such.
      using site = await createSite('a', `postgres://tassis:secret@127.0.0.1:${port},[::ffff:127.0.0.1]:${port}/tassis`)
      const { exitCode, text } = await findRefusal(site)
      expect([exitCode, text]).toEqual([2, expect.stringContaining('without TLS')])
      expect([connections, text.includes('secret')]).toEqual([0, false])
    } finally {
      listener.close()
    }
  })
})

describe.skipIf(!hasPostgres)('a node of a cluster that leads', () => {
  test('answers 503 while PostgreSQL is down, loses nothing, and goes on by itself in the same process', async () => {
    await using own = await startPostgres()
    using site = await createSite('a', own.url)
    const { key } = await setUpSite(site)
    await using node = startNode(site)
    await node.isReady()
    const client = createClient(site.url, key)
    const accepted: string[] = []
    const send = async () => {
      const { status, headers, body } = await client('POST', '/v1/emails', MAIL)
      if (status === 202) accepted.push(body.data.id)
      return [status, headers.get('retry-after')]
    }
    expect(await send()).toEqual([202, null])
    await own.kill()
    const startedAtMs = performance.now()
    expect([await send(), performance.now() - startedAtMs < 5000]).toEqual([[503, '5'], true])
    await node.isReady(503, /it cannot reach PostgreSQL/)
    await own.start()
    await node.isReady()
    expect((await send())[0]).toBe(202)

    // PostgreSQL answers, but its disk is full.
    await own.query(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$`)
    await own.query('CREATE TRIGGER full_disk BEFORE INSERT ON tassis_log FOR EACH ROW EXECUTE FUNCTION full_disk()')
    expect(await send()).toEqual([503, '5'])
    await node.says(/could not extend file; its disk is full: free space there/)
    await own.query('DROP TRIGGER full_disk ON tassis_log')
    // The first time it begins a cluster.
    await node.says(/this node leads now/g, 2)
    await node.isReady()
    expect((await send())[0]).toBe(202)
    for (const id of accepted) expect((await client('GET', `/v1/emails/${id}`)).status).toBe(200)
    expect([accepted.length, await node.stop()]).toEqual([3, 0])
    const checked = await runTassis(['check'], { ...site.settings, TASSIS_LOG_LEVEL: 'warn' })
    expect([checked.exitCode, checked.stderr]).toEqual([0, ''])
  })
})

describe.skipIf(!hasPostgres)('a log and a data directory', () => {
  let database: Awaited<ReturnType<typeof createDatabase>>
  let a: Site
  let b: Site
  let key = ''
  let query: SQL
  /** The tables as they were before the last rows. */
  let dump = ''

  beforeAll(async () => {
    if (!hasPostgres) return
    database = await createDatabase(server)
    query = database.query
    a = await createSite('a', database.url)
    key = (await setUpSite(a)).key
    b = await createSite('b', database.url, a)
    await using leader = startNode(a)
    await leader.isReady()
    await using standby = startNode(b)
    await standby.isReady(503, /a leads\./)
    dump = await dumpTables(database.url)
    expect((await createClient(a.url, key)('POST', '/v1/emails', MAIL)).status).toBe(202)
    expect(await leader.stop()).toBe(0)
    await standby.isReady()
    expect(await standby.stop()).toBe(0)
  })
  afterAll(async () => {
    a?.[Symbol.dispose]()
    b?.[Symbol.dispose]()
    await database?.[Symbol.asyncDispose]()
  })

  /** Runs `use` with a copy of the directory of a stopped node. */
  async function withCopy(of: Site, use: (site: Site) => Promise<void>, name = of.settings['TASSIS_NODE'] ?? '') {
    using copy = await createSite(name, database.url)
    cpSync(of.path, copy.path, { recursive: true })
    await use(copy)
  }

  /** A node with data of its own, which belongs to no cluster. */
  async function createOther(keyOf?: Site): Promise<Site> {
    const site = await createSite('c', database.url, keyOf)
    await setUpSite(site)
    return site
  }

  test.each<[string, () => Promise<Site>, string]>([
    ['no master key', () => createSite('c', database.url), 'copy master.key from the leader'],
    [
      'another master key',
      async () => {
        using other = await createOther()
        return await createSite('c', database.url, other)
      },
      'The master key of this node is not that of its cluster',
    ],
    ['data of no cluster', () => createOther(a), 'has data, but belongs to no cluster'],
    // The other sentence would have its key overwritten.
    ['data of no cluster, with their key', createOther, 'has data, but belongs to no cluster'],
    [
      'the directory of another cluster',
      async () => {
        const site = await createOther()
        await using other = await createDatabase(server)
        await using node = startNode(site, { TASSIS_REPLICATE: other.url })
        await node.isReady()
        await node.stop()
        return site
      },
      'but the log in PostgreSQL is that of',
    ],
  ])('do not fit: %s', async (_, create, sentence) => {
    using site = await create()
    const { exitCode, text } = await findRefusal(site)
    expect([exitCode, text]).toEqual([2, expect.stringContaining(sentence)])
  })

  test('do not fit when another node has the name', async () => {
    await withCopy(b, async (copy) => {
      await using node = startNode(copy)
      await node.isReady()
      using second = await createSite('b', database.url, copy)
      const { exitCode, text } = await findRefusal(second)
      expect([exitCode, text]).toEqual([
        2,
        expect.stringContaining('Another node is named b; give each its own TASSIS_NODE'),
      ])
      await node.stop()
      // What the copy has done must not be in the way of the others.
      cpSync(copy.path, b.path, { recursive: true })
    })
  })

  test('do not fit when the log is newer than the program', async () => {
    const [{ schema }] = await query`SELECT schema FROM tassis_cluster`
    await query`UPDATE tassis_cluster SET schema = '9999_unknown', version = '99.0.0'`
    const { exitCode, text } = await findRefusal(b)
    await query`UPDATE tassis_cluster SET schema = ${schema}`
    expect([exitCode, text]).toEqual([
      2,
      expect.stringContaining('The leader runs Tassis 99.0.0, which is newer than this node'),
    ])
  })

  test('do not fit when the log was restored from an older state, was emptied, or was dropped', async () => {
    const now = await dumpTables(database.url)
    await restoreTables(query, dump)
    const restored = await findRefusal(b)
    await query`DELETE FROM tassis_cluster`
    const emptied = await findRefusal(b)
    await query.unsafe('DROP TABLE tassis_cluster, tassis_log, tassis_nodes, tassis_snapshots, tassis_snapshot_parts')
    const dropped = await findRefusal(b)
    await restoreTables(query, now)
    expect([restored, emptied, dropped].map(({ exitCode }) => exitCode)).toEqual([2, 2, 2])
    expect(restored.text).toContain('PostgreSQL was restored from an older state or lost commits')
    for (const { text } of [emptied, dropped]) expect(text).toContain('The log in PostgreSQL is empty, but')
  })

  test('are not used by a command, which names the node that leads', async () => {
    const commands = [
      ['accounts', 'list'],
      ['send', '--from', 'ada@sender.test', '--to', 'bob@receiver.test'],
    ]
    for (const args of commands) {
      const { exitCode, stderr } = await runTassis(args, b.settings)
      expect([exitCode, stderr]).toEqual([
        2,
        expect.stringContaining('belongs to a cluster; start the service, and run this command on the node that leads'),
      ])
    }
    const alone = await runTassis(['serve'], { ...b.settings, TASSIS_REPLICATE: '' })
    expect([alone.exitCode, alone.stderr]).toEqual([
      2,
      expect.stringContaining('belongs to a cluster, but TASSIS_REPLICATE is not set'),
    ])
  })

  test('that is damaged ends the node that reads it, with the row and what to do', async () => {
    await withCopy(b, async (copy) => {
      await using leader = startNode(b)
      await leader.isReady()
      expect((await createClient(b.url, key)('POST', '/v1/emails', MAIL)).status).toBe(202)
      await leader.stop()
      const [{ seq }] = await query`SELECT max(seq) AS seq FROM tassis_log`
      const flip = () =>
        query`UPDATE tassis_log SET data = set_byte(data, length(data) / 2, get_byte(data, length(data) / 2) # 1) WHERE seq = ${seq}`
      await flip()
      const { exitCode, text } = await findRefusal(copy)
      await flip()
      expect([exitCode, text]).toEqual([
        2,
        expect.stringContaining(`Row ${seq} of the log in PostgreSQL is not as it was written`),
      ])
    })
  })

  test('of which rows are missing is copied again from the leader by itself', async () => {
    await using leader = startNode(b)
    await leader.isReady()
    const client = createClient(b.url, key)
    const { body } = await client('POST', '/v1/emails', MAIL)
    // All rows that the stopped node lacks, as when it was away for a day.
    await query`DELETE FROM tassis_snapshots`
    await query`DELETE FROM tassis_log WHERE seq < (SELECT seq FROM tassis_cluster)`
    await using standby = startNode(a)
    await standby.says(/all data copied from the leader/)
    await standby.isReady(503, /b leads\./)
    await leader.stop()
    await standby.isReady()
    expect((await createClient(a.url, key)('GET', `/v1/emails/${body.data.id}`)).status).toBe(200)
    expect(await standby.stop()).toBe(0)
    rmSync(join(a.path, 'lock'), { force: true })
    expect((await runTassis(['check'], { ...a.settings, TASSIS_LOG_LEVEL: 'warn' })).exitCode).toBe(0)
  })
})

/** SQL that creates the tables with their rows. */
async function dumpTables(url: string): Promise<string> {
  const child = Bun.spawn([join(findPostgres() ?? '', 'pg_dump'), '--inserts', '--no-owner', '-t', 'tassis_*', url], {
    stdout: 'pipe',
  })
  return child.stdout.text()
}

async function restoreTables(query: SQL, dump: string): Promise<void> {
  await query.unsafe(
    'DROP TABLE IF EXISTS tassis_cluster, tassis_log, tassis_nodes, tassis_snapshots, tassis_snapshot_parts',
  )
  // Commands of psql, and a search path that would stay.
  await query.unsafe(dump.replaceAll(/^\\.*$/gm, '').replace("pg_catalog.set_config('search_path', '', false)", '1'))
}
