import { describe, expect, test } from 'bun:test'
import { isPostgresAvailable, startPostgres, startPostgresStandby } from '#test/support/postgres.ts'

describe.skipIf(!isPostgresAvailable())('PostgreSQL of a test', () => {
  test('a promoted standby has every commit of its primary, which is killed', async () => {
    await using primary = await startPostgres()
    await using standby = await startPostgresStandby(primary)
    await primary.query('CREATE TABLE t AS SELECT 1 AS n')
    const [synchronous] = await primary.query('SELECT sync_state FROM pg_stat_replication')
    await primary.kill()
    await standby.promote()
    const rows = await standby.query('INSERT INTO t SELECT n + 1 FROM t RETURNING n')
    await using next = await startPostgresStandby(standby, { port: primary.port })
    const copied = await next.query('SELECT n FROM t ORDER BY n')
    expect([synchronous, [...rows], [...copied]]).toEqual([{ sync_state: 'sync' }, [{ n: 2 }], [{ n: 1 }, { n: 2 }]])
  })

  test('a paused server answers when it is resumed, and a stopped one when it is started', async () => {
    await using server = await startPostgres()
    server.pause()
    const asked = server.query('SELECT 1 AS n')
    server.resume()
    const rows = await asked
    await server.stop()
    await server.start()
    expect([[...rows], server.log().includes('database system is shut down')]).toEqual([[{ n: 1 }], true])
  })
})
