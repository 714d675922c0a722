/**
 * @module A reader of the event feed for tests: pages, and streams parsed according to the HTML Standard, section
 * 9.2.6. Shares no code with the service.
 */
import { connect, type Socket } from 'node:net'
import type { App } from '#features/core/app/app.ts'
import { type EventType, record } from '#features/core/events/record.ts'
import { type ApiClient, at, type TestApi } from '#test/support/api.ts'

export interface FeedPage {
  readonly data: readonly (Record<string, unknown> & { seq: number; type: string })[]
  readonly next_after: number
  /** Newest first only. */
  readonly next_before?: number | null
  readonly first_seq: number
  readonly last_seq: number
}

/** A page of the feed; fails on any status but 200. */
export async function page(api: ApiClient, query = ''): Promise<FeedPage> {
  const { status, body } = await api('GET', `/v1/events${query}`)
  if (status !== 200) throw new Error(`${query}: ${status} ${JSON.stringify(body)}`)
  return body as FeedPage
}

/** All events after a position, read page by page. */
export async function readAll(api: ApiClient, after: number, limit = 1000): Promise<FeedPage['data']> {
  const events: FeedPage['data'][number][] = []
  for (let position = after; ; ) {
    const { data, next_after } = await page(api, `?after=${position}&limit=${limit}`)
    events.push(...data)
    if (next_after === position) return events
    position = next_after
  }
}

export interface StreamedEvent {
  readonly id: string
  readonly event: string
  readonly data: unknown
}

export interface StreamClient extends Disposable {
  readonly response: Response
  /** Events that `next` has not returned yet. */
  readonly waiting: readonly StreamedEvent[]
  readonly comments: readonly string[]
  /** The id that a client would send as Last-Event-ID. */
  lastEventId(): string
  retryMs(): number | undefined
  /** The next event; undefined when the stream has ended. */
  next(): Promise<StreamedEvent | undefined>
  /** Resolves when the stream has ended, by the service or by `close`. */
  readonly ended: Promise<void>
  /** Disconnects. */
  close(): void
}

export interface StreamOptions {
  /** A key, or the headers of a session. */
  readonly key: string | Readonly<Record<string, string>>
  readonly query?: string
  readonly lastEventId?: string
}

/** Connects; fails on any status but 200. */
export async function openStream(url: string, { key, query = '', lastEventId }: StreamOptions): Promise<StreamClient> {
  const leaving = new AbortController()
  const response = await fetch(`${url}/v1/events${query}`, {
    headers: {
      ...(typeof key === 'string' ? { authorization: `Bearer ${key}` } : key),
      accept: 'text/event-stream',
      ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
    },
    signal: leaving.signal,
  })
  if (response.status !== 200 || !response.body) throw new Error(`${response.status}: ${await response.text()}`)
  const state = { id: '', retryMs: undefined as number | undefined }
  const comments: string[] = []
  const events: StreamedEvent[] = []
  let isEnded = false
  let wake = () => {}

  let data: string[] = []
  let event = ''
  const onLine = (line: string): void => {
    if (line === '') {
      if (data.length > 0) events.push({ id: state.id, event, data: JSON.parse(data.join('\n')) })
      data = []
      event = ''
      return
    }
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === '') comments.push(value)
    else if (field === 'id') state.id = value
    else if (field === 'event') event = value
    else if (field === 'data') data.push(value)
    else if (field === 'retry') state.retryMs = Number(value)
    else throw new Error(`unknown field in: ${line}`)
  }
  const readAlong = async (body: ReadableStream<Uint8Array>): Promise<void> => {
    const decoder = new TextDecoder()
    let rest = ''
    for await (const bytes of body) {
      rest += decoder.decode(bytes, { stream: true })
      const lines = rest.split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) onLine(line)
      wake()
    }
  }
  const ended = readAlong(response.body)
    .catch((error) => {
      if (!leaving.signal.aborted) throw error
    })
    .finally(() => {
      isEnded = true
      wake()
    })
  ended.catch(() => {})

  return {
    response,
    waiting: events,
    comments,
    lastEventId: () => state.id,
    retryMs: () => state.retryMs,
    async next() {
      while (events.length === 0 && !isEnded) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
      return events.shift()
    },
    ended,
    close: () => leaving.abort(),
    [Symbol.dispose]: () => leaving.abort(),
  }
}

/** The `seq` of the next `count` events. */
export async function nextSeqs(stream: StreamClient, count: number): Promise<number[]> {
  const seqs: number[] = []
  while (seqs.length < count) {
    const event = await stream.next()
    if (!event) throw new Error(`the stream ended after ${seqs.length} of ${count} events`)
    seqs.push(Number(at(event.data, 'seq')))
  }
  return seqs
}

/** `from` to `to`, both included. */
export const numbers = (from: number, to: number): number[] =>
  Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => from + index)

/** Records events as the service does, one of each given type, in one transaction; resolves when they are durable. */
export const recordEvents = (app: App, accountId: number, types: readonly EventType[], data?: object): Promise<void> =>
  app.commit.write((tx) => {
    for (const type of types) record(tx, { accountId, type, at: app.eventTime(), ...(data && { data }) })
  })

/** Inserts `count` events directly, without the gate, for tests that need very many. Emits no signal. */
export function seedEvents(app: App, accountId: number, count: number, type = 0, data: string | null = null): void {
  const db = app.db
  const last = db
    .query<{ last_seq: number }, [number]>('SELECT last_seq FROM event_sequences WHERE account_id = ?')
    .get(accountId)?.last_seq
  const from = (last ?? 0) + 1
  db.run('BEGIN')
  db.query(
    `WITH RECURSIVE n(seq) AS (SELECT ?1 UNION ALL SELECT seq + 1 FROM n WHERE seq < ?2)
     INSERT INTO events (account_id, seq, type, at, email_id, recipient_id, data) SELECT ?3, seq, ?4, 1, NULL, NULL, ?5 FROM n`,
  ).run(from, from + count - 1, accountId, type, data)
  db.run(
    'INSERT INTO event_sequences (account_id, last_seq) VALUES (?, ?) ON CONFLICT DO UPDATE SET last_seq = excluded.last_seq',
    [accountId, from + count - 1],
  )
  db.run('COMMIT')
}

/** A client that requests a stream and never reads the response. */
export async function openUnread({ url, key }: Pick<TestApi, 'url' | 'key'>): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  await new Promise((resolve) => socket.once('connect', resolve))
  socket.pause()
  socket.write(
    `GET /v1/events?after=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nAccept: text/event-stream\r\n\r\n`,
  )
  return socket
}
