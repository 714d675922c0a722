/**
 * @module The leader's end of the log. What is to be stored together is queued as a unit; while one append is on its
 * way, the units that come meanwhile share the next. An append that is not answered is followed by a question how far the
 * log goes, and is repeated only if it is not in it. One that is refused, or not answered in time, ends everything: what
 * waits is rejected, and the process must not go on.
 */
import { AppError } from '#platform/errors.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { seconds } from '../units.ts'
import { checksum, type Entry, packEntries, ROW_BYTES, type Scratch } from './entries.ts'
import type { NewRow, ReplicationLog } from './log.ts'

export interface WriterOptions {
  readonly epoch: number
  /** Number of the last row of the log, and its checksum. */
  readonly seq: number
  readonly crc: number
  /** Called once, after everything that waited was rejected. @param reason for the operator */
  readonly onLost: (reason: string) => void
  /** Called with each append that succeeded. */
  readonly onAppended?: (durationMs: number, bytes: number) => void
  readonly clock?: Pick<Clock, 'monotonicMs' | 'sleep'>
}

interface Unit {
  readonly entries: readonly Entry[]
  readonly bytes: number
  readonly onStored: (() => void) | undefined
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/** How long an append may stay unanswered; clients wait as long for their response. */
const MAX_UNANSWERED_MS = seconds(4)
const RETRY_MS = 100
/**
 * PostgreSQL reports success too when somebody cancels its wait for a synchronous standby. An answer that took so long
 * may be such a one; a later commit that is quick shows that the standby has both.
 */
const SURE_MS = seconds(1)
/** Rows of one append. */
const ROWS_PER_APPEND = 4
/** Time in which another node has taken over, or this one is back. */
const RETRY_AFTER_SECONDS = 5

export class LogWriter {
  readonly #log: ReplicationLog
  readonly #options: WriterOptions
  readonly #clock: Pick<Clock, 'monotonicMs' | 'sleep'>
  readonly #scratch: Scratch = { bytes: Buffer.alloc(0) }
  #queue: Unit[] = []
  #running: Promise<void> | undefined
  /** Number of the last row that was appended; in the middle of a large group, ahead of `stored`. */
  #seq: number
  #stored: { readonly seq: number; readonly crc: number }
  #lost: AppError | undefined
  #confirmedAtMs: number

  constructor(log: ReplicationLog, options: WriterOptions) {
    this.#log = log
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#seq = options.seq
    this.#stored = { seq: options.seq, crc: options.crc }
    this.#confirmedAtMs = this.#clock.monotonicMs()
  }

  /** The last row of the last group that is in the log as a whole. */
  get stored(): { readonly seq: number; readonly crc: number } {
    return this.#stored
  }

  /** Resolves when nothing waits. */
  async idle(): Promise<void> {
    await this.#running
  }

  /** When PostgreSQL last answered, on the monotonic clock. */
  get confirmedAtMs(): number {
    return this.#confirmedAtMs
  }

