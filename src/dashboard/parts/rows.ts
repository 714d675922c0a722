/** @module A list that never jumps: rows change in place, and new ones are counted until the reader asks for them. */
import type { UseQueryResult } from '@tanstack/react-query'
import { useState } from 'react'
import type { PageOf } from '../api/data.ts'

interface Row {
  readonly id: string
}

interface Shown<T> {
  readonly key: string
  readonly page: PageOf<T>
  /** Whether it was read since the screen was opened, or just before, so that it is replaced no more. */
  readonly isFresh: boolean
}

export interface LiveRows<T> {
  /** Undefined while there are none yet. */
  readonly page: PageOf<T> | undefined
  readonly newCount: number
  /** Whether there may be more new rows than were counted. */
  readonly hasMoreNew: boolean
  showNew(): void
  /** Reads the list again and shows it: after a change by the reader. */
  reload(): Promise<void>
  /** Leaves out a row that was deleted; undefined: all. */
  drop(id: string | undefined): void
}

/**
 * @param key names the list, with its filters and page
 * @param toTime by which the list is sorted, newest first
 */
export function useLiveRows<T extends Row>(
  query: UseQueryResult<PageOf<T>>,
  key: string,
  toTime: (row: T) => string,
): LiveRows<T> {
  const [shown, setShown] = useState<Shown<T>>()
  const latest = query.isPlaceholderData ? undefined : query.data
  const current = shown?.key === key ? shown : undefined
  const isFresh = query.isFetchedAfterMount || !query.isStale
  const isReplaced = !current?.isFresh || current.page.data.length === 0
  if (latest && isReplaced && (current?.page !== latest || current.isFresh !== isFresh))
    setShown({ key, page: latest, isFresh })
  const show = (page: PageOf<T> | undefined) => page && setShown({ key, page, isFresh: true })
  const reload = async () => void show((await query.refetch()).data)
  const drop = (id: string | undefined) => {
    if (id === undefined) setShown(undefined)
    else if (current) show({ ...current.page, data: current.page.data.filter((row) => row.id !== id) })
  }
  const showNew = () => void show(latest)
  if (!current || !latest)
    return { page: current?.page ?? query.data, newCount: 0, hasMoreNew: false, showNew, reload, drop }
  const { rows, newCount } = updateRows(current.page.data, latest.data, toTime)
  return {
    page: { data: rows, pagination: latest.pagination },
    newCount,
    hasMoreNew: newCount > 0 && newCount === latest.data.length,
    showNew,
    reload,
    drop,
  }
}

/** The shown rows as they are now, and how many rows are newer. One that was not read again stays as it was. */
export function updateRows<T extends Row>(
  shown: readonly T[],
  latest: readonly T[],
  toTime: (row: T) => string,
): { readonly rows: readonly T[]; readonly newCount: number } {
  const latestById = new Map(latest.map((row) => [row.id, row]))
  const shownById = new Map(shown.map((row) => [row.id, row]))
  const newest = shown[0] ? toTime(shown[0]) : ''
  // A row that moved up, such as a thread with a new message, is new too.
  const newRows = latest.filter((row) => {
    const before = shownById.get(row.id)
    return before === undefined ? toTime(row) >= newest : toTime(row) > newest && toTime(row) > toTime(before)
  })
  return { rows: shown.map((row) => latestById.get(row.id) ?? row), newCount: newRows.length }
}
