/** @module Rows that stay where they are while a list is read again; new ones are offered. */
import { Button } from '@mantine/core'
import { useState } from 'react'

interface Row {
  readonly id: string
}

interface Shown<T> {
  readonly key: string
  readonly rows: readonly T[]
}

export interface SteadyRows<T> {
  readonly rows: readonly T[]
  readonly newCount: number
  /** Shows the new ones. */
  show(): void
}

/**
 * @param key changes when other rows are asked for: another page or filter
 * @param latest as read last; undefined while they are not known
 */
export function useSteadyRows<T extends Row>(key: string, latest: readonly T[] | undefined): SteadyRows<T> {
  const [shown, setShown] = useState<Shown<T>>()
  const current = shown?.key === key && shown.rows.length > 0 ? shown : undefined
  if (latest && !current && (shown?.key !== key || latest.length > 0)) setShown({ key, rows: latest })
  const show = () => latest && setShown({ key, rows: latest })
  if (!current || !latest) return { rows: latest ?? [], newCount: 0, show }
  return { ...mergeRows(current.rows, latest), show }
}

/** The shown rows as they are now. One that is missing was pushed off the page by new ones, or else it was deleted. */
export function mergeRows<T extends Row>(
  shown: readonly T[],
  latest: readonly T[],
): { readonly rows: readonly T[]; readonly newCount: number } {
  const latestById = new Map(latest.map((row) => [row.id, row]))
  const shownIds = new Set(shown.map(({ id }) => id))
  const firstShown = latest.findIndex(({ id }) => shownIds.has(id))
  const newCount = firstShown === -1 ? latest.length : firstShown
  const rows = shown.flatMap((row) => latestById.get(row.id) ?? (newCount > 0 ? row : []))
  return { rows, newCount }
}

/** Always in the page, so that screen readers announce a change. */
export const NewRows = ({ rows: { newCount, show } }: { readonly rows: SteadyRows<Row> }) => (
  <div role="status">
    {newCount > 0 && (
      <Button variant="light" size="xs" fullWidth onClick={show}>
        {newCount} new
      </Button>
    )}
  </div>
)
