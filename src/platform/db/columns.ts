/**
 * @module What all `tables.ts` share: the column types (times are integer milliseconds, public ids 16-byte blobs, flags 0
 * or 1), and what a table states about its rows.
 */
import { getTableName, is, sql } from 'drizzle-orm'
import { customType, integer, SQLiteTable } from 'drizzle-orm/sqlite-core'
import type { UuidBytes } from '../ids.ts'

/** A public UUID as its 16 bytes. */
export const uuid = customType<{ data: UuidBytes; driverData: Uint8Array }>({ dataType: () => 'blob' })

/** Sealed secrets, hashes. */
export const bytes = customType<{ data: Uint8Array; driverData: Uint8Array }>({ dataType: () => 'blob' })

/** Milliseconds since the epoch. */
export const time = (name: string) => integer(name)

export const flag = (name: string) => integer(name, { mode: 'boolean' })

export const ZERO = sql`0`

/** What the deletion of accounts, the sweep of content and retention do with a table's rows. */
export interface TableFacts {
  /**
   * Whose rows they are: the column with the row id of the account; or the column with the id of a row of another
   * table, and that table; or what happens to them instead when an account is deleted, or why nothing does.
   */
  readonly account: string | readonly [string, string] | { readonly except: string }
  /** Columns with a reference into a content store, and the one with a JSON array of objects that have one in `ref`. */
  readonly content?: readonly string[]
  readonly rawMail?: readonly string[]
  readonly attachments?: string
  /**
   * Rows are deleted once a time is so many days ago; 0: once it is over. Needs an index, or a small table. `unitMs`: of
   * a column that counts other units than milliseconds.
   */
  readonly kept?: { readonly since: string; readonly days: number; readonly unitMs?: number }
  /** Texts, also in JSON, in which the erasure of a person replaces the address. Needs `account_id` and `id`. */
  readonly personTexts?: readonly string[]
  /** In the figures of `tassis disk`; default: `other`. */
  readonly group?: 'logs' | 'events' | 'figures' | 'webhooks' | 'contacts' | 'inbound' | 'audit'
}

const FACTS = Symbol('facts of a table')

/**
 * States the facts of a table. `bun scripts/reference.ts` writes those of all tables to core/app/table-facts.json, which
 * the program reads: it does without the query builder.
 */
export const describeTable = (table: SQLiteTable, facts: TableFacts): void =>
  void Object.assign(table, { [FACTS]: facts })

/** The tables that a `tables.ts` exports, by name, with their facts; undefined: it states none. */
export const readTableFacts = (exported: Readonly<Record<string, unknown>>): [string, TableFacts | undefined][] =>
  Object.values(exported)
    .filter((value) => is(value, SQLiteTable))
    .map((table) => [getTableName(table), (table as { [FACTS]?: TableFacts })[FACTS]])
