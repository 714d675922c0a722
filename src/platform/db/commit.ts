/**
 * @module Group commit. Write functions of concurrent requests and sessions run in one transaction, each in a
 * savepoint, and their promises resolve only when the WAL with their writes is synced to disk. The event loop never
 * waits for the disk: the sync runs in the thread pool while the next group gathers. No transaction is held across
 * anything asynchronous: the types force write functions to be synchronous.
 *
 * While another process holds the database, writes wait without blocking the event loop, and fail with 503 after some
 * seconds.
 *
 * Part of the disk is reserved: `write` rejects writes that would use the reserve, so that `writeFromReserve` can
 * always delete data and finish accepted work.
 */
import type { Database } from 'bun:sqlite'
import { closeSync, fdatasync, fstatSync, openSync } from 'node:fs'
import type { DiskGuard } from '#platform/disk/disk.ts'
import { isLocked, toStorageError } from '#platform/disk/storage-errors.ts'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { AppError, attempt, tooLittleSpace } from '../errors.ts'
import { FairQueue, type Owner } from '../queue/fair-queue.ts'
import { MiB, seconds } from '../units.ts'
import { type NonPromise, openReadOnly, prepareStatements, type Tx } from './open.ts'
import type { Replica, WalReplica } from './replica.ts'

export interface WriteOptions {
  /**
   * Owner of the write. Owners get equal time, so an owner with hundreds of writes delays only itself. Default: the
   * service.
   */
  readonly owner?: Owner | undefined
  /**
   * Whether the write may use the disk reserve. Only for writes that finish accepted mail, delete data, free space, or
   * let users sign in to do so. No client may control the size of such a write.
   */
  readonly mayUseReserve?: boolean | undefined
}

export interface CommitterOptions {
  /** Measures how long writes take. */
  readonly clock?: Pick<Clock, 'monotonicMs'>
  /** Writes a group's summed counter additions and advanced numbers. */
  readonly flush?: (db: Database, deltas: ReadonlyMap<string, number>, numbers: ReadonlyMap<string, number>) => void
  /**
   * Called with each group's counter additions once the group is durable and before the next group runs. So everything
   * that can be read during the call is on disk.
   */
  readonly onDurable?: (deltas: ReadonlyMap<string, number>) => void
  /** Called with each group that is on disk. @param durationMs from its first write to the end of its sync */
  readonly onSynced?: (writes: number, durationMs: number) => void
  /**
   * Called once when a sync failed: it is then unknown which writes reach the disk, so nothing may be accepted any
   * more.
   */
  readonly onBroken?: (error: Error) => void
  /** Guards the disk reserve; without it nothing is reserved. */
  readonly disk?: DiskGuard
  /** WAL size that triggers a checkpoint. While a checkpoint runs, the WAL grows by at most this much and one group. */
  readonly checkpointBytes?: number
  /**
   * Copies the WAL into the database in another thread; `TRUNCATE` also empties it, which requires the writer to pause.
   */
  readonly checkpoint?: (path: string, mode: 'PASSIVE' | 'TRUNCATE') => Promise<void>
  /**
   * A second place for the writes: they count as durable once they are there too, and reach the database file only then,
   * so that a crash can undo those that are not.
   */
  readonly replica?: Replica | undefined
}

