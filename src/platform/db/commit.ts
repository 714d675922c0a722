/**
 * @module Group commit. Write functions of concurrent requests and sessions run in one transaction, each in a savepoint, and their promises
 * resolve only when the WAL that holds them is synced to disk. The event loop never waits for the disk: the sync runs in the thread pool while
 * the next group gathers. No transaction is ever held across anything asynchronous: write functions are synchronous, by type.
 *
 * While another process holds the database, writes wait without holding the event loop, and get 503 after some seconds.
 *
 * Part of the disk is reserved: `write` is refused when it would touch that, so that `writeFromReserve` can always finish what was accepted, and delete.
 */
import type { Database } from 'bun:sqlite'
import { closeSync, fdatasync, fstatSync, openSync } from 'node:fs'
import { type Clock, systemClock } from '../clock.ts'
import type { DiskGuard } from '../disk.ts'
import { AppError, insufficientStorage } from '../errors.ts'
import { FairQueue, type Owner } from '../queue/fair-queue.ts'
import { isLocked, toStorageError } from '../storage-errors.ts'
import { MiB, seconds } from '../units.ts'
import { type NonPromise, prepareStatements } from './open.ts'

/** What a write function works with, inside its savepoint. */
export interface Tx {
  readonly db: Database
  /** Adds to a counter; all additions of a group are written once, at its end, by the `flush` given to the Committer. */
  add(counter: string, delta: number): void
  /** Runs after the group is durable, before the promise of this write resolves. Dropped when the write fails. */
  afterCommit(run: () => void): void
}

export interface WriteOptions {
  /** Whose write it is: owners take turns by the time that their writes take, so that one with hundreds holds up himself only. Left out: the service's own. */
  readonly owner?: Owner | undefined
  /**
   * Whether it may use what is reserved of the disk: only what finishes mail that was accepted, deletes, frees or lets people in to do so. None of it may
   * grow with what somebody asks for.
   */
  readonly mayUseReserve?: boolean | undefined
}

export interface CommitterOptions {
  /** By which writes are measured. */
  readonly clock?: Pick<Clock, 'monotonicMs'>
  /** Writes the summed counter additions of a group. */
  readonly flush?: (db: Database, deltas: ReadonlyMap<string, number>) => void
  /** Called with the counter additions of each group once it is durable, before the next group runs: what can be read then is on disk. */
  readonly onDurable?: (deltas: ReadonlyMap<string, number>) => void
  /** Called once when a sync failed: what is in the page cache is then unknown, so nothing may be accepted any more. */
  readonly onBroken?: (error: Error) => void
  /** Keeps a part of the disk free; left out: nothing is reserved. */
  readonly disk?: DiskGuard
  /** WAL size at which a checkpoint is asked for. */
  readonly checkpointBytes?: number
  /** Copies the WAL into the database in another thread; `TRUNCATE` also empties it and needs the writer to hold still. */
  readonly checkpoint?: (path: string, mode: 'PASSIVE' | 'TRUNCATE') => Promise<void>
  /** Called after each checkpoint with what is left of the WAL, because somebody reads from it; `again` does the next. */
  readonly onCheckpoint?: (path: string, leftBytes: number, again: () => Promise<void>) => void
}

/** Work between two groups. */
interface ExclusiveJob {
  /** The WAL is emptied before, as far as readers let it. */
  readonly afterWal: boolean
  run(): void
  reject(error: unknown): void
}

interface QueuedWrite {
  readonly run: (tx: Tx) => unknown
  readonly mayUseReserve: boolean
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
  value?: unknown
  error?: unknown
  failed: boolean
  after: (() => void)[]
}

