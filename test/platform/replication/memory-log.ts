/** @module A log in memory whose appends wait or fail as a test wants it, for tests of what happens around it. */
import type { ClusterRow, LogRow, NewRow, ReplicationLog } from '#platform/replication/log.ts'

export class MemoryLog {
  rows: (LogRow & Pick<NewRow, 'isWhole'>)[] = []
  epoch = 1
  seq = 0
  /** Called when an append arrives, and before it is answered; the append waits for the promise. */
  onArrival: () => Promise<void> | void = () => undefined
  onAnswer: () => Promise<void> | void = () => undefined

  /** For appends that end only with the leader. */
  readonly stuck = Promise.withResolvers<void>()

  constructor() {
    this.stuck.promise.catch(() => undefined)
  }

  /** What a writer and a follower get. */
  get log(): ReplicationLog {
    return this as unknown as ReplicationLog
  }

  async append(epoch: number, seq: number, rows: readonly NewRow[]): Promise<boolean> {
    await this.onArrival()
    if (epoch !== this.epoch || seq !== this.seq) return false
    for (const { isWhole, crc, data } of rows)
      this.rows.push({ seq: ++this.seq, epoch, isWhole, crc, data: new Uint8Array(data) })
    await this.onAnswer()
    return true
  }

  async confirm(epoch: number) {
    return epoch === this.epoch ? { seq: this.seq, stepDown: false } : undefined
  }

  async readCluster(): Promise<ClusterRow> {
    return { leader: 'other', epoch: this.epoch, seq: this.seq } as ClusterRow
  }

  /** Like the log in PostgreSQL, few rows at a time and whole groups only. */
  async read(after: number): Promise<LogRow[]> {
    const end = this.rows.findLast(({ isWhole }) => isWhole)?.seq ?? 0
    return this.rows.filter(({ seq }) => seq > after && seq <= end).slice(0, 3)
  }

  async readChecksum(number: number): Promise<number | undefined> {
    return this.rows.find(({ seq }) => seq === number)?.crc
  }

  async isTrimmedBehind(after: number): Promise<boolean> {
    return this.seq > after && (this.rows[0]?.seq ?? Number.POSITIVE_INFINITY) > after + 1
  }

  /** Another node takes over, or the same again: the beginning of a group goes. */
  takeOver(): number {
    this.rows = this.rows.slice(0, this.rows.findLastIndex(({ isWhole }) => isWhole) + 1)
    this.seq = this.rows.at(-1)?.seq ?? 0
    return ++this.epoch
  }

  /** Makes appends wait before they arrive; resolves with `release` when one does. */
  hold() {
    const arrived = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    this.onArrival = () => {
      arrived.resolve()
      return released.promise
    }
    return {
      arrived: arrived.promise,
      release: () => {
        this.onArrival = () => undefined
        released.resolve()
      },
      fail: (error: Error) => released.reject(error),
    }
  }
}
