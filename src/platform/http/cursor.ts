/**
 * @module List cursors: opaque texts that mark where the next page begins, so that deep pages cost as much as the
 * first. Not signed: they only select among rows that the list would show anyway.
 */
import { attempt } from '../attempt.ts'
import type { RowKey } from '../db/row-window.ts'
import { invalidFields } from './validation.ts'

const MAX_CURSOR_LENGTH = 2048

/**
 * @param rowsBefore number of rows before the next page
 * @param key key of the last row before the next page; left out for a list of limited length
 */
export const formatCursor = (rowsBefore: number, key: RowKey | undefined): string =>
  Buffer.from(JSON.stringify([rowsBefore, ...(key ?? [])])).toString('base64url')

export interface Cursor {
  readonly rowsBefore: number
  readonly key: RowKey | undefined
}

/** Throws a 422 for a text that is not a cursor. */
export function parseCursor(text: string): Cursor {
  const [rowsBefore, ...key] = text.length > MAX_CURSOR_LENGTH ? [] : readValues(text)
  if (!isCount(rowsBefore) || !key.every((value) => typeof value === 'string' || isCount(value)))
    throw invalidFields([{ field: 'cursor', message: 'must be the next_cursor of a page, unchanged' }])
  return { rowsBefore, key: key.length === 0 ? undefined : (key as RowKey) }
}

function readValues(text: string): readonly unknown[] {
  const values: unknown = attempt(() => JSON.parse(Buffer.from(text, 'base64url').toString()))
  return Array.isArray(values) ? values : []
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