/** Work between two groups. */
interface ExclusiveJob {
  /** Whether to empty the WAL first, as far as other readers of the database allow it. */
  readonly needsEmptyWal: boolean
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

/** Limits how many writes fail together when their group does. */
const MAX_WRITES_PER_GROUP = 128
/** Limits how long one group blocks the event loop, apart from a single write that takes longer. */
const MAX_GROUP_MS = 10
/**
 * With this much space free above the reserve, writes need not be measured: a group lasts only some milliseconds and
 * cannot write so much.
 */
const AMPLE_FREE_BYTES = 256 * MiB
/** Owner of the service's own writes: outcomes, recurring tasks. */
const SERVICE: Owner = ''
/**
 * The service writes on behalf of all owners, so it gets one share per waiting owner, but at least this many shares.
 */
const MIN_SERVICE_SHARES = 4
/** How long writes wait while another process holds the database; a client would not wait longer. */
const MAX_LOCK_WAIT_MS = seconds(5)
const LOCK_RETRY_MS = 50
/** Approximate time that a supervisor needs to restart the service; clients get it as `Retry-After`. */
const RESTART_SECONDS = 10
/** Minimum cost of a write, so that fairness also works for writes shorter than the clock's resolution. */
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
  readonly replica: WalReplica | undefined
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
  /** No write is accepted any more. */
  #isEnded = false
  #running = false
  #writersHeld: Promise<void> | undefined
  #checkpointing: Promise<void> | undefined
  #nextCheckpointBytes = 0
  /** WAL size at which writes wait for the running checkpoint. */
  #maxCheckpointingBytes = 0
  /** Whether the running group might reach the disk reserve, so that each of its writes is measured. */
  #isDiskTight = false
  /** Size of the database when the running group began. */
  #pagesBefore = 0
  #pageBytes: number | undefined
  #broken: Error | undefined
  /** When another process began to hold the database; undefined: none does. */
  #lockedSinceMs: number | undefined

  /** @param path of the database file, already in WAL mode and with a `-wal` file */
  constructor(db: Database, path: string, options: CommitterOptions = {}) {
    this.db = db
    this.#path = path
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#walFd = openSync(`${path}-wal`, 'r+')
    this.#walBytes = fstatSync(this.#walFd).size
    this.#unregister = options.disk?.register(this)
    this.replica = options.replica?.openWal(path)
  }

