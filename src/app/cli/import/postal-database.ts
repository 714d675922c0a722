/**
 * @module Reads the databases of Postal 2.x and 3.x in MySQL or MariaDB: the main one, and one a server. Never writes:
 * its session is read-only. First checks that all that an import reads is there.
 */
import { SQL } from 'bun'
import { CommandError, UsageError } from '#app/cli/options.ts'
import data from './postal.json' with { type: 'json' }

const TIMEOUT_SECONDS = 10
/** To a user, a database, a table, a column; and there is no such database. */
const ACCESS_DENIED: readonly (number | undefined)[] = [1044, 1045, 1049, 1142, 1143, 1698]

export interface PostalServer {
  readonly id: number
  /** Its permalinks, as its programs log in, which nobody changes; the name of its account here: `acme/main`. */
  readonly name: string
  readonly mode: string
  /** Address of the owner of its organisation, else of an administrator. */
  readonly owner: string | null
  /** Name of its own database. */
  readonly database: string
}

export class PostalDatabase implements AsyncDisposable {
  readonly #sql: SQL
  /** Its name and host, without the password. */
  readonly #where: string
  readonly #prefix: string

  /** @param prefix of the names of the servers' databases: `message_db.database_name_prefix` of Postal */
  constructor(address: string, prefix: string) {
    const url = URL.parse(address.replace(/^mariadb:/, 'mysql:'))
    if (url?.protocol !== 'mysql:' || !/^\/[^/]+$/.test(url.pathname))
      throw new UsageError('The address must be like mysql://user:password@127.0.0.1/postal.')
    if (!/^[\w.-]{1,50}$/.test(prefix)) throw new UsageError('--message-db-prefix must be letters, digits, ., _ or -.')
    this.#prefix = prefix
    this.#where = `${url.pathname.slice(1)} at ${url.host}`
    this.#sql = new SQL(url.href, { adapter: 'mysql', max: 1, connectionTimeout: TIMEOUT_SECONDS })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sql.close({ timeout: 0 }).catch(() => undefined)
  }

  /** Throws a sentence, without the password, when the server does not answer, or refuses. */
  async query<Row>(text: string, ...values: readonly (number | string)[]): Promise<readonly Row[]> {
    try {
      return await this.#sql.unsafe(text, [...values])
    } catch (error) {
      const { errno, message } = error as { readonly errno?: number; readonly message: string }
      const hint = ACCESS_DENIED.includes(errno)
        ? `. Name the main database of Postal, and a user with SELECT on it and on ${this.#prefix}-server-*`
        : ''
      throw new CommandError(`The database ${this.#where} cannot be read: ${message}${hint}.`, 'postal_unreadable')
    }
  }

  /** Checks all databases, and returns the servers that are neither deleted nor suspended, in order of id. Throws a sentence. */
  async open(): Promise<readonly PostalServer[]> {
    await this.query('SET SESSION TRANSACTION READ ONLY')
    const [main] = await this.query<{ name: string }>('SELECT database() AS name')
    await this.#requireColumns(
      main?.name ?? '',
      data.main_columns,
      'it is not whole, or not the main database of Postal 2.x or 3.x; upgrade an older one first',
    )
    const servers = await this.query<PostalServer>(
      `SELECT s.id, concat(o.permalink, '/', s.permalink) AS name, s.mode, concat(?, '-server-', s.id) AS ${'`database`'},
         coalesce(u.email_address, (SELECT email_address FROM users WHERE admin = 1 ORDER BY id LIMIT 1)) AS owner
       FROM servers s JOIN organizations o ON o.id = s.organization_id LEFT JOIN users u ON u.id = o.owner_id
       WHERE coalesce(s.deleted_at, o.deleted_at, s.suspended_at, o.suspended_at) IS NULL ORDER BY s.id`,
      this.#prefix,
    )
    for (const { database, name } of servers)
      await this.#requireColumns(
        database,
        data.message_columns,
        `the database of the server ${name} is not there or not whole, or this user may not read it; --message-db-prefix sets what precedes -server-`,
      )
    return servers
  }

  async #requireColumns(database: string, needed: Readonly<Record<string, string>>, problem: string): Promise<void> {
    const rows = await this.query<{ name: string }>(
      "SELECT lower(concat(table_name, '.', column_name)) AS name FROM information_schema.columns WHERE table_schema = ?",
      database,
    )
    const found = new Set(rows.map(({ name }) => name))
    const missing = Object.entries(needed)
      .flatMap(([table, columns]) => columns.split(' ').map((column) => `${table}.${column}`))
      .filter((name) => !found.has(name))
    if (missing.length > 0)
      throw new CommandError(
        `${database} lacks ${missing.slice(0, 3).join(', ')}${missing.length > 3 ? ` and ${missing.length - 3} more columns` : ''}: ${problem}. Nothing was written.`,
        'postal_incomplete',
      )
  }
}
