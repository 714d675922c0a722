import { describe, expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Postgres, PostgresUnreachableError } from '#platform/replication/postgres.ts'
import { eventually } from '#test/support/app.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import {
  giveAway,
  isPostgresAvailable,
  postgresUrl,
  startPostgres,
  startPostgresStandby,
} from '#test/support/postgres.ts'

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

suite('with TLS', () => {
  test('the certificate is verified, and each error says what to change', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tassis-postgres-tls-'))
    chmodSync(folder, 0o711)
    const write = (name: string, content: string, mode = 0o644): string => {
      const path = join(folder, name)
      writeFileSync(path, content, { mode })
      giveAway(path)
      return path
    }
    const authority = createCertificateAuthority()
    const { cert, key } = authority.issue(['127.0.0.1'])
    const other = authority.issue(['db.test'])
    const root = write('ca.pem', authority.pem)
    const certificates = {
      ssl: 'on',
      ssl_cert_file: `'${write('own.pem', cert)}'`,
      ssl_key_file: `'${write('own.key', key, 0o600)}'`,
    }
    await using server = await startPostgres({ settings: certificates })
    const ask = async (query: string): Promise<unknown> => {
      const client = new Postgres(`${server.url}?${query}`)
      try {
        return (await client.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()'))[0]
      } catch (error) {
        return (error as Error).message
      } finally {
        await client.close()
      }
    }
    expect(await ask('sslmode=require')).toEqual({ ssl: true })
    expect(await ask(`sslmode=verify-full&sslrootcert=${root}`)).toEqual({ ssl: true })
    const hint = 'name the file with the authority that signed its certificate: &sslrootcert=/path/to/ca.pem'
    expect(await ask('sslmode=verify-full')).toContain(hint)
    expect(await ask(`sslmode=verify-full&sslrootcert=${root}.gone`)).toContain(hint)
    const foreign = write('foreign.pem', createCertificateAuthority('Other CA').pem)
    expect(await ask(`sslmode=verify-full&sslrootcert=${foreign}`)).toContain(hint)
    write('own.pem', other.cert)
    write('own.key', other.key, 0o600)
    await server.query('SELECT pg_reload_conf()')
    await eventually(async () =>
      String(await ask(`sslmode=verify-full&sslrootcert=${root}`)).includes('name the host in TASSIS_REPLICATE as'),
    )
    await server.configure({ ssl: 'off' })
    expect(await ask('sslmode=require')).toContain('set ssl = on there')
    rmSync(folder, { recursive: true })
  }, 120_000)
})
