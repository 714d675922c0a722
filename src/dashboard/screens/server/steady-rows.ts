/** @module A list that is refreshed without jumping: rows change in place, new ones wait for a click. */
import { useRef, useState } from 'react'

export interface SteadyRows<Row> {
  readonly rows: readonly Row[]
  readonly newCount: number
  /** Whether rows are new, gone or in another order. */
  readonly hasChanged: boolean
  show(): void
}

/** The shown rows with their new values; those that are gone stay as they were. */
export const mergeRows = <Row>(
  shown: readonly Row[],
  current: readonly Row[],
  toKey: (row: Row) => string,
): readonly Row[] => {
  const byKey = new Map(current.map((row) => [toKey(row), row]))
  return shown.map((row) => byKey.get(toKey(row)) ?? row)
}

interface Shown<Row> {
  readonly listKey: string
  readonly rows: readonly Row[]
  readonly readAt: number
}

/** Data of this age are read again when a screen is opened. */
const STALE_MS = 5000

/** Another list, rows that were read before the screen was opened, and an empty list are replaced immediately. */
const isReplaceable = (shown: Shown<unknown>, listKey: string, openedAt: number): boolean =>
  shown.listKey !== listKey || shown.readAt < openedAt - STALE_MS || shown.rows.length === 0

/**
 * @param current the rows as last read
 * @param listKey filters and page: another list is shown immediately
 * @param isPlaceholder whether `current` still belongs to the list before
 * @param readAt when `current` was read: what is older than the screen is replaced immediately
 */
export function useSteadyRows<Row>(
  current: readonly Row[],
  toKey: (row: Row) => string,
  listKey: string,
  isPlaceholder: boolean,
  readAt: number,
): SteadyRows<Row> {
  const shown = useRef<Shown<Row>>(undefined)
  const [openedAt] = useState(Date.now)
  const [, render] = useState(0)
  if (!shown.current || (!isPlaceholder && isReplaceable(shown.current, listKey, openedAt)))
    shown.current = { listKey: isPlaceholder ? '' : listKey, rows: current, readAt }
  const rows = mergeRows(shown.current.rows, current, toKey)
  shown.current = { ...shown.current, rows }
  const known = new Set(rows.map(toKey))
  return {
    rows,
    newCount: current.filter((row) => !known.has(toKey(row))).length,
    hasChanged: rows.map(toKey).join('\n') !== current.map(toKey).join('\n'),
    show() {
      shown.current = { listKey, rows: current, readAt }
      render((count) => count + 1)
    },
  }
}
