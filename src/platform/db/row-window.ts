/**
 * @module The requested rows of a list: those after an offset, which the query scans, or those after a key of the
 * list's order, which an index finds immediately at any depth.
 */
import type { SQLQueryBindings } from 'bun:sqlite'
import { invalid } from '../errors.ts'
import type { Preparer } from './open.ts'

/** A row's position in the order of its list: its id, or a time (or another value) and its id. */
export type RowKey = readonly (number | string)[]

export interface RowWindow {
  readonly limit: number
  /** Rows to skip; 0 when there is a key. */
  readonly offset: number
  /** The last row before the requested ones. */
  readonly after?: RowKey | undefined
}

/** Above every stored id and time. */
const ABOVE_ALL = Number.MAX_SAFE_INTEGER

/** The key of a window, which must be of the form of `first`; without a key, `first`, which is before all rows. */
function readKey<Key extends RowKey>({ after }: Pick<RowWindow, 'after'>, first: Key): Key {
  if (!after) return first
  if (after.length !== first.length || after.some((value, index) => typeof value !== typeof first[index]))
    throw invalid('cursor', 'cursor must be the next_cursor of a page of this list.')
  return after as Key
}

/** For a list ordered by id, newest first: the exclusive upper bound of the ids. */
export const belowId = (window: Pick<RowWindow, 'after'>): number => readKey<readonly [number]>(window, [ABOVE_ALL])[0]

/**
 * Prepares a list ordered by id, newest first: called with a window and the values of its conditions, it reads the rows
 * of the window, and the number of all.
 * @param select up to the tables, which may be joined for what the rows show
 * @param rows the table with the conditions for its rows, where another may follow; it has the same name as in `select`
 */
export function newestFirst<Row, Values extends SQLQueryBindings[]>(
  db: Preparer,
  select: string,
  rows: string,
  id = 'id',
) {
  // Joins nothing for the rows before an offset.
  const page = db.prepare<Row, SQLQueryBindings[]>(
    `${select} WHERE ${id} IN (SELECT ${id} FROM ${rows} AND ${id} < ? ORDER BY ${id} DESC LIMIT ? OFFSET ?) ORDER BY ${id} DESC`,
  )
  const count = db.prepare<{ n: number }, SQLQueryBindings[]>(`SELECT count(*) AS n FROM ${rows}`)
  return (window: RowWindow, ...values: Values): { rows: Row[]; total: number } => ({
    rows: page.all(...values, belowId(window), window.limit, window.offset),
    total: count.get(...values)?.n ?? 0,
  })
}

/** For a list ordered by a text, in its order: the exclusive lower bound of the texts. */
export const aboveText = (window: Pick<RowWindow, 'after'>): string => readKey<readonly [string]>(window, [''])[0]

/** For a list ordered by time and then id, newest first: the exclusive upper bound of both. */
export const belowTimeAndId = (window: Pick<RowWindow, 'after'>) =>
  readKey<readonly [time: number, id: number]>(window, [ABOVE_ALL, ABOVE_ALL])

/** For a list ordered by time and then by a text, newest first: the exclusive upper bound of both. */
export const belowTimeAndText = (window: Pick<RowWindow, 'after'>) =>
  readKey<readonly [time: number, text: string]>(window, [ABOVE_ALL, ''])
