/**
 * @module Keeps descriptors free for Workers, the database, mail and requests: when few are left, closes idle
 * connections of the HTTP listeners, and lets new ones wait until there are enough again.
 */
import { systemClock, type Timer } from '../clock.ts'
import { countDescriptors } from '../descriptors.ts'
import { closeIdleConnections, setAccepting } from './connections.ts'
import type { TlsListener } from './tls-listener.ts'

export interface GuardedConnection {
  /** The port of the client while the request or its response lasts, then undefined. */
  peerPort(): number | undefined
}

export interface GuardOptions {
  readonly log: { warn(context: object, message: string): void }
}

/** Of the descriptors, a quarter is not for idle connections, at most so many. */
const MAX_RESERVE = 256
/** Between two looks at the descriptors: while there are few, and otherwise. */
const SHORT_PAUSE_MS = 5
const LONG_PAUSE_MS = 100
/** Without few descriptors for so long, the next time is logged again. */
const WARN_INTERVAL_MS = 60_000

export class ConnectionGuard {
  /** Connections with a request, or a response that lasts. */
  readonly busy = new Set<GuardedConnection>()
  /** Ports of the HTTP listeners, and those that clients know. */
  readonly ports = new Set<number>()
  readonly publicPorts = new Set<number>()
  /** Addresses of the clients of the TLS listener, by the port of their connection from it. */
  readonly tlsClients = new Map<number, string>()
  tls: TlsListener | undefined
  readonly #options: GuardOptions
  #timer: Timer | undefined
  #isAccepting = true
  #warnedAtMs = Number.NEGATIVE_INFINITY

  constructor(options: GuardOptions) {
    this.#options = options
  }

  start(): void {
    if (!this.#timer) this.#check()
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #check(): void {
    // Descriptors are the system's, whatever clock the service has, and a day of a test has a million pauses.
    const startMs = systemClock.monotonicMs()
    const { free, limit } = countDescriptors()
    const reserve = Math.min(MAX_RESERVE, limit / 4)
    const busyPorts = new Set<number>()
    let closed = 0
    for (const connection of this.busy) {
      const port = connection.peerPort()
      if (port === undefined) this.busy.delete(connection)
      else busyPorts.add(port)
    }
    if (free < reserve) {
      // After a burst, as many again wait to be accepted, and those that are closed come back at once.
      const count = Math.ceil(free < reserve / 2 ? limit / 2 : 1.25 * reserve - free)
      closed = closeIdleConnections(count, {
        ports: this.ports,
        isBusy: (port) => busyPorts.has(port),
        clientOf: (port) => this.tlsClients.get(port),
      })
      closed += this.tls?.closeWaiting(count - closed) ?? 0
      if (startMs - this.#warnedAtMs > WARN_INTERVAL_MS)
        this.#options.log.warn({ free, limit, closed }, 'few file descriptors are left: closing idle connections')
      this.#warnedAtMs = startMs
    }
    // Without idle connections, others need the descriptors.
    const isAccepting = free >= reserve || closed === 0 || (this.#isAccepting && free >= reserve / 2)
    if (isAccepting !== this.#isAccepting) setAccepting(isAccepting, this.publicPorts)
    this.#isAccepting = isAccepting
    // Where there are many descriptors, looking takes milliseconds.
    const pauseMs = Math.max(
      free < 2 * reserve ? SHORT_PAUSE_MS : LONG_PAUSE_MS,
      10 * (systemClock.monotonicMs() - startMs),
    )
    this.#timer = systemClock.after(pauseMs, () => this.#check())
  }
}
