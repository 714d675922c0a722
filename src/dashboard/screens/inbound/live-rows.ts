/**
 * @module A list that never jumps: the rows shown stay where they are while their contents are updated, and new rows
 * are counted until the reader asks for them.
 */
import type { UseQueryResult } from '@tanstack/react-query'
import { useState } from 'react'
import type { PageOf } from '../../api/client.ts'

interface Shown<Row> {
  readonly key: string
  readonly page: PageOf<Row>
  /** Whether it was read since the screen was opened, so that it is replaced no more. */
  readonly isFresh: boolean
}

export interface LiveRows<Row> {
  /** Undefined while there are none yet. */
  readonly page: PageOf<Row> | undefined
  readonly newCount: number
  readonly hasMoreNew: boolean
  showNew(): void
}

/**
 * @param key names the list, with its filters and page
 * @param toTime by which the list is sorted, newest first
 */
export function useLiveRows<Row extends { readonly id: string }>(
  query: UseQueryResult<PageOf<Row>>,
  key: string,
  toTime: (row: Row) => string,
): LiveRows<Row> {
  const [shown, setShown] = useState<Shown<Row>>()
  const latest = query.isPlaceholderData ? undefined : query.data
  const current = shown?.key === key ? shown : undefined
  const isFresh = query.isFetchedAfterMount
  const isReplaced = !current?.isFresh || current.page.data.length === 0
  if (latest && isReplaced && (current?.page !== latest || current.isFresh !== isFresh))
    setShown({ key, page: latest, isFresh })
  if (!current || !latest)
    return { page: current?.page ?? query.data, newCount: 0, hasMoreNew: false, showNew: () => undefined }
  const latestById = new Map(latest.data.map((row) => [row.id, row]))
  const shownById = new Map(current.page.data.map((row) => [row.id, row]))
  const newest = current.page.data[0] ? toTime(current.page.data[0]) : ''
  const newRows = latest.data.filter((row) => {
    const before = shownById.get(row.id)
    return before === undefined ? toTime(row) >= newest : toTime(row) > newest && toTime(row) > toTime(before)
  })
  return {
    page: {
      data: current.page.data.map((row) => latestById.get(row.id) ?? row),
      pagination: latest.pagination,
    },
    newCount: newRows.length,
    hasMoreNew: newRows.length > 0 && newRows.length === latest.data.length,
    showNew: () => setShown({ key, page: latest, isFresh: true }),
  }
}
