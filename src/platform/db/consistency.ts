/**
 * @module Consistency rules for `tassis check`: what must be true of the database at every commit, and how to find
 * violations. Each feature declares its own in its `consistency.ts`; `app/cli/check.ts` joins them.
 */
import type { Database } from 'bun:sqlite'

export interface ConsistencyRule {
  readonly rule: string
  /** Returns the first few violations, one sentence each; none when the rule holds. Only reads. */
  readonly findDifferences: (db: Database) => readonly string[]
}

export interface Violation {
  readonly rule: string
  readonly differences: readonly string[]
}

export const checkRule = (db: Database, { rule, findDifferences }: ConsistencyRule): Violation => ({
  rule,
  differences: findDifferences(db),
})

/** Maximum number of violations listed per rule; more would add no information. */
export const MAX_DIFFERENCES = 10

/** Describes the first few rows; a last entry says when there are more. */
export function describeRows<T>(rows: readonly T[], describe: (row: T) => string): string[] {
  const sentences = rows.slice(0, MAX_DIFFERENCES).map(describe)
  return rows.length > MAX_DIFFERENCES ? [...sentences, 'and more'] : sentences
}

/** A query row, by column alias. */
export type Row = Readonly<Record<string, string | number | null>>

interface QueryRule {
  readonly rule: string
  readonly sql: string
  readonly describe: (row: Row) => string
}

export const queryRule = ({ rule, sql, describe }: QueryRule): ConsistencyRule => ({
  rule,
  findDifferences: (db) => describeRows(db.query<Row, []>(`${sql} LIMIT ${MAX_DIFFERENCES + 1}`).all(), describe),
})

/** SQL: rows (code, name) for a list of names that are stored as their positions. */
export const codeRows = (names: readonly string[]): string =>
  `(SELECT column1 AS code, column2 AS name FROM (VALUES ${names.map((name, code) => `(${code}, '${name}')`).join(', ')}))`

/** SQL: a UUID column as hexadecimal digits. */
export const hexUuid = (column: string): string => `lower(hex(${column}))`
