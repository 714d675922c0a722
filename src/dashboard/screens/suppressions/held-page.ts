/** @module A page of a list that stays as it is while newer data arrive, until the reader asks for them. */
import type { UseQueryResult } from '@tanstack/react-query'
import { useState } from 'react'
import type { Pagination } from '#platform/http/envelope.ts'

interface PageData {
  readonly pagination: Pagination
}

interface Held<T> {
  readonly key: string
  readonly page: T
  /** Whether it was read since the screen was opened, so that it is replaced no more. */
  readonly isFresh: boolean
}

export interface HeldPage<T> {
  /** Undefined while there is none yet. */
  readonly page: T | undefined
  /** By how many rows the list has grown since. */
  readonly newCount: number
  /** Shows the newest data. */
  show(): void
  /** Reads the list again and shows it: after a change by the reader. */
  reload(): Promise<void>
}

/** @param key identifies filters and page */
export function useHeldPage<T extends PageData>(query: UseQueryResult<T>, key: string): HeldPage<T> {
  const [held, setHeld] = useState<Held<T>>()
  const latest = query.isPlaceholderData ? undefined : query.data
  const current = held?.key === key ? held : undefined
  const isFresh = query.isFetchedAfterMount
  if (latest && !current?.isFresh && (current?.page !== latest || current.isFresh !== isFresh))
    setHeld({ key, page: latest, isFresh })
  return {
    page: current?.page ?? query.data,
    newCount: latest && current ? Math.max(0, latest.pagination.total - current.page.pagination.total) : 0,
    show: () => latest && setHeld({ key, page: latest, isFresh: true }),
    reload: async () => {
      const { data } = await query.refetch()
      if (data) setHeld({ key, page: data, isFresh: true })
    },
  }
}
