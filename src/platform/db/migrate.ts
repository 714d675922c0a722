/**
 * @module Applies the embedded migrations at the start. A migration is a .sql file from drizzle-kit, never edited after
 * a release.
 */
import type { Database } from 'bun:sqlite'

export interface Migration {
  /** File name without `.sql`; migrations are applied in order of name. */
  readonly name: string
  readonly sql: string
}

/** A newer version migrated the database. */
export class NewerDatabaseError extends Error {
  /** @param migration one that this version does not know */
  constructor(migration: string) {
    super(`A newer version of Tassis wrote the database, which has the migration ${migration}; use that version again.`)
  }
}

/**
 * Brings the schema up to date. Each migration runs in a transaction that also records it. Throws NewerDatabaseError
 * when a newer version has migrated the database, so that an older executable never writes to it.
 * @param onApply called before each migration
 */
export function migrate(db: Database, migrations: readonly Migration[], onApply?: (name: string) => void): void {
  db.run('CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID')
  const applied = new Set(
    db
      .query<{ name: string }, []>('SELECT name FROM migrations')
      .all()
      .map((row) => row.name),
  )
  const unknown = [...applied].find((name) => !migrations.some((m) => m.name === name))
  if (unknown !== undefined) throw new NewerDatabaseError(unknown)
  for (const migration of migrations) {
    if (applied.has(migration.name)) continue
    onApply?.(migration.name)
    db.transaction(() => {
      for (const statement of migration.sql.split('--> statement-breakpoint')) if (statement.trim()) db.run(statement)
      db.query('INSERT INTO migrations (name) VALUES (?)').run(migration.name)
    })()
  }
}
