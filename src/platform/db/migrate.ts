/**
 * @module Applies the embedded migrations at the start. A migration is a .sql file made by drizzle-kit, never edited after a release.
 */
import type { Database } from 'bun:sqlite'

export interface Migration {
  /** File name without `.sql`; their order is the order of application. */
  readonly name: string
  readonly sql: string
}

/** The database was made by a newer version. */
export class NewerDatabaseError extends Error {}

/**
 * Brings the schema up to date, each migration in a transaction of its own together with the note that it was applied.
 * Throws NewerDatabaseError when a newer version made it, so that an older executable never writes into it.
 * @param onApply called before each that is applied
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
  if (unknown)
    throw new NewerDatabaseError(
      `The database has the migration ${unknown}, which this version does not know; start the newer version again.`,
    )
  for (const migration of migrations) {
    if (applied.has(migration.name)) continue
    onApply?.(migration.name)
    db.transaction(() => {
      for (const statement of migration.sql.split('--> statement-breakpoint')) if (statement.trim()) db.run(statement)
      db.query('INSERT INTO migrations (name) VALUES (?)').run(migration.name)
    })()
  }
}
