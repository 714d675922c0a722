/**
 * @module A private PostgreSQL for tests: Debian's binaries with their own configuration and data below the temporary
 * folder, on a port of 127.0.0.1 only, and streaming standbys of it. Leaves PostgreSQL servers of the machine alone.
 *
 * Nothing is synced to the disk: these servers are killed, but the machine never loses power.
 */

import { chmodSync, chownSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SQL } from 'bun'
import { findFreePort } from '#test/support/free-port.ts'

const USER = 'tassis'
const PASSWORD = 'secret'
/** It exists in every server. */
const DATABASE = 'postgres'

const READY_WITHIN_MS = 60_000
const START_TRIES = 3
const INSTALLED = '/usr/lib/postgresql'

export interface PostgresOptions {
  /** Default: a free one. */
  readonly port?: number
  /** Settings of postgresql.conf that replace those made here. */
  readonly settings?: Readonly<Record<string, string>>
}

/** Returns the folder with the programs of the newest installed version; undefined if there is none. */
export function findPostgres(): string | undefined {
  if (!existsSync(INSTALLED)) return undefined
  const versions = [...new Bun.Glob('*/bin/initdb').scanSync(INSTALLED)].map((path) => Number.parseInt(path, 10))
  return versions.length > 0 ? join(INSTALLED, String(Math.max(...versions)), 'bin') : undefined
}

/**
 * Whether tests with PostgreSQL can run. Logs the reason once if not, unless the environment requires the tests (`CI` or
 * `REQUIRE_POSTFIX` is `true`): then they run, and fail without it.
 */
export function isPostgresAvailable(): boolean {
  if (process.env['CI'] === 'true' || process.env['REQUIRE_POSTFIX'] === 'true') return true
  const isInstalled = findPostgres() !== undefined
  if (!isInstalled) console.warn('Tests with PostgreSQL are skipped: the package postgresql is not installed')
  return isInstalled
}

/** The address of the database behind these ports of 127.0.0.1, as TASSIS_REPLICATE names it. */
export const postgresUrl = (...ports: readonly number[]): string =>
  `postgres://${USER}:${PASSWORD}@${ports.map((port) => `127.0.0.1:${port}`).join(',')}/${DATABASE}`

/** Starts a server with an empty database, and resolves when it is ready. Throws with its log when it does not start. */
export const startPostgres = (options: PostgresOptions = {}): Promise<Postgres> =>
  Postgres.create(options, async (data, folder) => {
    const passwordFile = join(folder, 'password')
    writeFileSync(passwordFile, PASSWORD)
    giveAway(passwordFile)
    // The superuser is that of the test. Both commands and replication ask for the password.
    await run(
      folder,
      'initdb',
      ['-D', data, '-U', USER, '--pwfile', passwordFile, '-A', 'scram-sha-256', '-E', 'UTF8'].concat(
        '--no-sync',
        '--locale=C',
      ),
    )
  })

/**
 * Starts a standby that follows `primary`, and resolves when it does.
 * @param options.isSynchronous whether commits of the primary wait for it from now on; default true
 */
export async function startPostgresStandby(
  primary: Postgres,
  options: PostgresOptions & { readonly isSynchronous?: boolean } = {},
): Promise<Postgres> {
  const standby = await Postgres.create(options, (data, folder) =>
    run(folder, 'pg_basebackup', [
      '-D',
      data,
      '-R',
      '-X',
      'stream',
      '-c',
      'fast',
      '--no-sync',
      '-d',
      `host=127.0.0.1 port=${primary.port} user=${USER} password=${PASSWORD}`,
    ]),
  )
  await until(async () => {
    const [row] = await primary.query("SELECT count(*)::int AS n FROM pg_stat_replication WHERE state = 'streaming'")
    return Number(row?.['n']) > 0
  }, 'the standby does not follow')
  if (options.isSynchronous ?? true) await primary.configure({ synchronous_standby_names: "'*'" })
  return standby
}

/** A server, which may be stopped and started again on its data and port. */
export class Postgres {
  readonly port: number
  readonly #folder: string
  #settings: Readonly<Record<string, string>>
  #process: Bun.Subprocess | undefined

  private constructor(folder: string, port: number, settings: Readonly<Record<string, string>>) {
    this.#folder = folder
    this.port = port
    this.#settings = settings
  }

  /** Another process may take the free port first: then another one is tried. */
  static async create(
    options: PostgresOptions,
    fill: (data: string, folder: string) => Promise<void>,
  ): Promise<Postgres> {
    const folder = mkdtempSync(join(tmpdir(), 'tassis-postgres-'))
    chmodSync(folder, 0o700)
    giveAway(folder)
    try {
      await fill(join(folder, 'data'), folder)
      for (let tries = 1; ; tries++) {
        const server = new Postgres(folder, options.port ?? (await findFreePort()), options.settings ?? {})
        const error = await server.start().catch((problem: unknown) => problem)
        if (error === undefined) return server
        await server.kill()
        if (options.port !== undefined || tries === START_TRIES) throw error
      }
    } catch (error) {
      rmSync(folder, { recursive: true, force: true })
      throw error
    }
  }

  /** The address of its database, as TASSIS_REPLICATE names it. */
  get url(): string {
    return postgresUrl(this.port)
  }

  /** The process whose children are all other processes of the server; undefined while it is stopped. */
  get pid(): number | undefined {
    return this.#isRunning() ? this.#process?.pid : undefined
  }