/** Bounds the writes that fail together when their group does. */
const MAX_WRITES_PER_GROUP = 128
/** Bounds the time for which one group keeps the event loop, but for one write that takes longer. */
const MAX_GROUP_MS = 10
/** Free beside the reserve, no group can use it up: it has some milliseconds. */
const AMPLE_FREE_BYTES = 256 * MiB
/** Owner of the writes of the service itself: outcomes, recurring tasks. */
const SERVICE: Owner = ''
/** The service writes for all owners, so it has the turns of so many, or of all that wait. */
const MIN_SERVICE_SHARES = 4
/** How long writes wait while another process holds the database: a client that waits longer has given up. */
const MAX_LOCK_WAIT_MS = seconds(5)
const LOCK_RETRY_MS = 50
/** What a supervisor needs to start the service again, about. */
const RESTART_SECONDS = 10
/** So that writes which take no time that the clock sees take turns as well. */
const MIN_COST_MS = 0.01

const sql = prepareStatements((db) => ({
  begin: db.prepare('BEGIN IMMEDIATE'),
  commit: db.prepare('COMMIT'),
  rollback: db.prepare('ROLLBACK'),
  savepoint: db.prepare('SAVEPOINT write'),
  release: db.prepare('RELEASE write'),
  rollbackTo: db.prepare('ROLLBACK TO write'),
  pages: db.prepare<{ page_count: number }, []>('PRAGMA page_count'),
  pageSize: db.prepare<{ page_size: number }, []>('PRAGMA page_size'),
}))

export class Committer {
  readonly db: Database
  readonly #path: string
  readonly #options: CommitterOptions
  readonly #walFd: number
  readonly #unregister: (() => void) | undefined
  #walBytes = 0
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #queue = new FairQueue<QueuedWrite>()
  #exclusiveJobs: ExclusiveJob[] = []
  #fileFd: number | undefined
  #isClosed = false
  #running = false
  #writersHeld: Promise<void> | undefined
  #checkpointing: Promise<void> | undefined
  #nextCheckpointBytes = 0
  /** Whether the running group could come near the reserve of the disk, so that each write is measured. */
  #isDiskTight = false
  /** Of the database when the running group began. */
  #pagesBefore = 0
  #pageBytes: number | undefined
  #broken: Error | undefined
  /** Since when another process has held the database; undefined: it does not. */
  #lockedSinceMs: number | undefined

  /** @param path of the database file, already in WAL mode with its `-wal` file made */
  constructor(db: Database, path: string, options: CommitterOptions = {}) {
    this.db = db
    this.#path = path
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#walFd = openSync(`${path}-wal`, 'r+')
    this.#walBytes = fstatSync(this.#walFd).size
    this.#unregister = options.disk?.register(this)
  }

