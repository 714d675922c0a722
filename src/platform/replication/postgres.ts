/**
 * @module The connection of a node to PostgreSQL. Of several hosts it uses the newest primary, so that it follows
 * a failover of PostgreSQL itself. A statement that fails or is not answered in time closes the connection: only
 * a new one can tell what became of it.
 */
import { SQL } from 'bun'
import { ConfigError } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '../units.ts'
import { type PostgresHost, parsePostgresUrl, usesTls } from './postgres-url.ts'

/** PostgreSQL did not answer, or could not do it now. */
export class PostgresUnreachableError extends Error {}

/** PostgreSQL refuses what it is asked: a password, a database or a right is wrong. */
export class PostgresRefusedError extends ConfigError {}

const CONNECT_SECONDS = 2
const ANSWER_MS = seconds(4)
const GRACE_MS = 100
/**
 * A commit that waits for a synchronous standby which is gone holds its lock; those that follow must not wait with it, or
 * they would use up the connections. No statement_timeout: it would end that wait with a success.
 */
const SETTINGS = { lock_timeout: 3000 }

/** The timeline of a primary as eight hexadecimal digits; null on a standby. Each promotion begins a new one. */
const TIMELINE =
  'SELECT CASE WHEN NOT pg_is_in_recovery() THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END AS timeline'

/** SQLSTATE classes and codes that only an operator can mend. */
const PERMANENT = /^(?:28|3D|3F|42)/
/** What to do about an error, by its SQLSTATE and text. */
const HINTS: readonly (readonly [RegExp, string])[] = [
  [/^28/, 'correct user, password and pg_hba.conf'],
  [/^3D/, 'create the database, or correct its name'],
  [/^42501/, 'the role must own its schema, or be granted CREATE and USAGE on it'],
  [/^53100/, 'its disk is full: free space there'],
  [/^53300/, 'it has no connection left: raise max_connections'],
  [/^55P03/, 'a commit waits there, perhaps for a synchronous standby that is gone'],
  [/certificate's altnames/, 'name the host in TASSIS_REPLICATE as its certificate does'],
  [/certificate|caFile/, 'name the file with the authority that signed its certificate: &sslrootcert=/path/to/ca.pem'],
  [/not support SSL/, 'set ssl = on there'],
]

export class Postgres {
  readonly #hosts: readonly PostgresHost[]
  #opening: Promise<SQL> | undefined
  #host: PostgresHost | undefined

  /** @throws ConfigError for a URL that is none, or that would send mail in clear */
  constructor(url: string) {
    const hosts = parsePostgresUrl(url)
    if (!hosts) throw new ConfigError('TASSIS_REPLICATE must be postgres://user:password@host:5432/database.')
    if (hosts.some(({ isLoopback }) => !isLoopback) && !usesTls(url))
      throw new ConfigError(
        'TASSIS_REPLICATE names a host on the network without TLS, so passwords and mail would cross it in clear; add ?sslmode=require, or better verify-full.',
      )
    this.#hosts = hosts
  }

  /** The host that is used or was tried last, for messages. */
  get host(): string {
    return this.#host?.name ?? this.#hosts.map(({ name }) => name).join(' and ')
  }

  /**
   * Runs one statement and resolves with its rows.
   * @throws PostgresUnreachableError when it is unknown whether it ran, or it may be tried again; ConfigError when an
   * operator has to change something
   */
  query<Row>(statement: string, values: readonly unknown[] = [], limitMs = ANSWER_MS): Promise<Row[]> {
    return this.use((sql) => sql.unsafe<Row[]>(statement, values as unknown[]), limitMs)
  }

  async use<T>(run: (sql: SQL) => Promise<T>, limitMs = ANSWER_MS): Promise<T> {
    this.#opening ??= this.#connect()
    const opening = this.#opening
    const work = opening.then(run)
    const expired = Promise.withResolvers<never>()
    // If this thread was busy for long, the answer may be here already: it gets a moment to be read.
    let timer = systemClock.after(limitMs, () => {
      timer = systemClock.after(GRACE_MS, () => expired.reject(new Error(`no answer in ${limitMs / 1000} s`)))
    })
    try {
      return await Promise.race([work, expired.promise])
    } catch (error) {
      // What still waits ends with the connection.
      work.catch(() => undefined)
      if (this.#opening === opening) void this.close()
      throw this.#explain(error)
    } finally {
      timer.cancel()
    }
  }

  async close(): Promise<void> {
    const opening = this.#opening
    this.#opening = undefined
    await opening?.then((sql) => sql.close({ timeout: 0 })).catch(() => undefined)
  }

  /** Of two hosts that accept writes, the one of the older timeline was replaced: its commits wait in vain for a standby. */
  async #connect(): Promise<SQL> {
    const found: { readonly host: PostgresHost; readonly sql: SQL; readonly timeline: string }[] = []
    let failure: unknown
    const ask = async (host: PostgresHost): Promise<void> => {
      const sql = new SQL(host.url, {
        max: 1,
        idleTimeout: 0,
        connectionTimeout: CONNECT_SECONDS,
        connection: SETTINGS,
      })
      try {
        const [row] = await sql.unsafe<{ timeline: string | null }[]>(TIMELINE)
        if (row?.timeline) return void found.push({ host, sql, timeline: row.timeline })
        this.#host ??= host
        failure ??= new Error('is a standby of PostgreSQL, which accepts no writes')
      } catch (error) {
        this.#host = host
        failure = error
      }
      await sql.close({ timeout: 0 }).catch(() => undefined)
    }
    await Promise.all(this.#hosts.map(ask))
    const [primary, ...replaced] = found.sort((a, b) => b.timeline.localeCompare(a.timeline))
    for (const { sql } of replaced) void sql.close({ timeout: 0 }).catch(() => undefined)
    if (!primary) throw failure
    this.#host = primary.host
    return primary.sql
  }

  #explain(error: unknown): Error {
    if (error instanceof ConfigError || error instanceof PostgresUnreachableError) return error
    const state = error instanceof Error && 'errno' in error ? String(error.errno) : ''
    const text = error instanceof Error ? error.message : String(error)
    const [, hint] = HINTS.find(([pattern]) => pattern.test(`${state} ${text}`)) ?? []
    const sentence = `PostgreSQL at ${this.host}: ${text}${hint === undefined ? '' : `; ${hint}`}`
    return PERMANENT.test(state)
      ? new PostgresRefusedError(`${sentence}.`)
      : new PostgresUnreachableError(sentence, { cause: error })
  }
}
