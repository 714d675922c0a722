/**
 * @module The generator of load: requests over persistent connections, one at a time on each, with the time until the
 * response. Implements only what it needs of HTTP, to use little CPU.
 */
import { connect, type Socket } from 'node:net'
import { CommandError } from '#app/cli/options.ts'
import { systemClock } from '#platform/time/clock.ts'

/** What is written, piece by piece, each after the reply to the one before. The last reply decides. */
export type Exchange = readonly (string | Uint8Array)[]

export interface LoadTarget {
  readonly connections: number
  /** What an accepted reply begins with. */
  readonly expected: string
  /** @param index of the connection */
  open(index: number): Conversation | Promise<Conversation>
}

export interface Conversation {
  /** Resolves with the reply. */
  write(piece: string | Uint8Array): Promise<string>
  end(): void
}

export interface LoadResult {
  readonly accepted: number
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Resolves when the last reply has arrived. Rejects when a connection is lost or a reply is not as expected. */
export async function runLoad(target: LoadTarget, exchanges: Iterable<Exchange>): Promise<LoadResult> {
  const waitedMs: number[] = []
  const iterator = exchanges[Symbol.iterator]()
  const startedMs = systemClock.monotonicMs()
  const converse = async (_: unknown, index: number): Promise<void> => {
    const conversation = await target.open(index)
    for (let next = iterator.next(); !next.done; next = iterator.next()) {
      const beginMs = systemClock.monotonicMs()
      let reply = ''
      for (const piece of next.value) reply = await conversation.write(piece)
      if (!reply.startsWith(target.expected)) throw new CommandError(`The service replied ${reply.slice(0, 200)}`)
      waitedMs.push(systemClock.monotonicMs() - beginMs)
    }
    conversation.end()
  }
  await Promise.all(Array.from({ length: target.connections }, converse))
  const seconds = (systemClock.monotonicMs() - startedMs) / 1000
  return { accepted: waitedMs.length, seconds, ...computePercentiles(waitedMs) }
}

export function computePercentiles(waitedMs: readonly number[]): Pick<LoadResult, 'p50Ms' | 'p99Ms'> {
  const sorted = waitedMs.toSorted((a, b) => a - b)
  const pick = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN
  return { p50Ms: pick(0.5), p99Ms: pick(0.99) }
}

/** Connects to an HTTP server on this machine. */
export const openHttp = (port: number) => (): Conversation => {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true })
  return { write: startConversation(socket, measureHttpReply), end: () => void socket.end() }
}

/** @param measureReply the length of the reply at the start of a text; 0: it is not complete */
export function startConversation(socket: Socket, measureReply: (text: string) => number): Conversation['write'] {
  let received = ''
  let lost: Error | undefined
  let waiting: PromiseWithResolvers<string> | undefined
  const settle = () => {
    const length = waiting ? measureReply(received) : 0
    if (length > 0) {
      waiting?.resolve(received.slice(0, length))
      received = received.slice(length)
      waiting = undefined
    } else if (lost) waiting?.reject(lost)
  }
  const lose = (reason: string) => {
    lost ??= new CommandError(`The benchmark lost a connection: ${reason}`)
    settle()
  }
  socket.setEncoding('latin1')
  socket.on('data', (chunk: string) => {
    received += chunk
    settle()
  })
  socket.on('error', (error) => lose(error.message))
  socket.on('close', () => lose('closed'))
  return (piece) => {
    if (piece.length > 0) socket.write(piece)
    waiting = Promise.withResolvers()
    const { promise } = waiting
    settle()
    return promise
  }
}

const HEADER_END = '\r\n\r\n'
const LAST_CHUNK = '\r\n0\r\n\r\n'

function measureHttpReply(text: string): number {
  const headerEnd = text.indexOf(HEADER_END)
  if (headerEnd < 0) return 0
  const length = /^content-length: *(\d+)/im.exec(text.slice(0, headerEnd))?.[1]
  if (length === undefined) return text.endsWith(LAST_CHUNK) ? text.length : 0
  const end = headerEnd + HEADER_END.length + Number(length)
  return text.length >= end ? end : 0
}
