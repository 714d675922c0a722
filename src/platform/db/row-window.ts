/**
 * @module Which rows of a list are wanted: those after a number of rows, which are walked over, or those after a key of its order, which an index finds at
 * once however deep they are.
 */
import { invalid } from '../errors.ts'

/** Where a row stands in the order of its list: by its id, or by a time (or another value) and its id. */
export type RowKey = readonly (number | string)[]

export interface RowWindow {
  readonly limit: number
  /** Rows to walk over; 0 where there is a key. */
  readonly offset: number
  /** The last row before those that are wanted. */
  readonly after?: RowKey | undefined
}

/** Above every id and every time that is stored. */
const ABOVE_ALL = Number.MAX_SAFE_INTEGER

const invalidCursor = () => invalid('cursor', 'cursor must be the next_cursor of a page of this list.')

/** Of a list that is newest first by id: the id that all wanted ones are below. */
export function belowId({ after }: Pick<RowWindow, 'after'>): number {
  if (!after) return ABOVE_ALL
  const [id] = after
  if (after.length !== 1 || typeof id !== 'number') throw invalidCursor()
  return id
}

/** Of a list that is newest first by a time and, within it, by id: what all wanted ones are below. */
export function belowTimeAndId({ after }: Pick<RowWindow, 'after'>): readonly [time: number, id: number] {
  if (!after) return [ABOVE_ALL, ABOVE_ALL]
  const [time, id] = after
  if (after.length !== 2 || typeof time !== 'number' || typeof id !== 'number') throw invalidCursor()
  return [time, id]
}

/** The same within a time by a text. */
export function belowTimeAndText({ after }: Pick<RowWindow, 'after'>): readonly [time: number, text: string] {
  if (!after) return [ABOVE_ALL, '']
  const [time, text] = after
  if (after.length !== 2 || typeof time !== 'number' || typeof text !== 'string') throw invalidCursor()
  return [time, text]
}
