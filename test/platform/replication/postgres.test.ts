import { describe, expect, test } from 'bun:test'
import { Postgres, PostgresUnreachableError } from '#platform/replication/postgres.ts'
import { isPostgresAvailable, postgresUrl, startPostgres, startPostgresStandby } from '#test/support/postgres.ts'

const suite = describe.skipIf(!isPostgresAvailable())

suite('of several hosts', () => {
  test('the newest primary is used, wherever it stands in the list, and although the one before still runs', async () => {
    await using first = await startPostgres()
    await using second = await startPostgresStandby(first)
    const ask = async (...ports: number[]) => {
      const client = new Postgres(postgresUrl(...ports))
      try {
        const [row] = await client.query<{ port: number }>("SELECT current_setting('port')::int AS port")
        return row?.port
      } finally {
        await client.close()
      }
    }
    const { port: one } = first
    const { port: two } = second
    expect([await ask(one, two), await ask(two, one)]).toEqual([one, one])
    await expect(ask(two)).rejects.toThrow(`127.0.0.1:${two}: is a standby of PostgreSQL, which accepts no writes`)
    await second.promote()
    expect([await ask(one, two), await ask(two, one)]).toEqual([two, two])
    // A host that does not answer at all costs some time.
    first.pause()
    expect(await ask(one, two)).toBe(two)
    first.resume()
    await second.kill()
    await first.kill()
    await expect(ask(one, two)).rejects.toThrow(PostgresUnreachableError)
  }, 120_000)
})
