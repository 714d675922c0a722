/** @module Reads data again after events, without a request for each of them. */
import type { UseQueryResult } from '@tanstack/react-query'
import { useCallback, useEffect, useRef } from 'react'

/** The first request after an event; a burst causes one request in each longer interval. */
const FIRST_REFRESH_MS = 400
const REFRESH_INTERVAL_MS = 5000

/** Calls `refresh` soon after the returned function was called, rarely during a burst, and only while the page is visible. */
export function useRefreshSoon(refresh: () => unknown, intervalMs = REFRESH_INTERVAL_MS): () => void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const refreshedAt = useRef(Number.NEGATIVE_INFINITY)
  const latest = useRef(refresh)
  latest.current = refresh
  useEffect(() => () => clearTimeout(timer.current), [])
  return useCallback(() => {
    if (timer.current !== undefined) return
    const waitMs = Math.max(FIRST_REFRESH_MS, refreshedAt.current + intervalMs - performance.now())
    timer.current = setTimeout(() => {
      timer.current = undefined
      refreshedAt.current = performance.now()
      if (document.visibilityState === 'visible') latest.current()
    }, waitMs)
  }, [intervalMs])
}

/**
 * Reads a query again after an event. A first read that is in progress may be older than the event; `refetch` only waits
 * for it, so it is repeated.
 */
export async function readAgain(query: UseQueryResult<unknown>): Promise<void> {
  const isFirstRead = query.data === undefined || query.isPlaceholderData
  await query.refetch()
  if (isFirstRead) await query.refetch()
}