  /**
   * Runs `run` inside the next group and resolves with its value once that is on disk. A throw undoes only this write and rejects with the same
   * error; a full disk, or one of which only the reserve is left, rejects with 507 `insufficient_storage`;
   * other passing trouble, such as a lock of another process, with 503 `storage_unavailable`. Writes of one owner run in
   * the order in which they came.
   */
  write<T>(run: (tx: Tx) => NonPromise<T>, { owner = SERVICE, mayUseReserve = false }: WriteOptions = {}): Promise<T> {
    if (this.#broken) return Promise.reject(this.#broken)
    return new Promise<T>((resolve, reject) => {
      const entry = { run, mayUseReserve, reject, failed: false, after: [] }
      this.#queue.push(owner, { ...entry, resolve: resolve as (value: never) => void }, 0)
      this.#wake()
    })
  }

  /** Size of the WAL after the last group. */
  get walBytes(): number {
    return this.#walBytes
  }

  /** `write` with `mayUseReserve`. */
  writeFromReserve<T>(run: (tx: Tx) => NonPromise<T>, options: WriteOptions = {}): Promise<T> {
    return this.write(run, { ...options, mayUseReserve: true })
  }

  #wake(): void {
    if (this.#running) return
    this.#running = true
    // After the current poll phase, so that requests which arrived together share a group.
    setImmediate(() => void this.#loop())
  }

  /**
   * Runs `run` on the connection between two groups, outside of any transaction and while no checkpoint runs: for upkeep that no transaction may hold. What
   * it writes is not waited for, and it keeps everybody else from writing: only what takes some milliseconds.
   */
  runExclusive<T>(run: (db: Database) => NonPromise<T>): Promise<T> {
    return this.#enqueueExclusive(false, () => run(this.db) as T)
  }

  /**
   * The same for work on the file itself: the WAL is emptied into it first, in another thread. Nobody writes meanwhile.
   * @param run is given the file, and whether all is in it; not when somebody reads from the WAL
   */
  runExclusiveWithFile<T>(
    run: (file: { readonly fd: number; readonly isWhole: boolean }) => NonPromise<T>,
  ): Promise<T> {
    return this.#enqueueExclusive(true, () => run({ fd: this.fileFd, isWhole: fstatSync(this.#walFd).size === 0 }) as T)
  }

  #enqueueExclusive<T>(afterWal: boolean, run: () => T): Promise<T> {
    if (this.#broken) return Promise.reject(this.#broken)
    if (this.#isClosed) return Promise.reject(new Error(`${this.#path} is closed`))
    return new Promise<T>((resolve, reject) => {
      this.#exclusiveJobs.push({
        afterWal,
        reject,
        run: () => {
          try {
            resolve(run())
          } catch (error) {
            reject(toStorageError(error))
          }
        },
      })
      this.#wake()
    })
  }

  /**
   * The database file. One descriptor for as long as the connection lives: when a process closes any descriptor of a file, it loses its locks on it, and then
   * another process that opens the database takes itself for the last one and removes the WAL under us (https://sqlite.org/howtocorrupt.html, 2.2).
   */
  get fileFd(): number {
    if (this.#isClosed) throw new Error(`${this.#path} is closed`)
    this.#fileFd ??= openSync(this.#path, 'r+')
    return this.#fileFd
  }

  /** Copies the WAL into the database and empties it, unless somebody reads for long. Writers wait for the last part of it only. */
  async checkpoint(): Promise<void> {
    if (this.#broken || this.#isClosed || !this.#options.checkpoint) return
    this.#checkpointing ??= this.#checkpointNow()
    await this.#checkpointing
  }

  /** Resolves when everything written before the call is durable (or has failed). */
  async barrier(): Promise<void> {
    // Groups run in order, and so do the writes of an owner: empty ones of now end after all earlier ones.
    const owners = new Set([SERVICE, ...this.#queue.owners()])
    await Promise.allSettled([...owners].map((owner) => this.writeFromReserve(() => undefined, { owner })))
  }

  /** Waits for what is queued, copies the WAL into the database and closes both. */
  async close(): Promise<void> {
    // What is queued goes before the barrier.
    this.#isClosed = true
    await this.barrier()
    this.#unregister?.()
    // It looks at the WAL once more when it is over.
    await this.#checkpointing
    closeSync(this.#walFd)
    try {
      if (!this.#broken) this.db.run('PRAGMA wal_checkpoint(TRUNCATE)')
    } catch {
      // A full disk: the WAL stays and is read at the next start.
    }
    this.db.close()
    if (this.#fileFd !== undefined) closeSync(this.#fileFd)
  }

  async #loop(): Promise<void> {
    while ((this.#queue.size > 0 || this.#exclusiveJobs.length > 0) && !this.#broken) {
      await this.#options.disk?.refresh()
      // Last: a checkpoint may have begun to hold the writer meanwhile.
      while (this.#writersHeld) await this.#writersHeld
      if (this.#exclusiveJobs.length > 0) await this.#runExclusiveJobs()
      if (this.#queue.size === 0) continue
      if (!this.#begin()) {
        // By the clock of the machine, like the process that is waited for.
        if (this.#lockedSinceMs !== undefined) await systemClock.sleep(LOCK_RETRY_MS)
        continue
      }
      const deltas = new Map<string, number>()
      const group = this.#runGroup(deltas)
      this.#measureWal()
      if (group.length === 0) continue
      try {
        await this.#sync()
      } catch (error) {
        this.#markBroken(error as Error, group)
        break
      }
      for (const entry of group) {
        // As microtasks: they run before whoever awaits the write, and a bug in one cannot stop the loop.
        for (const run of entry.after) queueMicrotask(run)
        entry.resolve(entry.value as never)
      }
      this.#notifyDurable(deltas)
      this.#checkpointWhenLarge()
    }
    if (this.#broken) {
      for (const entry of this.#queue.remove(() => true)) entry.reject(this.#broken)
      for (const { reject } of this.#exclusiveJobs.splice(0)) reject(this.#broken)
    }
    this.#running = false
  }

  async #runExclusiveJobs(): Promise<void> {
    await this.#checkpointing
    const alone = this.#exclusiveJobs.splice(0)
    if (alone.some(({ afterWal }) => afterWal) && fstatSync(this.#walFd).size > 0) await this.#emptyWal()
    for (const { run } of alone) run()
    this.#measureWal()
    // It writes as well, and there may be no group for long.
    this.#checkpointWhenLarge()
  }

  async #emptyWal(): Promise<void> {
    if (this.#options.checkpoint) await this.#options.checkpoint(this.#path, 'TRUNCATE')
    else this.db.query('PRAGMA wal_checkpoint(TRUNCATE)').all()
    this.#measureWal()
  }

  #measureWal(): void {
    const walBytes = fstatSync(this.#walFd).size
    if (walBytes > this.#walBytes) this.#options.disk?.countWritten(walBytes - this.#walBytes)
    this.#walBytes = walBytes
  }

  #notifyDurable(deltas: ReadonlyMap<string, number>): void {
    if (deltas.size === 0) return
    try {
      this.#options.onDurable?.(deltas)
    } catch (error) {
      // A bug of the listener, told like any other; the loop must not end with it.
      queueMicrotask(() => {
        throw error
      })
    }
  }

  /**
   * Begins a transaction. False: it could not. Then the queue waits for the process that holds the database, with
   * `#lockedSinceMs` set, or was rejected, because that has lasted too long or something else is wrong.
   */
  #begin(): boolean {
    try {
      sql(this.db).begin.run()
      this.#lockedSinceMs = undefined
      return true
    } catch (error) {
      const nowMs = systemClock.monotonicMs()
      if (isLocked(error)) {
        this.#lockedSinceMs ??= nowMs
        if (nowMs - this.#lockedSinceMs < MAX_LOCK_WAIT_MS) return false
      }
      this.#lockedSinceMs = undefined
      for (const entry of this.#queue.remove(() => true)) entry.reject(toStorageError(error))
      return false
    }
  }

  /** Runs the head of the queue and commits; rejects the failed entries and returns the committed ones, to be synced. */
  #runGroup(deltas: Map<string, number>): QueuedWrite[] {
    const statements = sql(this.db)
    const taken: QueuedWrite[] = []
    try {
      this.#isDiskTight = this.#options.disk?.hasRoomFor(AMPLE_FREE_BYTES) === false
      if (this.#isDiskTight) this.#pagesBefore = statements.pages.get()?.page_count ?? 0
      const endMs = this.#clock.monotonicMs() + MAX_GROUP_MS
      for (let nowMs = endMs - MAX_GROUP_MS; nowMs < endMs && taken.length < MAX_WRITES_PER_GROUP; ) {
        const next = this.#queue.shift()
        if (!next) break
        const { item: entry, owner } = next
        taken.push(entry)
        this.#runEntry(entry, deltas)
        const ranUntilMs = this.#clock.monotonicMs()
        const costMs = Math.max(ranUntilMs - nowMs, MIN_COST_MS)
        const shares = owner === SERVICE ? Math.max(MIN_SERVICE_SHARES, this.#queue.ownerCount) : 1
        this.#queue.charge(owner, costMs / shares)
        nowMs = ranUntilMs
        if (!this.db.inTransaction) throw entry.error
      }
      if (deltas.size > 0) this.#options.flush?.(this.db, deltas)
      statements.commit.run()
    } catch (error) {
      if (this.db.inTransaction) statements.rollback.run()
      // Nothing of the group is kept: whoever had not failed by itself fails with it.
      for (const entry of taken) entry.reject(toStorageError(entry.failed ? entry.error : error))
      return []
    }
    for (const entry of taken) if (entry.failed) entry.reject(toStorageError(entry.error))
    return taken.filter((entry) => !entry.failed)
  }

  #runEntry(entry: QueuedWrite, deltas: Map<string, number>): void {
    const statements = sql(this.db)
    const own: [string, number][] = []
    statements.savepoint.run()
    try {
      entry.value = entry.run({
        db: this.db,
        add: (counter, delta) => own.push([counter, delta]),
        afterCommit: (run) => entry.after.push(run),
      })
      if (this.#isDiskTight && !entry.mayUseReserve) this.#requireDiskSpace()
      statements.release.run()
      for (const [counter, delta] of own) deltas.set(counter, (deltas.get(counter) ?? 0) + delta)
    } catch (error) {
      entry.failed = true
      entry.error = error
      entry.after = []
      // A full disk can end the whole transaction; then there is no savepoint to go back to.
      if (!this.db.inTransaction) return
      statements.rollbackTo.run()
      statements.release.run()
    }
  }

  /** Throws 507 when what the group has added so far, once in the WAL and once more when it is copied from there, touches the reserve. */
  #requireDiskSpace(): void {
    const { disk } = this.#options
    if (!disk) return
    const { pages, pageSize } = sql(this.db)
    this.#pageBytes ??= pageSize.get()?.page_size ?? 0
    const addedBytes = Math.max(0, (pages.get()?.page_count ?? 0) - this.#pagesBefore) * this.#pageBytes
    if (!disk.hasRoomFor(2 * addedBytes)) throw insufficientStorage()
  }

  #sync(): Promise<void> {
    return new Promise((resolve, reject) => fdatasync(this.#walFd, (error) => (error ? reject(error) : resolve())))
  }

  #markBroken(error: Error, group: QueuedWrite[]): void {
    this.#broken = new AppError(
      503,
      'storage_failed',
      'The server cannot store anything and ends; try again when it has been started again.',
      { cause: error, retryAfterSeconds: RESTART_SECONDS },
    )
    for (const entry of group) entry.reject(this.#broken)
    this.#options.onBroken?.(error)
  }

  #checkpointWhenLarge(): void {
    const limit = this.#options.checkpointBytes
    if (this.#checkpointing || limit === undefined || !this.#options.checkpoint) return
    if (this.#walBytes >= Math.max(limit, this.#nextCheckpointBytes)) this.#checkpointing = this.#checkpointNow()
  }

  async #checkpointNow(): Promise<void> {
    const checkpoint = this.#options.checkpoint
    if (!checkpoint) return
    try {
      // The first pass copies the bulk while groups go on; under steady load it never catches up, so the second holds them back for the little
      // that came since, and empties the WAL.
      await checkpoint(this.#path, 'PASSIVE')
      this.#writersHeld = checkpoint(this.#path, 'TRUNCATE')
      await this.#writersHeld
      // A long reader keeps the WAL from being emptied; writers are not held again for it before as much has come anew.
      this.#measureWal()
      const leftBytes = this.#walBytes
      this.#nextCheckpointBytes = leftBytes === 0 ? 0 : leftBytes + (this.#options.checkpointBytes ?? 0)
      if (!this.#isClosed) this.#options.onCheckpoint?.(this.#path, leftBytes, () => this.checkpoint())
    } finally {
      this.#writersHeld = undefined
      this.#checkpointing = undefined
    }
  }
}
