/**
 * @module A standby's end of the log: applies row after row to the files of its directory, and records about once a
 * second up to where they are on disk.
 */
import { ConfigError } from '#platform/settings/config.ts'
import { Applier } from './applier.ts'
import { checksum, type Entry, unpackEntries, type WalPosition } from './entries.ts'
import type { LogRow, ReplicationLog } from './log.ts'
import { type Position, writePosition } from './position.ts'
import { cutWals, hasWals } from './recover.ts'

/** The log no longer has the rows that this directory needs. */
export class TooFarBehindError extends Error {}

export class Follower {
  readonly #log: ReplicationLog
  readonly #dataDir: string
  readonly #applier: Applier
  #position: Position
  #applied: { readonly seq: number; readonly crc: number }

  constructor(log: ReplicationLog, dataDir: string, position: Position) {
    this.#log = log
    this.#dataDir = dataDir
    this.#applier = new Applier(dataDir)
    this.#position = position
    this.#applied = position
  }

  /** Number of the last row that is in the files. */
  get applied(): number {
    return this.#applied.seq
  }

  /** What is on disk. */
  get position(): Position {
    return this.#position
  }

  /**
   * Removes what this directory has and the log has not, if it led before. Throws TooFarBehindError when the log cannot
   * tell any more, ConfigError when it is another log, SQLITE_BUSY while another process has a database open.
   */
  async recover(): Promise<void> {
    const { epoch, wals, seq } = this.#position
    await this.requireSameLog()
    if (epoch === 0) {
      // Somebody wrote to the database while it followed.
      if (hasWals(this.#dataDir)) throw new TooFarBehindError('a database was changed here without the log')
      return
    }
    const ends = new Map<string, WalPosition>(Object.entries(wals))
    for (let after = seq; ; ) {
      const rows = await this.#read(after)
      for (const row of rows)
        if (row.epoch === epoch)
          for (const entry of unpack(row)) if (entry.kind === 'pages') ends.set(entry.file, entry.wal)
      if (rows.length === 0) break
      after = rows.at(-1)?.seq ?? after
    }
    await cutWals(this.#dataDir, ends)
    this.#save({ ...this.#position, epoch: 0, wals: {} })
  }

  /** Applies what the log has, up to the end of its last whole group. Throws TooFarBehindError. @returns number of rows */
  async catchUp(): Promise<number> {
    const before = this.#applied.seq
    for (;;) {
      const rows = await this.#read(this.#applied.seq)
      for (const row of rows) {
        for (const entry of unpack(row)) this.#applier.apply(entry)
        this.#applied = { seq: row.seq, crc: row.crc }
      }
      if (rows.length === 0) return this.#applied.seq - before
    }
  }

  /** Records how far the files on disk are. */
  async save(): Promise<void> {
    const { seq, crc } = this.#applied
    if (seq === this.#position.seq) return
    await this.#applier.sync()
    this.#save({ ...this.#position, seq, crc })
  }

  /** Records that this directory leads from here on, and closes its files. */
  async lead(epoch: number): Promise<Position> {
    await this.#applier.sync()
    this.close()
    const { seq, crc } = this.#applied
    this.#save({ ...this.#position, seq, crc, epoch, wals: {} })
    return this.#position
  }

  close(): void {
    this.#applier.close()
  }

  #save(position: Position): void {
    writePosition(this.#dataDir, position)
    this.#position = position
  }

  /**
   * Throws ConfigError when PostgreSQL has lost rows that this directory has, and got others in their place. Call it after
   * each connection.
   */
  async requireSameLog(): Promise<void> {
    const { seq, crc } = this.#applied
    const found = seq === 0 ? crc : await this.#log.readChecksum(seq)
    if (found === undefined) throw new TooFarBehindError(`the log no longer has row ${seq}`)
    if (found !== crc)
      throw new ConfigError(
        `Row ${seq} of the log in PostgreSQL is not the one that ${this.#dataDir} has: PostgreSQL was restored from an older state or lost commits, and others took their place. See docs/scaling.md, "If PostgreSQL has lost something".`,
      )
  }

  async #read(after: number): Promise<LogRow[]> {
    const rows = await this.#log.read(after)
    const [first] = rows
    if (first ? first.seq !== after + 1 : await this.#log.isTrimmedBehind(after))
      throw new TooFarBehindError(`the log no longer has row ${after + 1}`)
    return rows
  }
}

function unpack({ seq, crc, data }: LogRow): Entry[] {
  if (checksum(data) !== crc)
    throw new ConfigError(
      `Row ${seq} of the log in PostgreSQL is not as it was written: its disk or memory is defective. Move the data directory of this node away, and it copies all data from the leader.`,
    )
  return unpackEntries(data)
}
