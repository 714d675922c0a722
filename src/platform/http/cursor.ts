/**
 * @module The cursors of lists: opaque texts that say where the next page begins, so that deep pages cost what the first one does. Not signed: they only choose
 * among rows that the list would show anyway.
 */
import type { RowKey } from '../db/row-window.ts'
import { invalidFields } from './validation.ts'

const MAX_CURSOR_LENGTH = 2048

/** @param rowsBefore rows of the list before the next page. @param key of the last of them; left out where the list has a bounded length */
export const formatCursor = (rowsBefore: number, key: RowKey | undefined): string =>
  Buffer.from(JSON.stringify([rowsBefore, ...(key ?? [])])).toString('base64url')

export interface Cursor {
  readonly rowsBefore: number
  readonly key: RowKey | undefined
}

/** Throws the 422 of a text that is no cursor. */
export function parseCursor(text: string): Cursor {
  const [rowsBefore, ...key] = text.length > MAX_CURSOR_LENGTH ? [] : readValues(text)
  if (!isCount(rowsBefore) || !key.every((value) => typeof value === 'string' || isCount(value)))
    throw invalidFields([{ field: 'cursor', message: 'must be the next_cursor of a page, unchanged' }])
  return { rowsBefore, key: key.length === 0 ? undefined : (key as RowKey) }
}

function readValues(text: string): readonly unknown[] {
  try {
    const values: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    return Array.isArray(values) ? values : []
  } catch {
    return []
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
