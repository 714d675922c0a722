/** @module The schema migrations, embedded in the executable. Append only: never edit a released migration. */
import type { Migration } from '#platform/db/migrate.ts'
import initial from '../../migrations/0000_initial.sql' with { type: 'text' }

export const migrations: readonly Migration[] = [{ name: '0000_initial', sql: initial }]
