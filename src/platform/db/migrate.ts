/**
 * @module Applies the embedded migrations at the start. A migration is a .sql file from drizzle-kit, never edited after
 * a release: its SHA-256 is stored with its name, so that a database which was made from other SQL is not used.
 */
import type { Database } from 'bun:sqlite'
import { ConfigError } from '#platform/settings/config.ts'

export interface Migration {
  /** File name without `.sql`; migrations are applied in order of name. */
  readonly name: string
  readonly sql: string
}

export interface AppliedMigration {
  readonly name: string
  /** Of its SQL, in hex; versions before the first release stored none. */
  readonly sha256?: string
}

/** The database cannot be used by this version; the message says which one to use. */
export class OtherVersionError extends ConfigError {}

/** The migrations of a database, in order. */
export const readApplied = (db: Database): AppliedMigration[] =>
  db.query<AppliedMigration, []>('SELECT * FROM migrations ORDER BY name').all()

/** Throws OtherVersionError when a newer version, or one from before the first release, made the database. */
export function requireKnown(applied: readonly AppliedMigration[], migrations: readonly Migration[]): void {
  const hashes = new Map(migrations.map(({ name, sql }) => [name, hash(sql)]))
  for (const { name, sha256 } of applied) {
    const known = hashes.get(name)
    if (sha256 === undefined || (known !== undefined && sha256 !== known))
      throw new OtherVersionError(
        'A version from before the first release of Tassis wrote the database, and no release can read it; start with an empty data directory.',
      )
    if (known === undefined)
      throw new OtherVersionError(
        `A newer version of Tassis wrote the database, which has the migration ${name}; use that version again.`,
      )
  }
}

/**
 * Brings the schema up to date. Each migration runs in a transaction that also records it. Throws OtherVersionError
 * before the first change, so that an executable never writes to a database that it does not know.
 */
export function migrate(db: Database, migrations: readonly Migration[]): void {
  db.run('CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, sha256 TEXT NOT NULL) STRICT, WITHOUT ROWID')
  const applied = readApplied(db)
  requireKnown(applied, migrations)
  for (const { name, sql } of migrations.slice(applied.length))
    db.transaction(() => {
      for (const statement of sql.split('--> statement-breakpoint')) if (statement.trim()) db.run(statement)
      db.query('INSERT INTO migrations (name, sha256) VALUES (?, ?)').run(name, hash(sql))
    })()
}

const hash = (sql: string): string => new Bun.CryptoHasher('sha256').update(sql).digest('hex')
