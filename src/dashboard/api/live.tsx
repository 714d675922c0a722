/**
 * @module Live updates: one event stream a browser, whatever the number of tabs, because a browser opens only six
 * connections to a host over HTTP/1.1. The tab that holds a Web Lock reads the stream and broadcasts the events. Without
 * a stream, every tab refreshes its data periodically.
 */
import { useWindowEvent } from '@mantine/hooks'
import { type UseQueryResult, useQueryClient } from '@tanstack/react-query'
import { createContext, type ReactNode, useCallback, useContext, useEffect, useRef, useState } from 'react'
import type { Event } from '#client/api.ts'
import { STATE_NAMES } from '../parts/tone.ts'
import { useSession } from './session.tsx'

/** `connecting`: unknown yet; `polling`: there is no stream now. */
export type LiveState = 'connecting' | 'live' | 'polling'

type Message = { readonly kind: 'event'; readonly event: Event } | { readonly kind: 'state'; readonly state: LiveState }
type Listener = (event: Event) => void

const POLL_MS = 15_000
/** A stream that has not opened after this time counts as none; it may still open. */
const OPEN_TIMEOUT_MS = 8000
const RETRY_MS = 30_000

const StateContext = createContext<LiveState>('connecting')
const ListenersContext = createContext<
  ReadonlySet<Listener> & { add(listener: Listener): unknown; delete(listener: Listener): unknown }
>(new Set())

export const useLiveState = (): LiveState => useContext(StateContext)

export function useLiveEvents(listener: Listener): void {
  const listeners = useContext(ListenersContext)
  const latest = useRef(listener)
  latest.current = listener
  useEffect(() => {
    const call: Listener = (event) => latest.current(event)
    listeners.add(call)
    return () => {
      listeners.delete(call)
    }
  }, [listeners])
}

export function LiveProvider({ children }: { readonly children: ReactNode }) {
  const { account, role } = useSession()
  const [state, setState] = useState<LiveState>('connecting')
  const [listeners] = useState(() => new Set<Listener>())
  const queries = useQueryClient()
  useEffect(() => {
    const receive = (message: Message): void => {
      if (message.kind === 'state') setState(message.state)
      else for (const listener of listeners) listener(message.event)
    }
    // It may not read the stream.
    if (role === 'support') return setState('polling')
    return openLiveChannel(account.id, receive)
  }, [account.id, role, listeners])
  useEffect(() => {
    if (state !== 'polling') return
    const timer = setInterval(() => void queries.invalidateQueries({ refetchType: 'active' }), POLL_MS)
    return () => clearInterval(timer)
  }, [state, queries])
  return (
    <StateContext value={state}>
      <ListenersContext value={listeners}>{children}</ListenersContext>
    </StateContext>
  )
}

/** @returns a function that closes the channel */
function openLiveChannel(accountId: string, receive: (message: Message) => void): () => void {
  const name = `tassis-live-${accountId}`
  const channel = new BroadcastChannel(name)
  channel.onmessage = ({ data }: MessageEvent<Message>) => receive(data)
  const ending = new AbortController()
  const send = (message: Message): void => {
    receive(message)
    channel.postMessage(message)
  }
  // Without Web Locks (an insecure origin) every tab polls.
  if (navigator.locks === undefined) receive({ kind: 'state', state: 'polling' })
  else
    void navigator.locks
      .request(name, { signal: ending.signal }, () => readStream(send, ending.signal))
      .catch(() => undefined)
  // A tab that opens later asks for nothing: the leader repeats its state.
  return () => {
    ending.abort()
    channel.close()
  }
}

/** Reads the stream until `signal`; resolves then. */
function readStream(send: (message: Message) => void, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let source: EventSource | undefined
    let timer: ReturnType<typeof setTimeout> | undefined
    let state: LiveState = 'connecting'
    const setState = (next: LiveState): void => {
      state = next
      send({ kind: 'state', state })
    }
    const repeat = setInterval(() => send({ kind: 'state', state }), 5000)
    const open = (): void => {
      source = new EventSource('/v1/events?after=latest')
      source.onopen = () => setState('live')
      source.onerror = () => {
        // The browser reconnects automatically after a lost connection, not after an error response.
        setState('polling')
        if (source?.readyState !== EventSource.CLOSED) return
        timer = setTimeout(open, RETRY_MS)
      }
      const onEvent = ({ data }: MessageEvent<string>) => send({ kind: 'event', event: JSON.parse(data) as Event })
      // A browser passes named events only to listeners of that name.
      for (const type of STATE_NAMES) source.addEventListener(type, onEvent)
    }
    const opening = setTimeout(() => state === 'connecting' && setState('polling'), OPEN_TIMEOUT_MS)
    open()
    signal.addEventListener('abort', () => {
      clearInterval(repeat)
      clearTimeout(timer)
      clearTimeout(opening)
      source?.close()
      resolve()
    })
  })
}

/** The first request after an event; a burst causes one request in each longer interval. */
const FIRST_REFRESH_MS = 400
const REFRESH_INTERVAL_MS = 5000

/** Calls `refresh` soon after the returned function was called, rarely during a burst, and only while the page is visible. */
export function useRefreshSoon(refresh: () => unknown, intervalMs = REFRESH_INTERVAL_MS): () => void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const refreshedAt = useRef(Number.NEGATIVE_INFINITY)
  const latest = useRef(refresh)
  latest.current = refresh
  const isMissed = useRef(false)
  useEffect(() => () => clearTimeout(timer.current), [])
  useWindowEvent('visibilitychange', () => {
    if (document.visibilityState !== 'visible' || !isMissed.current) return
    isMissed.current = false
    latest.current()
  })
  return useCallback(() => {
    if (timer.current !== undefined) return
    const waitMs = Math.max(FIRST_REFRESH_MS, refreshedAt.current + intervalMs - performance.now())
    timer.current = setTimeout(() => {
      timer.current = undefined
      refreshedAt.current = performance.now()
      if (document.visibilityState === 'visible') latest.current()
      else isMissed.current = true
    }, waitMs)
  }, [intervalMs])
}

/**
 * Reads a query again after an event. A first read that is in progress may be older than the event; `refetch` only waits
 * for it, so it is repeated.
 */
export async function refetch(query: UseQueryResult<unknown>): Promise<void> {
  const isFirstRead = query.data === undefined || query.isPlaceholderData
  await query.refetch()
  if (isFirstRead) await query.refetch()
}

/** Reads a query again soon after the events that concern it. */
export function useReadAgainAfter(
  query: UseQueryResult<unknown>,
  isConcerned: (event: Event) => boolean,
  intervalMs?: number,
): void {
  const refreshSoon = useRefreshSoon(() => refetch(query), intervalMs)
  useLiveEvents((event) => {
    if (isConcerned(event)) refreshSoon()
  })
}
