/**
 * @module The open SMTP sessions of one Worker that count against one connection limit: those in use, and idle ones by
 * site. Ends sessions that are too old, idle for too long or in the way of another site. Never dials and never sends a
 * message.
 */
import type { Clock, Timer } from '#platform/time/clock.ts'
import type { ConnectionLimits } from '../model/protocol.ts'
import type { Connection } from './connections.ts'

interface IdleSession {
  readonly site: string
  readonly connection: Connection
  readonly timer: Timer
}

/**
 * Each running attempt counts as one session, whether it dials, sends, or waits for another session to end. A session
 * counts until its connection is closed, so the limit also holds as the receiver counts.
 */
export class SessionPool {
  readonly #clock: Clock
  readonly #onFreed: () => void
  #limits: ConnectionLimits
  /** Oldest first. */
  #idle: IdleSession[] = []
  #running = 0
  readonly #closing = new Set<Promise<void>>()

  /** @param onFreed called when a session was closed while no attempt used it */
  constructor(clock: Clock, limits: ConnectionLimits, onFreed: () => void) {
    this.#clock = clock
    this.#limits = limits
    this.#onFreed = onFreed
  }

  /** Whether no session is open and no attempt runs. */
  get isEmpty(): boolean {
    return this.#running + this.#idle.length + this.#closing.size === 0
  }

  /** Changes the limits. Idle sessions above them end; those in use end after their message. */
  setLimits(limits: ConnectionLimits): void {
    this.#limits = limits
    this.#closeSurplus()
  }

  /** Whether another attempt may begin. */
  hasCapacity(isBulk: boolean): boolean {
    const { connections, bulkConnections } = this.#limits
    return this.#running + this.#closing.size < (isBulk ? bulkConnections : connections)
  }

  /** Whether an attempt may ever begin: a Worker may have no share of a small limit. */
  isAllowed(isBulk: boolean): boolean {
    return (isBulk ? this.#limits.bulkConnections : this.#limits.connections) > 0
  }

  beginAttempt(): void {
    this.#running++
  }

  /** Ends an attempt, after `release` of its session. */
  endAttempt(): void {
    this.#running--
  }

  /** An idle session of the site; undefined when there is none. */
  reuse(site: string): Connection | undefined {
    for (;;) {
      const index = this.#idle.findLastIndex((idle) => idle.site === site)
      const [idle] = index < 0 ? [] : this.#idle.splice(index, 1)
      if (!idle) return undefined
      idle.timer.cancel()
      if (idle.connection.client.isUsable) return { ...idle.connection, isReused: true }
      idle.connection.client.destroy()
    }
  }

  /** Resolves when an attempt may dial: ends idle sessions of other sites first, oldest first, where needed. */
  async waitForCapacity(): Promise<void> {
    this.#closeSurplus()
    while (this.#closing.size > 0 && this.#openCount > this.#limits.connections) await Promise.race(this.#closing)
  }

  get #openCount(): number {
    return this.#running + this.#idle.length + this.#closing.size
  }

  /**
   * Keeps the session of an attempt for the next message of its site, or ends it if it cannot or must not carry more
   * messages.
   */
  release(site: string, connection: Connection): void {
    const { client, openedAtMs } = connection
    const { connections, messagesPerConnection, idleMs, maxAgeMs } = this.#limits
    const leftMs = Math.min(idleMs, openedAtMs + maxAgeMs - this.#clock.monotonicMs())
    const isKept = client.isUsable && client.transactionCount < messagesPerConnection && leftMs > 0
    if (!isKept || this.#running + this.#idle.length > connections) {
      this.close(connection)
      return
    }
    const idle: IdleSession = { site, connection, timer: this.#clock.after(leftMs, () => this.#closeIdle(idle)) }
    this.#idle.push(idle)
  }

  /** Ends the session of an attempt. */
  close({ client }: Connection): void {
    const closed = client.quit().finally(() => {
      this.#closing.delete(closed)
      this.#onFreed()
    })
    this.#closing.add(closed)
  }

  /** Ends all idle sessions. */
  closeAllIdle(): void {
    for (const idle of [...this.#idle]) this.#closeIdle(idle)
  }

  /** Ends the oldest idle sessions that leave no connection for the running attempts. */
  #closeSurplus(): void {
    const surplus = this.#running + this.#idle.length - this.#limits.connections
    for (const idle of this.#idle.slice(0, Math.max(surplus, 0))) this.#closeIdle(idle)
  }

  #closeIdle(idle: IdleSession): void {
    idle.timer.cancel()
    this.#idle = this.#idle.filter((other) => other !== idle)
    this.close(idle.connection)
  }
}
