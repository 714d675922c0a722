/**
 * @module The requested rows of a list: those after an offset, which the query scans, or those after a key of the
 * list's order, which an index finds immediately at any depth.
 */
import { invalid } from '../errors.ts'

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

const invalidCursor = () => invalid('cursor', 'cursor must be the next_cursor of a page of this list.')

/** For a list ordered by id, newest first: the exclusive upper bound of the ids. */
export function belowId({ after }: Pick<RowWindow, 'after'>): number {
  if (!after) return ABOVE_ALL
  const [id] = after
  if (after.length !== 1 || typeof id !== 'number') throw invalidCursor()
  return id
}

/** For a list ordered by a text, in its order: the exclusive lower bound of the texts. */
export function aboveText({ after }: Pick<RowWindow, 'after'>): string {
  if (!after) return ''
  const [text] = after
  if (after.length !== 1 || typeof text !== 'string') throw invalidCursor()
  return text
}

/** For a list ordered by time and then id, newest first: the exclusive upper bound of both. */
export function belowTimeAndId({ after }: Pick<RowWindow, 'after'>): readonly [time: number, id: number] {
  if (!after) return [ABOVE_ALL, ABOVE_ALL]
  const [time, id] = after
  if (after.length !== 2 || typeof time !== 'number' || typeof id !== 'number') throw invalidCursor()
  return [time, id]
}

/** For a list ordered by time and then by a text, newest first: the exclusive upper bound of both. */
export function belowTimeAndText({ after }: Pick<RowWindow, 'after'>): readonly [time: number, text: string] {
  if (!after) return [ABOVE_ALL, '']
  const [time, text] = after
  if (after.length !== 2 || typeof time !== 'number' || typeof text !== 'string') throw invalidCursor()
  return [time, text]
}
