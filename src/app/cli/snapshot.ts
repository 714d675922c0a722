/** @module A read-only snapshot of the database, for commands that work with and without a running service. */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { readApplied, requireKnown } from '#platform/db/migrate.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { type Config, ConfigError } from '#platform/settings/config.ts'
import { explainCorruption, RESTORE_REMEDY, requireWritable } from '../create.ts'
import { migrations } from '../migrations.ts'

/**
 * Calls `use` with a read-only connection in its own read transaction. Throws ConfigError for a corrupt file, and for one
 * of another version.
 */
export function withSnapshot<T>({ dataDir }: Pick<Config, 'dataDir'>, use: (db: Database) => T): T {
  const path = join(dataDir, 'tassis.db')
  const db = explainCorruption(path, RESTORE_REMEDY, () => openSnapshot(dataDir, path))
  try {
    // The corrupt page may be one that opening did not read.
    return explainCorruption(path, RESTORE_REMEDY, () => use(db))
  } finally {
    // Closing alone would keep the transaction, and its lock, until the statements are garbage collected.
    if (db.inTransaction) db.run('ROLLBACK')
    db.close()
  }
}

function openSnapshot(dataDir: string, path: string): Database {
  let db: Database
  try {
    db = openReadOnly(path)
  } catch (error) {
    // SQLite writes the index of its write-ahead log even to read.
    requireWritable(dataDir)
    throw error
  }
  db.run('PRAGMA temp_store = MEMORY')
  db.run('BEGIN')
  requireCurrentSchema(db)
  return db
}

/** The first read, which fixes the snapshot. */
function requireCurrentSchema(db: Database): void {
  const applied = readApplied(db)
  requireKnown(applied, migrations)
  if (applied.length < migrations.length)
    throw new ConfigError(
      'An older version of Tassis wrote the database; read it with that version, or start the service with this one, which upgrades it.',
    )
}