  /** Its log. */
  log(): string {
    return readFileSync(join(this.#folder, 'log'), 'utf8')
  }

  /** Starts it, also after a stop or kill; resolves when it answers. */
  async start(): Promise<void> {
    this.#writeSettings()
    const log = Bun.file(join(this.#folder, 'log'))
    const command = [
      'postgres',
      '-D',
      join(this.#folder, 'data'),
      '-c',
      `config_file=${join(this.#folder, 'postgresql.conf')}`,
    ]
    this.#process = Bun.spawn(asUser(command), { cwd: this.#folder, stdin: 'ignore', stdout: 'ignore', stderr: log })
    await until(async () => {
      if (!this.#isRunning()) throw new Error(`PostgreSQL did not start.\n${this.log()}`)
      return await this.query('SELECT 1').then(
        () => true,
        () => false,
      )
    }, 'PostgreSQL did not answer')
  }

  /** Changes settings of the running server. */
  async configure(settings: Readonly<Record<string, string>>): Promise<void> {
    this.#settings = { ...this.#settings, ...settings }
    this.#writeSettings()
    await this.query('SELECT pg_reload_conf()')
    // The server reads its files soon after that.
    await until(
      async () => {
        const shown = await Promise.all(Object.keys(settings).map((name) => this.query(`SHOW ${name}`)))
        return Object.entries(settings).every(([name, value], i) => shown[i]?.[0]?.[name] === value.replaceAll("'", ''))
      },
      `the settings were not taken: ${JSON.stringify(settings)}`,
    )
  }

  /** Runs a statement over a connection of its own; resolves with the rows. */
  async query(statement: string): Promise<Record<string, unknown>[]> {
    const sql = new SQL(this.url, { max: 1, connectionTimeout: 5 })
    try {
      return (await sql.unsafe(statement)) as Record<string, unknown>[]
    } finally {
      await sql.close({ timeout: 0 })
    }
  }

  /** Kills it with all its processes, as when its machine dies. */
  async kill(): Promise<void> {
    const children = this.#signal('SIGKILL')
    await this.#process?.exited
    await until(async () => !children.some((pid) => existsSync(`/proc/${pid}/exe`)), 'the processes did not end')
  }

  /** Stops it: `fast` ends its connections, `immediate` leaves the rest to the recovery at the next start. */
  async stop(mode: 'fast' | 'immediate' = 'fast'): Promise<void> {
    this.#process?.kill(mode === 'fast' ? 'SIGINT' : 'SIGQUIT')
    await this.#process?.exited
  }

  /** Stops all its processes until `resume`: it keeps its connections and answers nothing. */
  pause(): void {
    this.#signal('SIGSTOP')
  }

  resume(): void {
    this.#signal('SIGCONT')
  }

  /** Makes a standby the primary, which waits for no standby until one is started; resolves when it takes writes. */
  async promote(): Promise<void> {
    await this.query('SELECT pg_promote(true, 60)')
    await until(
      async () => (await this.query('SELECT pg_is_in_recovery() AS follows'))[0]?.['follows'] === false,
      'no promotion',
    )
  }

  /** Kills it and removes its data. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #isRunning(): boolean {
    return this.#process !== undefined && this.#process.exitCode === null && this.#process.signalCode === null
  }

  /** Signals its processes, each of which has a process group of its own. Returns the children. */
  #signal(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): number[] {
    const { pid } = this
    if (pid === undefined) return []
    // Afterwards it starts no others.
    if (signal !== 'SIGCONT') process.kill(pid, 'SIGSTOP')
    const children = listChildren(pid)
    for (const child of [...children, pid]) {
      try {
        process.kill(child, signal)
      } catch {
        // It has ended.
      }
    }
    return children
  }

  #writeSettings(): void {
    const settings = {
      port: String(this.port),
      listen_addresses: "'127.0.0.1'",
      unix_socket_directories: "''",
      shared_buffers: '16MB',
      max_connections: '60',
      max_wal_size: '256MB',
      max_wal_senders: '6',
      wal_keep_size: '64MB',
      fsync: 'off',
      full_page_writes: 'off',
      synchronous_commit: 'on',
      autovacuum_max_workers: '1',
      log_timezone: "'UTC'",
      timezone: "'UTC'",
      ...this.#settings,
    }
    const path = join(this.#folder, 'postgresql.conf')
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`)
    writeFileSync(path, lines.join(''))
    giveAway(path)
  }
}

/** PostgreSQL refuses to run as root: then it runs as the user of Debian's package. */
const asUser = ([program = '', ...args]: readonly string[]): string[] => {
  const folder = findPostgres()
  if (folder === undefined) throw new Error('the package postgresql is not installed')
  const user =
    process.getuid?.() === 0 ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--init-groups', '--'] : []
  return [...user, join(folder, program), ...args]
}

/** Makes a file or folder the property of the user that runs PostgreSQL. */
/** Makes the user of PostgreSQL the owner of a file. */
export function giveAway(path: string): void {
  if (process.getuid?.() !== 0) return
  const [uid = '', gid = ''] = ['-u', '-g'].map((what) => Bun.spawnSync(['id', what, 'postgres']).stdout.toString())
  if (uid === '') throw new Error('there is no user postgres: the package postgresql is not installed')
  chownSync(path, Number(uid), Number(gid))
}

async function run(folder: string, program: string, args: readonly string[]): Promise<void> {
  const child = Bun.spawn(asUser([program, ...args]), { cwd: folder, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${stderr}${stdout}`)
}

const listChildren = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ').filter(Boolean).map(Number)

async function until(condition: () => Promise<boolean>, problem: string): Promise<void> {
  const end = performance.now() + READY_WITHIN_MS
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`${problem} within ${READY_WITHIN_MS / 1000} s`)
    await Bun.sleep(20)
  }
}
