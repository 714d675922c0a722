/** @module A list that is refreshed without jumping: rows change in place, new ones wait for a click. */
import { useRef, useState } from 'react'

export interface SteadyRows<Row> {
  readonly rows: readonly Row[]
  /** Rows that are not shown yet. */
  readonly newCount: number
  /** Whether rows are new, gone or in another order. */
  readonly hasChanged: boolean
  /** Shows the list as it is now. */
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

/**
 * @param current the rows as last read
 * @param listKey filters and page: another list is shown immediately
 * @param isPlaceholder whether `current` still belongs to the list before
 */
export function useSteadyRows<Row>(
  current: readonly Row[],
  toKey: (row: Row) => string,
  listKey: string,
  isPlaceholder: boolean,
): SteadyRows<Row> {
  const shown = useRef<{ readonly listKey: string; readonly rows: readonly Row[] }>(undefined)
  const [, render] = useState(0)
  // A list that was empty cannot jump.
  if (!shown.current || (!isPlaceholder && (shown.current.listKey !== listKey || shown.current.rows.length === 0)))
    shown.current = { listKey: isPlaceholder ? '' : listKey, rows: current }
  const rows = mergeRows(shown.current.rows, current, toKey)
  shown.current = { listKey: shown.current.listKey, rows }
  const known = new Set(rows.map(toKey))
  return {
    rows,
    newCount: current.filter((row) => !known.has(toKey(row))).length,
    hasChanged: rows.map(toKey).join('\n') !== current.map(toKey).join('\n'),
    show() {
      shown.current = { listKey, rows: current }
      render((count) => count + 1)
    },
  }
}
