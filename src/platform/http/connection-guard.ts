/**
 * @module Keeps descriptors free for Workers, the database, mail and requests: when few are left, closes the connections
 * of the HTTP listeners that have been idle longest. Bun's HTTP server accepts as many as come, and closes those that
 * have sent nothing only after ten seconds. Linux only.
 */
import { dlopen, ptr } from 'bun:ffi'
import { attempt } from '#platform/errors.ts'
import { countDescriptors, listDescriptors } from '#platform/process/descriptors.ts'
import { systemClock, type Timer } from '#platform/time/clock.ts'
import { perOwner } from '../per-owner.ts'

export interface GuardOptions {
  readonly log: { warn(context: object, message: string): void }
}

/** A connection of a TLS listener, whose octets go to the HTTP server by another one. */
export interface TlsClient {
  readonly address: string
  readonly port: number
}

/** Of the descriptors, a quarter is not for idle connections, at most so many. */
const MAX_RESERVE = 256
/** Between two looks at the descriptors: while there are few, and otherwise. */
const SHORT_PAUSE_MS = 5
const LONG_PAUSE_MS = 100
/** Without few descriptors for so long, the next time is logged again. */
const WARN_INTERVAL_MS = 60_000

export class ConnectionGuard {
  /** Of each request, the port of its client: undefined once the response has ended. */
  readonly requests = new Set<() => number | undefined>()
  /** Ports of the HTTP and TLS listeners. */
  readonly ports = new Set<number>()
  /** By the port of their connection to the HTTP server. */
  readonly tlsClients = new Map<number, TlsClient>()
  readonly #log: GuardOptions['log']
  #timer: Timer | undefined
  #warnedAtMs = Number.NEGATIVE_INFINITY

  constructor({ log }: GuardOptions) {
    this.#log = log
  }

  start(): void {
    if (!this.#timer) this.#check()
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #check(): void {
    const startMs = systemClock.monotonicMs()
    const { free, limit } = countDescriptors()
    const reserve = Math.min(MAX_RESERVE, limit / 4)
    const busyPorts = new Set([...this.tlsClients.values()].map(({ port }) => port))
    for (const readPort of this.requests) {
      const port = readPort()
      if (port === undefined) this.requests.delete(readPort)
      else busyPorts.add(port)
    }
    if (free < reserve) {
      // After a burst, as many again wait to be accepted, and those that are closed come back at once.
      const count = Math.ceil(free < reserve / 2 ? limit / 2 : 1.25 * reserve - free)
      const closed = closeIdleConnections(count, this.ports, busyPorts)
      if (startMs - this.#warnedAtMs > WARN_INTERVAL_MS)
        this.#log.warn({ free, limit, closed }, 'few file descriptors are left: closing idle connections')
      this.#warnedAtMs = startMs
    }
    // Where there are many descriptors, looking takes milliseconds.
    const lookedMs = systemClock.monotonicMs() - startMs
    const pauseMs = Math.max(free < 2 * reserve ? SHORT_PAUSE_MS : LONG_PAUSE_MS, 10 * lookedMs)
    this.#timer = systemClock.after(pauseMs, () => this.#check())
  }
}

const SYMBOLS = {
  getsockname: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
  getpeername: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
  getsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'ptr'], returns: 'i32' },
  shutdown: { args: ['i32', 'i32'], returns: 'i32' },
} as const

/** By soname: the library that the process has loaded already. Undefined where there is none. */
const openLibrary = perOwner(({ platform }: typeof process) =>
  platform === 'linux' ? attempt(() => dlopen('libc.so.6', SYMBOLS).symbols) : undefined,
)

const SHUT_RDWR = 2
const IPPROTO_TCP = 6
const TCP_INFO = 11
/** Where struct tcp_info has tcpi_last_data_sent and tcpi_last_data_recv, in words. */
const [SENT_AT, RECEIVED_AT] = [11, 13]
const AF_INET = 2
const AF_INET6 = 10
/** A struct sockaddr, which begins with the family. */
const address = new Uint8Array(28)
const family = new Uint16Array(address.buffer, 0, 1)
const info = new Uint32Array(26)
const length = new Uint32Array(1)

/**
 * Closes those that have been idle longest.
 * @param ports of the listeners of this process whose connections are meant
 * @param busyPorts the connections with these ports of their clients must stay
 * @returns how many it closed
 */
export function closeIdleConnections(
  count: number,
  ports: ReadonlySet<number>,
  busyPorts: ReadonlySet<number>,
): number {
  const library = openLibrary(process)
  if (!library) return 0
  /** The port of one end of a TCP connection; 0 for whatever is none. */
  const readPort = (name: 'getsockname' | 'getpeername', descriptor: number): number => {
    // Of a socket without an address, such as a pipe of a child process, the system writes the family alone.
    address.fill(0)
    length[0] = address.length
    library[name](descriptor, ptr(address), ptr(length))
    return [AF_INET, AF_INET6].includes(family[0] ?? 0) ? Buffer.from(address.buffer).readUInt16BE(2) : 0
  }
  // Of those that were idle equally long, the last ones that came: the first may have a request that was not read yet.
  const oldest = listDescriptors()
    .reverse()
    .filter((descriptor) => {
      const peerPort = ports.has(readPort('getsockname', descriptor)) ? readPort('getpeername', descriptor) : 0
      return peerPort !== 0 && !busyPorts.has(peerPort)
    })
    .map((descriptor) => {
      length[0] = info.byteLength
      library.getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, ptr(info), ptr(length))
      return { descriptor, idleMs: Math.min(info[SENT_AT] ?? 0, info[RECEIVED_AT] ?? 0) }
    })
    .sort((a, b) => b.idleMs - a.idleMs)
    .slice(0, count)
  // The server then sees the end of the connection, and closes the descriptor itself.
  for (const { descriptor } of oldest) library.shutdown(descriptor, SHUT_RDWR)
  return oldest.length
}