  /**
   * Runs `run` in the next group, and resolves with the value that it returned once its writes are on disk. A throw
   * rolls back only this write and rejects with the same error. A full disk, or a disk with only the reserve left,
   * rejects with 507 `insufficient_storage`; other transient errors, such as another process's lock, with 503
   * `storage_unavailable`. Writes of one owner run in order of arrival.
   */
  write<T>(run: (tx: Tx) => NonPromise<T>, { owner = SERVICE, mayUseReserve = false }: WriteOptions = {}): Promise<T> {
    if (this.#broken) return Promise.reject(this.#broken)
    if (this.#isEnded) return Promise.reject(new Error(`${this.#path} is closed`))
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
    // The loop starts after the current poll phase, so that requests which arrived together share a group.
    setImmediate(() => void this.#loop())
  }

  /**
   * Runs `run` on the connection between two groups, outside of any transaction and while no checkpoint runs: for
   * maintenance that no transaction may contain. Its writes are not synced, and it blocks all other writes, so it may
   * take only some milliseconds.
   */
  runExclusive<T>(run: (db: Database) => NonPromise<T>): Promise<T> {
    return this.#enqueueExclusive(false, () => run(this.db) as T)
  }

  /**
   * Like `runExclusive`, for work on the database file itself: another thread first empties the WAL into this file. All
   * writes wait until `run` has returned.
   * @param run gets the file; `isWhole` is false when a reader kept the WAL from being emptied into it
   */
  runExclusiveWithFile<T>(
    run: (file: { readonly fd: number; readonly isWhole: boolean }) => NonPromise<T>,
  ): Promise<T> {
    return this.#enqueueExclusive(true, () => run({ fd: this.fileFd, isWhole: fstatSync(this.#walFd).size === 0 }) as T)
  }

  #enqueueExclusive<T>(needsEmptyWal: boolean, run: () => T): Promise<T> {
    if (this.#broken) return Promise.reject(this.#broken)
    if (this.#isClosed) return Promise.reject(new Error(`${this.#path} is closed`))
    return new Promise<T>((resolve, reject) => {
      this.#exclusiveJobs.push({
        needsEmptyWal,
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
   * The database file. It has one descriptor for the lifetime of the connection: when a process closes any descriptor
   * of a file, the process loses its locks on that file. Another process that opens the database would then take itself
   * for the only user and remove the WAL (https://sqlite.org/howtocorrupt.html, 2.2).
   */
  get fileFd(): number {
    if (this.#isClosed) throw new Error(`${this.#path} is closed`)
    this.#fileFd ??= openSync(this.#path, 'r+')
    return this.#fileFd
  }

  /**
   * Copies the WAL into the database and empties it, unless a long reader prevents that. Writers wait only for the last
   * part.
   */
  async checkpoint(): Promise<void> {
    if (this.#broken || this.#isClosed || !this.#options.checkpoint) return
    this.#checkpointing ??= this.#checkpointNow()
    await this.#checkpointing
  }

  /** Resolves when all earlier writes are durable or have failed. */
  async barrier(): Promise<void> {
    // Groups run in order, and an owner's writes run in order. So when one empty write per owner has ended, all earlier
    // writes have ended too.
    const owners = new Set([SERVICE, ...this.#queue.owners()])
    await Promise.allSettled([...owners].map((owner) => this.writeFromReserve(() => undefined, { owner })))
  }

  /** Waits for queued writes, copies the WAL into the database and closes both. */
  async close(): Promise<void> {
    // Queued writes run before the barrier.
    this.#isClosed = true
    await this.barrier()
    this.#isEnded = true
    this.#unregister?.()
    // A running checkpoint measures the WAL at its end, so the descriptor must stay open until then.
    await this.#checkpointing
    await this.#storeAll()
    // The process is about to end. Closing the database would write into its file what the replica may not have.
    if (this.#broken && this.replica) return
    closeSync(this.#walFd)
    try {
      if (!this.#broken) this.db.run('PRAGMA wal_checkpoint(TRUNCATE)')
    } catch {
      // If the disk is full, the WAL stays, and the next start reads it.
    }
    this.db.close()
    this.replica?.close()
    if (this.#fileFd !== undefined) closeSync(this.#fileFd)
  }

  async #loop(): Promise<void> {
    while ((this.#queue.size > 0 || this.#exclusiveJobs.length > 0) && !this.#broken) {
      await this.#options.disk?.refresh()
      // Without this wait, writers that are faster than the checkpoint would let the WAL grow without bound.
      if (this.#checkpointing && this.#walBytes >= this.#maxCheckpointingBytes) await this.#checkpointing
      // Checked last, because a checkpoint may have stopped the writer during the refresh.
      while (this.#writersHeld) await this.#writersHeld
      if (this.#exclusiveJobs.length > 0) {
        await this.#runExclusiveJobs()
        // Not back to the start: jobs that each add the next one would keep all writes waiting.
        while (this.#writersHeld) await this.#writersHeld
        if (this.#queue.size === 0 || this.#broken) continue
      }
      if (!this.#begin()) {
        // Uses the real clock even in tests, because the lock belongs to another process.
        if (this.#lockedSinceMs !== undefined) await systemClock.sleep(LOCK_RETRY_MS)
        continue
      }
      const deltas = new Map<string, number>()
      const startedAtMs = this.#clock.monotonicMs()
      const group = this.#runGroup(deltas)
      this.#measureWal()
      if (group.length === 0) continue
      try {
        await this.#makeDurable()
      } catch (error) {
        this.#markBroken(error as Error, group)
        break
      }
      this.#options.onSynced?.(group.length, this.#clock.monotonicMs() - startedAtMs)
      for (const entry of group) {
        // The callbacks run as microtasks: before the code that awaits the write, and so that a bug in one of them
        // cannot stop the loop.
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
    do await this.#storeAll()
    while (await this.#hasCheckpoint())
    if (this.#broken) return
    const jobs = this.#exclusiveJobs.splice(0)
    if (jobs.some(({ needsEmptyWal }) => needsEmptyWal) && fstatSync(this.#walFd).size > 0) await this.#emptyWal()
    for (const { run } of jobs) run()
    await this.#storeAll()
    this.#measureWal()
    // Exclusive jobs write to the WAL too, and the next group, which would start a checkpoint, may be far off.
    this.#checkpointWhenLarge()
  }

  /** Waits for a running checkpoint; resolves with whether there was one. */
  async #hasCheckpoint(): Promise<boolean> {
    const isRunning = this.#checkpointing !== undefined
    await this.#checkpointing
    return isRunning
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
      // Rethrown outside of the loop, so that a bug in the listener surfaces but does not stop the loop.
      queueMicrotask(() => {
        throw error
      })
    }
  }

  /**
   * Begins a transaction. Returns false when that failed. Then either the queue waits for the process that holds the
   * database (`#lockedSinceMs` is set), or the queue was rejected, because the wait was too long or another error
   * occurred.
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

  /**
   * Runs the head of the queue and commits; rejects failed writes and returns the committed ones, which are not synced
   * yet.
   */
  #runGroup(deltas: Map<string, number>): QueuedWrite[] {
    const statements = sql(this.db)
    const group: QueuedWrite[] = []
    const numbers = new Map<string, number>()
    try {
      this.#isDiskTight = this.#options.disk?.hasSpaceFor(AMPLE_FREE_BYTES) === false
      if (this.#isDiskTight) this.#pagesBefore = statements.pages.get()?.page_count ?? 0
      const endMs = this.#clock.monotonicMs() + MAX_GROUP_MS
      for (let nowMs = endMs - MAX_GROUP_MS; nowMs < endMs && group.length < MAX_WRITES_PER_GROUP; ) {
        const next = this.#queue.shift()
        if (!next) break
        const { item: entry, owner } = next
        group.push(entry)
        this.#runEntry(entry, deltas, numbers)
        const ranUntilMs = this.#clock.monotonicMs()
        const costMs = Math.max(ranUntilMs - nowMs, MIN_COST_MS)
        const shares = owner === SERVICE ? Math.max(MIN_SERVICE_SHARES, this.#queue.ownerCount) : 1
        this.#queue.charge(owner, costMs / shares)
        nowMs = ranUntilMs
        if (!this.db.inTransaction) throw entry.error
      }
      if (deltas.size + numbers.size > 0) this.#options.flush?.(this.db, deltas, numbers)
      statements.commit.run()
    } catch (error) {
      if (this.db.inTransaction) statements.rollback.run()
      // The whole group is lost: writes that had not failed themselves fail with it.
      for (const entry of group) entry.reject(toStorageError(entry.failed ? entry.error : error))
      return []
    }
    for (const entry of group) if (entry.failed) entry.reject(toStorageError(entry.error))
    return group.filter((entry) => !entry.failed)
  }

  #runEntry(entry: QueuedWrite, deltas: Map<string, number>, numbers: Map<string, number>): void {
    const statements = sql(this.db)
    const ownDeltas: [string, number][] = []
    const ownNumbers = new Map<string, number>()
    statements.savepoint.run()
    try {
      entry.value = entry.run({
        db: this.db,
        add: (counter, delta) => ownDeltas.push([counter, delta]),
        advance: (name, by, readStored) => {
          const number = (ownNumbers.get(name) ?? numbers.get(name) ?? readStored()) + by
          if (by !== 0) ownNumbers.set(name, number)
          return number
        },
        afterCommit: (run) => entry.after.push(run),
      })
      if (this.#isDiskTight && !entry.mayUseReserve) this.#requireDiskSpace()
      statements.release.run()
      for (const [counter, delta] of ownDeltas) deltas.set(counter, (deltas.get(counter) ?? 0) + delta)
      for (const [name, number] of ownNumbers) numbers.set(name, number)
    } catch (error) {
      entry.failed = true
      entry.error = error
      entry.after = []
      // A full disk can end the whole transaction; then the savepoint no longer exists.
      if (!this.db.inTransaction) return
      statements.rollbackTo.run()
      statements.release.run()
    }
  }

  /**
   * Throws 507 when the pages that the group has added so far would touch the reserve. They count twice: in the WAL,
   * and again when they are copied into the database.
   */
  #requireDiskSpace(): void {
    const { disk } = this.#options
    if (!disk) return
    const { pages, pageSize } = sql(this.db)
    this.#pageBytes ??= pageSize.get()?.page_size ?? 0
    const addedBytes = Math.max(0, (pages.get()?.page_count ?? 0) - this.#pagesBefore) * this.#pageBytes
    if (!disk.hasSpaceFor(2 * addedBytes)) throw tooLittleSpace(2 * addedBytes)
  }

  async #makeDurable(): Promise<void> {
    const stored = this.replica?.store()
    // A failure is met below, also while the sync still runs.
    stored?.catch(() => undefined)
    await this.#sync()
    if (stored) await stored
  }

  /** Waits until the replica has every commit. When it returns, no commit is on its way to it, or this is broken. */
  async #storeAll(): Promise<void> {
    try {
      while (this.replica && !this.#broken && !this.replica.isStored) await this.replica.store()
    } catch (error) {
      this.#markBroken(error as Error, [])
    }
  }

  #sync(): Promise<void> {
    return new Promise((resolve, reject) => fdatasync(this.#walFd, (error) => (error ? reject(error) : resolve())))
  }

  #markBroken(error: Error, group: QueuedWrite[]): void {
    // A replica says itself what its failure means, and ends the process.
    this.#broken =
      error instanceof AppError
        ? error
        : new AppError(
            503,
            'storage_failed',
            'The storage failed and the server is stopping; try again after its restart.',
            { cause: error, retryAfterSeconds: RESTART_SECONDS },
          )
    for (const entry of group) entry.reject(this.#broken)
    if (this.#broken !== error) this.#options.onBroken?.(error)
  }

  #checkpointWhenLarge(): void {
    const limit = this.#options.checkpointBytes
    if (this.#checkpointing || limit === undefined || !this.#options.checkpoint) return
    if (this.#walBytes >= Math.max(limit, this.#nextCheckpointBytes)) this.#checkpointing = this.#checkpointNow()
  }

  async #checkpointNow(): Promise<void> {
    const checkpoint = this.#options.checkpoint
    if (!checkpoint) return
    this.#maxCheckpointingBytes = this.#walBytes + (this.#options.checkpointBytes ?? Number.POSITIVE_INFINITY)
    try {
      // The first pass copies most pages while groups go on. Under steady load this pass never catches up, so the
      // second pass pauses writers, copies the few pages that were added since then, and empties the WAL.
      await this.#checkpointStored(() => checkpoint(this.#path, 'PASSIVE'))
      this.#writersHeld = this.#whenStored(() => checkpoint(this.#path, 'TRUNCATE'))
      await this.#writersHeld
      // A long reader prevents emptying the WAL; writers are then paused again only when the WAL has grown by
      // `checkpointBytes`.
      this.#measureWal()
      this.#nextCheckpointBytes = this.#walBytes === 0 ? 0 : this.#walBytes + (this.#options.checkpointBytes ?? 0)
    } finally {
      this.#writersHeld = undefined
      this.#checkpointing = undefined
    }
  }

  /** Runs a checkpoint while groups go on. A reader keeps it from copying commits that the replica may not have. */
  async #checkpointStored(run: () => Promise<void>): Promise<void> {
    if (!this.replica) return run()
    await this.#whenStored(async () => {
      const reader = attempt(() => openReadOnly(this.#path))
      // The next pass copies the same pages.
      if (!reader) return
      try {
        reader.run('BEGIN')
        reader.query('SELECT 1 FROM sqlite_schema').get()
        await run()
      } catch {
        // As above.
      } finally {
        reader.close()
      }
    })
  }

  /** Calls `run` when the replica has every commit, unless this is broken. */
  async #whenStored(run: () => Promise<void>): Promise<void> {
    if (!this.replica) return run()
    // A group may run after the wait has ended and before this goes on.
    do await this.#storeAll()
    while (!this.#broken && !this.replica.isStored)
    if (!this.#broken) await run()
  }
}
