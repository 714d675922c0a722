/**
 * @module The generator of load: HTTP requests or SMTP messages over persistent connections, one at a time on each, with
 * the time until the reply. Implements only what it needs of both protocols, to use little CPU.
 */
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { CommandError } from '#app/cli/errors.ts'
import { systemClock } from '#platform/time/clock.ts'

/** What is written, piece by piece, each after the reply to the one before. The last reply decides. */
export type Exchange = readonly (string | Uint8Array)[]

export interface LoadTarget {
  readonly protocol: 'http' | 'smtp'
  readonly port: number
  readonly connections: number
  /** What an accepted reply begins with. */
  readonly expected: string
  /** For submission over SMTP: the API key, sent over TLS from the first octet. */
  readonly key?: string
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
    const { socket, write } = await openConversation(target, index)
    for (let next = iterator.next(); !next.done; next = iterator.next()) {
      const beginMs = systemClock.monotonicMs()
      let reply = ''
      for (const piece of next.value) reply = await write(piece)
      if (!reply.startsWith(target.expected)) throw new CommandError(`The service replied ${reply.slice(0, 200)}`)
      waitedMs.push(systemClock.monotonicMs() - beginMs)
    }
    socket.end(target.protocol === 'smtp' ? 'QUIT\r\n' : '')
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

export const createMail = (mailFrom: string, rcptTo: string, message: string | Uint8Array): Exchange => [
  `MAIL FROM:<${mailFrom}>\r\n`,
  `RCPT TO:<${rcptTo}>\r\n`,
  'DATA\r\n',
  Buffer.concat([Buffer.from(message), Buffer.from('\r\n.\r\n')]),
]

interface Conversation {
  readonly socket: Socket
  write(piece: string | Uint8Array): Promise<string>
}

/**
 * Each connection comes from an address of its own where the loopback network has more than one: the service limits the
 * unprocessed messages of a network, and one network alone would reach that limit.
 */
const HAS_LOOPBACK_NETWORK = process.platform === 'linux'

async function openConversation({ protocol, port, key }: LoadTarget, index: number): Promise<Conversation> {
  const localAddress = HAS_LOOPBACK_NETWORK ? `127.0.0.${2 + (index % 250)}` : '127.0.0.1'
  const plain = connect({ host: '127.0.0.1', port, localAddress, noDelay: true })
  if (protocol === 'http') return { socket: plain, write: startConversation(plain, measureHttpReply) }
  const socket = key === undefined ? plain : connectTls({ socket: plain, rejectUnauthorized: false })
  const write = startConversation(socket, measureSmtpReply)
  // The greeting answers nothing.
  await write('')
  await write('EHLO client.bench.test\r\n')
  if (key !== undefined) await write(`AUTH PLAIN ${Buffer.from(`\0bench\0${key}`).toString('base64')}\r\n`)
  return { socket, write }
}

/** @param measureReply the length of the reply at the start of a text; 0: it is not complete */
function startConversation(socket: Socket, measureReply: (text: string) => number): Conversation['write'] {
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

/** The last line of a reply has a space after its code (RFC 5321 §4.2.1). */
const LAST_LINE = /^\d{3}(?: .*)?\r\n/m

function measureSmtpReply(text: string): number {
  const match = LAST_LINE.exec(text)
  return match ? match.index + match[0].length : 0
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
