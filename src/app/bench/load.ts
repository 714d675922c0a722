/**
 * @module The bench's load generator, in a process of its own: posts emails over kept connections, one request at a time on each, and measures what
 * it waits. Speaks just the HTTP that this needs, so that it takes little of the machine.
 */
import { connect, type Socket } from 'node:net'
import type { Clock } from '#platform/clock.ts'
import { sendRequests } from './mails.ts'

export interface LoadJob {
  readonly host: string
  readonly port: number
  readonly key: string
  readonly connections: number
  /** Number of the first email. */
  readonly from: number
  /** Ends after so many emails, or after `seconds`, whichever comes first. */
  readonly emails: number
  readonly seconds: number
  /** RFC 3339; null: now. */
  readonly sendAt: string | null
}

export interface LoadResult {
  /** Answered with 202. */
  readonly accepted: number
  /** Answered otherwise. */
  readonly refused: number
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Runs a job; resolves when the last answer is there. Rejects when a connection is lost. */
export async function runLoad(job: LoadJob, clock: Clock): Promise<LoadResult> {
  const request = sendRequests(`${job.host}:${job.port}`, job.key, job.sendAt ?? undefined)
  const sockets = await Promise.all(Array.from({ length: job.connections }, () => open(job)))
  const latenciesMs: number[] = []
  let refused = 0
  let next = job.from
  const startedMs = clock.monotonicMs()
  const endMs = startedMs + job.seconds * 1000

  const converse = (socket: Socket): Promise<void> =>
    new Promise((resolve, reject) => {
      let sentMs = 0
      let received = ''
      const send = () => {
        sentMs = clock.monotonicMs()
        if (next >= job.from + job.emails || sentMs >= endMs) {
          socket.end()
          return resolve()
        }
        socket.write(request(next++))
      }
      socket.on('data', (chunk: Buffer) => {
        received += chunk.toString('latin1')
        if (!isWhole(received)) return
        if (received.startsWith('HTTP/1.1 202')) latenciesMs.push(clock.monotonicMs() - sentMs)
        else refused++
        received = ''
        send()
      })
      socket.on('error', reject)
      socket.on('close', () => reject(new Error('the service closed a connection of the load generator')))
      send()
    })

  await Promise.all(sockets.map(converse))
  const seconds = (clock.monotonicMs() - startedMs) / 1000
  latenciesMs.sort((a, b) => a - b)
  return {
    accepted: latenciesMs.length,
    refused,
    seconds,
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
  }
}

const HEADER_END = '\r\n\r\n'

function isWhole(response: string): boolean {
  const headerEnd = response.indexOf(HEADER_END)
  if (headerEnd < 0) return false
  const length = Number(/^content-length: *(\d+)/im.exec(response.slice(0, headerEnd))?.[1] ?? Number.NaN)
  if (Number.isNaN(length)) throw new Error('an answer without Content-Length')
  return response.length >= headerEnd + HEADER_END.length + length
}

const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)] ?? Number.NaN

const open = ({ host, port }: LoadJob): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true }, () => {
      socket.off('error', reject)
      resolve(socket)
    })
    socket.once('error', reject)
  })
