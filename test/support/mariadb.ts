/**
 * @module A private MariaDB for tests: Debian's programs with their own data below the temporary folder, on a port of
 * 127.0.0.1 only. Leaves MariaDB servers of the machine alone. Nothing is synced to the disk.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SQL } from 'bun'
import { eventually } from './app.ts'
import { findFreePort } from './free-port.ts'

const [INSTALL, SERVER] = ['mariadb-install-db', '/usr/sbin/mariadbd']

/** As for PostgreSQL: the environment can require the tests, which then fail without it. */
export function isMariaDbAvailable(): boolean {
  if (process.env['CI'] === 'true' || process.env['REQUIRE_POSTFIX'] === 'true') return true
  const isInstalled = Bun.which(INSTALL) !== null && Bun.which(SERVER) !== null
  if (!isInstalled) console.warn('Tests with MariaDB are skipped: the package mariadb-server is not installed')
  return isInstalled
}

export interface MariaDb extends AsyncDisposable {
  readonly port: number
  /** A connection of its user root, who needs no password. */
  readonly sql: SQL
}

export async function startMariaDb(): Promise<MariaDb> {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-mariadb-'))
  const data = join(folder, 'data')
  const common = ['--no-defaults', `--datadir=${data}`, ...(process.getuid?.() === 0 ? ['--user=root'] : [])]
  const made = Bun.spawnSync([
    INSTALL,
    ...common,
    ...['--auth-root-authentication-method=normal', '--skip-test-db', '--skip-name-resolve'],
  ])
  if (made.exitCode !== 0) throw new Error(`MariaDB has no data: ${made.stderr}`)
  const port = await findFreePort()
  const child = Bun.spawn(
    [SERVER, ...common, `--port=${port}`, '--bind-address=127.0.0.1', `--socket=${join(folder, 'socket')}`].concat(
      ...['--innodb-flush-log-at-trx-commit=0', '--skip-name-resolve', `--pid-file=${join(folder, 'pid')}`],
    ),
    { stdin: 'ignore', stdout: 'ignore', stderr: 'pipe' },
  )
  const sql = new SQL(`mysql://root@127.0.0.1:${port}/mysql`, { adapter: 'mysql', max: 1 })
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(`MariaDB ended: ${await child.stderr.text()}`)
    return await sql`SELECT 1`.then(
      () => true,
      () => false,
    )
  })
  return {
    port,
    sql,
    async [Symbol.asyncDispose]() {
      await sql.close({ timeout: 0 })
      child.kill('SIGKILL')
      await child.exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
