/**
 * @module A leader in the process of the test, with a main database and a content store, on a log in memory: random
 * writes and maintenance, and a copy of its directory as a crash leaves it.
 */
import { Database } from 'bun:sqlite'
import { cpSync, existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { monthOf, toRef } from '#platform/content/read.ts'
import { type ContentRef, ContentStore } from '#platform/content/store.ts'
import { Committer } from '#platform/db/commit.ts'
import { openDatabase, openReadOnly } from '#platform/db/open.ts'
import { releasePages, scrubDatabase } from '#platform/db/scrub.ts'
import { Leader } from '#platform/replication/leader.ts'
import { type Position, readPosition } from '#platform/replication/position.ts'
import { LogWriter } from '#platform/replication/writer.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { KiB } from '#platform/units.ts'
import { type Random, seededRandom } from '#test/support/random.ts'
import type { MemoryLog } from './memory-log.ts'

const MONTHS = [Date.UTC(2026, 8, 15), Date.UTC(2026, 9, 15), Date.UTC(2026, 10, 15)] as const
const NEXT_MONTH = Date.UTC(2026, 11, 15)
const BLOB_BYTES = [60, 4000, 20_000, 300_000, 1_500_000] as const

type Simple = 'large' | 'deleteBlobs' | 'dropMonth' | 'checkpoint' | 'scrub' | 'release' | 'save' | 'file' | 'reader'

export type Command =
  | { readonly do: 'write' | 'fail' | 'delete'; readonly rows: number; readonly bytes: number }
  | { readonly do: 'put'; readonly month: number; readonly size: number }
  | { readonly do: Simple }

export interface Step {
  readonly command: Command
  /** Whether the next step waits for this one. */
  readonly isAwaited: boolean
}

const weighted = (weight: number, arbitrary: fc.Arbitrary<Command>) => ({ weight, arbitrary })
const simple = (weight: number, name: Simple) => weighted(weight, fc.constant({ do: name }))

export const steps = fc.array(
  fc.record({
    isAwaited: fc.boolean(),
    command: fc.oneof(
      weighted(
        8,
        fc.record({
          do: fc.constantFrom('write', 'write', 'fail', 'delete'),
          rows: fc.integer({ min: 1, max: 60 }),
          bytes: fc.constantFrom(10, 500, 3000, 30_000),
        }),
      ),
      weighted(
        5,
        fc.record({ do: fc.constant('put'), month: fc.nat(MONTHS.length - 1), size: fc.nat(BLOB_BYTES.length - 1) }),
      ),
      simple(1, 'large'),
      simple(3, 'deleteBlobs'),
      simple(1, 'dropMonth'),
      simple(3, 'checkpoint'),
      simple(2, 'scrub'),
      simple(2, 'release'),
      simple(8, 'save'),
      simple(1, 'file'),
      simple(1, 'reader'),
    ),
  }),
  { minLength: 1, maxLength: 30, size: 'max' },
)

/** What was asked for, over all leaders of one log. */
export class Asked {
  /** Writes whose promise resolved, and those that may be in the log. */
  readonly acknowledged = new Set<string>()
  readonly possible = new Set<string>()
  readonly blobs = new Map<ContentRef, Uint8Array>()
  files = 0
}

export class Leading {
  readonly folder: string
  readonly leader: Leader
  readonly #log: MemoryLog
  readonly #asked: Asked
  readonly #random: Random
  readonly #main: Committer
  readonly #content: ContentStore
  readonly #pending = new Set<Promise<unknown>>()
  /** Nothing is put into months that are dropped: they have ended. */
  #puts: Promise<unknown> = Promise.resolve()
  #drops: Promise<unknown> = Promise.resolve()
  #reader: Database | undefined
  /** How many scrubs run or were given up. */
  #scrubs = 0

  constructor(folder: string, log: MemoryLog, position: Position, asked: Asked, seed: number) {
    this.folder = folder
    this.#log = log
    this.#asked = asked
    this.#random = seededRandom(seed)
    const writer = new LogWriter(log.log, { ...position, onLost: () => undefined })
    this.leader = new Leader(folder, position, writer)
    const options = {
      replica: this.leader,
      checkpointBytes: 400 * KiB,
      checkpoint: async (path: string, mode: string) => runCheckpoint(path, mode),
    }
    const path = join(folder, 'tassis.db')
    const db = openDatabase(path)
    db.run('CREATE TABLE IF NOT EXISTS tokens (token TEXT PRIMARY KEY)')
    db.run('CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, body BLOB NOT NULL, size INTEGER NOT NULL)')
    db.run('CREATE INDEX IF NOT EXISTS notes_size ON notes (size, body)')
    this.#main = new Committer(db, path, options)
    this.#content = new ContentStore(join(folder, 'content'), options)
  }

  /** Whether the unused middle of pages may differ. */
  get mayBeScrubbed(): boolean {
    return this.#scrubs > 0
  }

  /** Runs steps until `ended`, and then nothing more. */
  async run(sequence: readonly Step[], ended: Promise<unknown>): Promise<void> {
    let isEnded = false
    void ended.then(() => {
      isEnded = true
    })
    for (const { command, isAwaited } of sequence) {
      if (isEnded) return
      const running = this.#run(command).catch((error: Error) => {
        // Maintenance of a month that is dropped meanwhile.
        if (!/ is closed$|^EBADF/.test(error.message)) throw error
      })
      this.#pending.add(running)
      // What a crash interrupts fails, or never ends.
      running.catch(() => undefined).finally(() => this.#pending.delete(running))
      if (isAwaited) await Promise.race([running, ended])
    }
    await Promise.race([Promise.all(this.#pending), ended])
  }

  async #run(command: Command): Promise<unknown> {
    switch (command.do) {
      case 'write':
      case 'delete':
      case 'fail':
        return this.#write(command)
      case 'large':
        return this.#write({ do: 'write', rows: 1, bytes: this.#random.between(1, 6) * 1_000_000 })
      case 'put': {
        const { size, month } = command
        const put = this.#drops.then(() => this.#put(BLOB_BYTES[size] ?? 1, MONTHS[month] ?? 0))
        this.#puts = Promise.all([this.#puts, put])
        return this.#puts
      }
      case 'deleteBlobs':
        return this.#drop(() => {
          const refs = [...this.#asked.blobs.keys()].filter(() => this.#random.chance(0.6))
          for (const ref of refs) this.#asked.blobs.delete(ref)
          return this.#content.deleteBlobs(refs, NEXT_MONTH)
        })
      case 'dropMonth':
        return this.#drop(() => {
          const first = toRef(monthOf(MONTHS[1]), 0)
          for (const ref of this.#asked.blobs.keys()) if (ref < first) this.#asked.blobs.delete(ref)
          return this.#content.dropMonthsBefore(MONTHS[1])
        })
      case 'checkpoint':
        return this.#any().checkpoint()
      case 'release':
        return releasePages(this.#any())
      case 'scrub':
        this.#scrubs++
        // One that is given up has zeroed pages at the standbys only, until it is repeated.
        if (!(await scrubDatabase(this.#any()))) return
        await this.leader.writer.idle()
        this.#scrubs--
        return
      case 'save':
        return this.leader.savePosition()
      case 'file': {
        const path = join(this.folder, 'instance.json')
        const content = `{"number":${++this.#asked.files}}`
        writeFileSync(path, content)
        return this.leader.replaceFile(path, content)
      }
      case 'reader':
        return this.#toggleReader()
    }
  }

  #drop(run: () => Promise<unknown>): Promise<unknown> {
    this.#drops = Promise.all([this.#drops, this.#puts.then(run)])
    return this.#drops
  }

  #any(): Committer {
    const all = [this.#main, ...this.#content.committers()]
    return all[this.#random.between(0, all.length - 1)] ?? this.#main
  }

  async #write({ do: kind, rows, bytes }: Extract<Command, { do: 'write' | 'fail' | 'delete' }>): Promise<void> {
    const token = `${this.#asked.possible.size} ${kind}`
    const from = this.#random.fraction()
    this.#asked.possible.add(token)
    const write = this.#main.write(({ db }) => {
      db.run('INSERT INTO tokens VALUES (?)', [token])
      const { most } = db.query<{ most: number }, []>('SELECT ifnull(max(id), 0) AS most FROM notes').get() ?? {
        most: 0,
      }
      for (let i = 0; i < rows; i++) {
        const id = Math.floor(from * (most + 1)) + i
        if (kind === 'delete') db.run('DELETE FROM notes WHERE id = ?', [id])
        else if (i % 3 === 0) db.run('INSERT OR REPLACE INTO notes VALUES (?, randomblob(?), ?)', [id, bytes, bytes])
        else db.run('INSERT INTO notes (body, size) VALUES (randomblob(?), ?)', [bytes, i])
      }
      if (kind === 'fail') throw new Error('mine')
    })
    await write.then(
      () => this.#asked.acknowledged.add(token),
      () => kind === 'fail' && this.#asked.possible.delete(token),
    )
  }

  async #put(bytes: number, at: number): Promise<void> {
    const blobs = Array.from({ length: this.#random.between(1, 3) }, () =>
      Buffer.concat(
        Array.from({ length: Math.ceil(bytes / 60_000) }, () =>
          crypto.getRandomValues(new Uint8Array(Math.min(bytes, 60_000))),
        ),
      ),
    )
    const refs = await this.#content.put(blobs, at)
    for (const [index, ref] of refs.entries()) this.#asked.blobs.set(ref, blobs[index] ?? new Uint8Array())
  }

  /** A long reader, which keeps write-ahead logs from being emptied. */
  #toggleReader(): void {
    if (this.#reader) {
      this.#reader.close()
      this.#reader = undefined
    } else {
      this.#reader = openReadOnly(join(this.folder, 'tassis.db'))
      this.#reader.run('BEGIN')
      this.#reader.query('SELECT count(*) FROM tokens').get()
    }
  }

  /** Copies the directory as a kill leaves it, or a power cut that takes what was not synced yet. */
  crash(to: string, isPowerCut: boolean): void {
    cpSync(this.folder, to, { recursive: true })
    const position = readPosition(to)
    if (!isPowerCut) return
    for (const file of [...readdirSync(to, { recursive: true, encoding: 'utf8' })].filter((name) =>
      name.endsWith('-wal'),
    )) {
      const path = join(to, file)
      const wal = readFileSync(path)
      const saved = position?.wals[file.slice(0, -4)]
      const synced = saved?.salt === wal.toString('hex', 16, 24) ? saved.end : 0
      const end = this.#random.between(Math.min(synced, wal.length), wal.length)
      if (this.#random.chance(0.5)) truncateSync(path, end)
      else writeFileSync(path, wal.fill(0, end))
    }
  }

  /** Ends the leader that has crashed. */
  async abandon(): Promise<void> {
    const crashed = new ConfigError('crashed')
    this.leader.writer.lose('crashed')
    this.#log.onArrival = () => Promise.reject(crashed)
    this.#log.stuck.reject(crashed)
    await this.#end()
    for (const db of [this.#main.db, ...this.#content.databases()]) db.close()
  }

  /** Stops in order. */
  async stop(): Promise<void> {
    await this.#end()
    await this.leader.writer.idle()
    this.leader.settle()
  }

  async #end(): Promise<void> {
    this.#reader?.close()
    await this.#content.close()
    await this.#main.close()
  }
}

function runCheckpoint(path: string, mode: string): void {
  if (!existsSync(path)) return
  const db = new Database(path, { readwrite: true })
  db.query(`PRAGMA wal_checkpoint(${mode})`).all()
  db.close()
}
