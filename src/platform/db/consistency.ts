/**
 * @module Consistency rules: what must be true of the database at every commit, and how to find what is not, for
 * `tassis check`. Each feature declares its own in its `consistency.ts`; `app/consistency-rules.ts` joins them.
 */
import type { Database } from 'bun:sqlite'

export interface ConsistencyRule {
  /** A statement that should be true. */
  readonly rule: string
  /** What differs, one sentence each; the first few. Empty: the rule holds. Reads only. */
  readonly findDifferences: (db: Database) => readonly string[]
}

/** What checking a rule found. */
export interface Violation {
  readonly rule: string
  readonly differences: readonly string[]
}

export const checkRule = (db: Database, { rule, findDifferences }: ConsistencyRule): Violation => ({
  rule,
  differences: findDifferences(db),
})

/** Differences listed of one rule; more say nothing new. */
export const MAX_DIFFERENCES = 10

/** The first few rows in words; one more says that there are more. */
export function describeRows<T>(rows: readonly T[], describe: (row: T) => string): string[] {
  const sentences = rows.slice(0, MAX_DIFFERENCES).map(describe)
  return rows.length > MAX_DIFFERENCES ? [...sentences, 'and more'] : sentences
}

/** A row of a query, by its aliases. */
export type Row = Readonly<Record<string, string | number | null>>

interface QueryRule {
  readonly rule: string
  /** Its rows are the exceptions to the rule. */
  readonly sql: string
  readonly describe: (row: Row) => string
}

export const queryRule = ({ rule, sql, describe }: QueryRule): ConsistencyRule => ({
  rule,
  findDifferences: (db) => describeRows(db.query<Row, []>(`${sql} LIMIT ${MAX_DIFFERENCES + 1}`).all(), describe),
})

/** SQL: the rows (code, name) of a list of names that are stored as their positions. */
export const codeRows = (names: readonly string[]): string =>
  `(SELECT column1 AS code, column2 AS name FROM (VALUES ${names.map((name, code) => `(${code}, '${name}')`).join(', ')}))`

/** SQL: a UUID column in hexadecimal digits. */
export const hexUuid = (column: string): string => `lower(hex(${column}))`