  /**
   * Stores entries that belong together; resolves once they are in the log. Rejects with 503 when this node no longer
   * leads.
   * @param onStored called at the moment at which `stored` includes them
   */
  add(entries: readonly Entry[], onStored?: () => void): Promise<void> {
    if (this.#lost) return Promise.reject(this.#lost)
    return new Promise((resolve, reject) => {
      const bytes = entries.reduce((sum, entry) => sum + entry.bytes.length, 0)
      this.#queue.push({ entries, bytes, onStored, resolve, reject })
      this.#running ??= this.#run()
    })
  }

  /** Ends everything: another node leads, or PostgreSQL cannot be reached. */
  lose(reason: string): AppError {
    if (this.#lost) return this.#lost
    const lost = new AppError(503, 'storage_failed', 'This node stopped leading; try again in some seconds.', {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
    })
    this.#lost = lost
    for (const { reject } of this.#queue.splice(0)) reject(lost)
    this.#options.onLost(reason)
    return lost
  }

  async #run(): Promise<void> {
    // A tick later, so that what is added together shares an append.
    await Promise.resolve()
    while (this.#queue.length > 0 && !this.#lost) {
      const units = this.#take()
      const startedAtMs = this.#clock.monotonicMs()
      try {
        const rows = toRows(units, this.#scratch)
        for (let from = 0; from < rows.length; from += ROWS_PER_APPEND)
          await this.#append(rows.slice(from, from + ROWS_PER_APPEND))
        const bytes = rows.reduce((sum, { data }) => sum + data.length, 0)
        this.#options.onAppended?.(this.#clock.monotonicMs() - startedAtMs, bytes)
        this.#stored = { seq: this.#seq, crc: rows.at(-1)?.crc ?? 0 }
        for (const { onStored } of units) onStored?.()
        for (const { resolve } of units) resolve()
      } catch (error) {
        const lost = this.lose(error instanceof Error ? error.message : String(error))
        for (const { reject } of units) reject(lost)
      }
    }
    // At once: what is added as soon as the last unit is stored must find nothing that runs.
    this.#running = undefined
  }

  /** The next units, of about one row. */
  #take(): Unit[] {
    let count = 0
    for (let bytes = 0; count < this.#queue.length && bytes < ROW_BYTES; count++)
      bytes += this.#queue[count]?.bytes ?? 0
    return this.#queue.splice(0, count)
  }

  async #append(rows: readonly NewRow[]): Promise<void> {
    const { epoch } = this.#options
    const next = this.#seq + rows.length
    const untilMs = this.#clock.monotonicMs() + MAX_UNANSWERED_MS
    for (let isRepeated = false; ; isRepeated = true) {
      const askedAtMs = this.#clock.monotonicMs()
      try {
        const isAdded = await this.#log.append(epoch, this.#seq, rows)
        const isSure = isAdded && this.#clock.monotonicMs() - askedAtMs < SURE_MS
        // Refused, or the answer to the same append before was lost.
        if (isSure || (await this.#isStored(next, isRepeated || isAdded))) {
          this.#confirmedAtMs = this.#clock.monotonicMs()
          this.#seq = next
          return
        }
      } catch (error) {
        if (error instanceof LostError || error instanceof ConfigError) throw error
        if (this.#clock.monotonicMs() > untilMs) throw error
        await this.#clock.sleep(RETRY_MS)
      }
    }
  }

  /** Whether a repeated append is in the log already; throws when the log does not end where this node left it. */
  async #isStored(next: number, isRepeated: boolean): Promise<boolean> {
    const askedAtMs = this.#clock.monotonicMs()
    const head = await this.#log.confirm(this.#options.epoch)
    if (this.#clock.monotonicMs() - askedAtMs >= SURE_MS) throw new Error('PostgreSQL answers too slowly')
    if (!head) throw new LostError(await this.#describeOther())
    if (head.seq === next && isRepeated) return true
    if (head.seq === this.#seq) return false
    throw new LostError(
      `the log in PostgreSQL ends at ${head.seq} instead of ${this.#seq}: it was restored from an older state, or lost commits that it had confirmed (see docs/scaling.md)`,
    )
  }

  async #describeOther(): Promise<string> {
    const row = await this.#log.readCluster()
    return row
      ? `${row.leader} leads now (epoch ${row.epoch}, ours was ${this.#options.epoch})`
      : 'the tables of the log in PostgreSQL were emptied'
  }
}

/** Trying again would change nothing. */
class LostError extends Error {}

/** Packs units into rows; the last row makes them whole. */
function toRows(units: readonly Unit[], scratch: Scratch): NewRow[] {
  const groups: Entry[][] = [[]]
  let bytes = 0
  for (const entry of units.flatMap(({ entries }) => entries)) {
    if (bytes > 0 && bytes + entry.bytes.length > ROW_BYTES) {
      groups.push([])
      bytes = 0
    }
    groups.at(-1)?.push(entry)
    bytes += entry.bytes.length
  }
  return groups.map((entries, index) => {
    const data = packEntries(entries, scratch)
    const what = [...new Set(entries.map((entry) => (entry.kind === 'remove' ? 'removals' : entry.file)))].join(' ')
    return { isWhole: index === groups.length - 1, what, crc: checksum(data), data }
  })
}
