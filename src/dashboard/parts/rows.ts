/** @module A list that never jumps: rows change in place, and others wait until the reader asks for them. */
import type { UseQueryResult } from '@tanstack/react-query'
import { useState } from 'react'
import type { PageOf } from '../api/data.ts'

interface Shown<Page> {
  readonly list: string
  readonly page: Page
  /** Whether it was read since the screen was opened, or just before, so that it is replaced no more. */
  readonly isFresh: boolean
}

export interface SteadyRows<Page> {
  /** Undefined while there are none yet. */
  readonly page: Page | undefined
  /** Rows before those that are shown. */
  readonly newCount: number
  /** Whether rows are new, gone or in another order. */
  readonly hasChanged: boolean
  show(): void
  /** Reads the list again and shows it: after a change by the reader. */
  reload(): Promise<void>
}

/** @param list names the list, with its filters and page */
export function useSteadyRows<Row, Page extends Pick<PageOf<Row>, 'data'>>(
  query: UseQueryResult<Page & Pick<PageOf<Row>, 'data'>>,
  list: string,
  toKey: (row: Row) => string,
): SteadyRows<Page> {
  const [shown, setShown] = useState<Shown<Page>>()
  const latest = query.isPlaceholderData ? undefined : query.data
  const current = shown?.list === list ? shown : undefined
  const isFresh = query.isFetchedAfterMount || !query.isStale
  const isReplaced = !current?.isFresh || current.page.data.length === 0
  if (latest && isReplaced && (current?.page !== latest || current.isFresh !== isFresh))
    setShown({ list, page: latest, isFresh })
  const show = (page: Page | undefined) => page && setShown({ list, page, isFresh: true })
  const actions = { show: () => void show(latest), reload: async () => void show((await query.refetch()).data) }
  if (!current || !latest) return { page: current?.page ?? query.data, newCount: 0, hasChanged: false, ...actions }
  const { rows, ...news } = updateRows(current.page.data, latest.data, toKey)
  return { page: { ...latest, data: rows }, ...news, ...actions }
}

/** The shown rows as they are now. One that was not read again stays as it was. */
export function updateRows<Row>(shown: readonly Row[], latest: readonly Row[], toKey: (row: Row) => string) {
  const latestByKey = new Map(latest.map((row) => [toKey(row), row]))
  const keys = shown.map(toKey)
  const known = new Set(keys)
  const firstKnown = latest.findIndex((row) => known.has(toKey(row)))
  return {
    rows: shown.map((row) => latestByKey.get(toKey(row)) ?? row),
    newCount: firstKnown < 0 ? latest.length : firstKnown,
    hasChanged: keys.join('\n') !== [...latestByKey.keys()].join('\n'),
  }
}
