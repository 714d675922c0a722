/**
 * @module The load generator of the benchmark, in its own process: posts emails over persistent connections, one
 * request at a time on each, and measures latency. Implements only the HTTP it needs, to use little CPU.
 */
import { connect, type Socket } from 'node:net'
import type { Clock } from '#platform/clock.ts'
import { createRequestBuilder } from './mails.ts'

export interface LoadJob {
  readonly host: string
  readonly port: number
  readonly key: string
  readonly connections: number
  /** Number of the first email. */
  readonly from: number
  /** The job ends after this many emails or after `seconds`, whichever comes first. */
  readonly emails: number
  readonly seconds: number
  /** RFC 3339 time; null for immediate sending. */
  readonly sendAt: string | null
  /** Recipient domains that take turns; 1 by default. */
  readonly domains?: number
}

export interface LoadResult {
  /** Requests answered with the expected status. */
  readonly accepted: number
  /** Requests answered with another status. */
  readonly refused: number
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** GET requests, one per path. */
export interface GetJob {
  readonly host: string
  readonly port: number
  readonly connections: number
  readonly paths: readonly string[]
  /** Expected status. */
  readonly status: number
}

/** Runs a job; resolves when the last response has arrived. Rejects when a connection is lost. */
export function runLoad(job: LoadJob, clock: Clock): Promise<LoadResult> {
  const request = createRequestBuilder(`${job.host}:${job.port}`, job.key, job.sendAt ?? undefined, job.domains)
  let next = job.from
  const endMs = clock.monotonicMs() + job.seconds * 1000
  const nextRequest = () =>
    next >= job.from + job.emails || clock.monotonicMs() >= endMs ? undefined : request(next++)
  return exchange(job, 202, nextRequest, clock)
}

/** Runs a job of GET requests; resolves and rejects like `runLoad`. */
export function runGets(job: GetJob, clock: Clock): Promise<LoadResult> {
  const paths = job.paths.values()
  const nextRequest = () => {
    const { value: path, done } = paths.next()
    return done
      ? undefined
      : Buffer.from(`GET ${path} HTTP/1.1\r\nHost: ${job.host}:${job.port}\r\nUser-Agent: ${BROWSER}\r\n\r\n`)
  }
  return exchange(job, job.status, nextRequest, clock)
}

const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'

/** Sends requests over persistent connections, one at a time on each, until `nextRequest` returns none. */
async function exchange(
  job: { readonly host: string; readonly port: number; readonly connections: number },
  expectedStatus: number,
  nextRequest: () => Buffer | undefined,
  clock: Clock,
): Promise<LoadResult> {
  const sockets = await Promise.all(Array.from({ length: job.connections }, () => openConnection(job)))
  const latenciesMs: number[] = []
  let refused = 0
  const startedMs = clock.monotonicMs()

  const exchangeOver = (socket: Socket): Promise<void> =>
    new Promise((resolve, reject) => {
      let sentMs = 0
      let received = ''
      const send = () => {
        sentMs = clock.monotonicMs()
        const request = nextRequest()
        if (request === undefined) {
          socket.end()
          return resolve()
        }
        socket.write(request)
      }
      socket.on('data', (chunk: Buffer) => {
        received += chunk.toString('latin1')
        if (!isComplete(received)) return
        if (received.startsWith(`HTTP/1.1 ${expectedStatus}`)) latenciesMs.push(clock.monotonicMs() - sentMs)
        else refused++
        received = ''
        send()
      })
      socket.on('error', reject)
      socket.on('close', () => reject(new Error('the service closed a connection of the load generator')))
      send()
    })

  await Promise.all(sockets.map(exchangeOver))
  return summarise(latenciesMs, refused, (clock.monotonicMs() - startedMs) / 1000)
}

/** @param waitedMs latencies of accepted requests, in any order */
export function summarise(waitedMs: readonly number[], refused: number, seconds: number): LoadResult {
  const sorted = waitedMs.toSorted((a, b) => a - b)
  return {
    accepted: sorted.length,
    refused,
    seconds,
    p50Ms: pickPercentile(sorted, 0.5),
    p99Ms: pickPercentile(sorted, 0.99),
  }
}

const HEADER_END = '\r\n\r\n'

function isComplete(response: string): boolean {
  const headerEnd = response.indexOf(HEADER_END)
  if (headerEnd < 0) return false
  const length = Number(/^content-length: *(\d+)/im.exec(response.slice(0, headerEnd))?.[1] ?? Number.NaN)
  if (Number.isNaN(length)) throw new Error('a response has no Content-Length')
  return response.length >= headerEnd + HEADER_END.length + length
}

const pickPercentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)] ?? Number.NaN

const openConnection = ({ host, port }: { readonly host: string; readonly port: number }): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true }, () => {
      socket.off('error', reject)
      resolve(socket)
    })
    socket.once('error', reject)
  })
