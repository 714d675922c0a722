/**
 * @module Schedules work fairly by time used: `FairScheduler` runs pieces of synchronous work on the event loop,
 * `FairPool` runs asynchronous work. Both serve owners (accounts, networks) in turn and measure the time of each
 * piece or task. Neither knows anything about the work itself.
 */
import type { Clock } from '#platform/time/clock.ts'
import { FairQueue, type FairQueueLimits, type Owner } from './fair-queue.ts'

/** How long pieces of work may occupy one tick of the event loop; a longer piece gets a tick of its own. */
const TICK_BUDGET_MS = 4

interface Piece {
  /** Runs the piece; true when it has ended. */
  readonly run: () => boolean
  readonly refuse: () => void
  /**
   * Whether no further piece runs in this tick, so that the code that waits for this piece can use the rest of the
   * tick.
   */
  readonly endsTick: boolean
}

export interface FairSchedulerOptions extends FairQueueLimits {
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** Creates the error for work that exceeds the limits or is evicted. */
  readonly overload: () => Error
}

/**
 * Runs pieces of synchronous work of some milliseconds each. Between two ticks the event loop runs everything else that
 * is pending, and owners get equal time, so a request waits for one piece and not for a whole batch, export or page.
 */
export class FairScheduler {
  readonly #clock: FairSchedulerOptions['clock']
  readonly #overload: () => Error
  readonly #queue: FairQueue<Piece>
  #isScheduled = false
  /** The owner whose code got the rest of the last tick, and the time at which it did. */
  #lastTurn: { readonly owner: Owner; readonly atMs: number } | undefined

  constructor({ clock, overload, ...limits }: FairSchedulerOptions) {
    this.#clock = clock
    this.#overload = overload
    this.#queue = new FairQueue(limits, (piece) => piece.refuse())
  }

  /** Waiting pieces. */
  get size(): number {
    return this.#queue.size
  }

  /**
   * Runs a piece when its owner's turn comes; settles as the piece does, or rejects with the overload error.
   * @param rank of the owner's pieces, those of a lower rank go first
   */
  run<T>(owner: Owner, piece: () => T, rank = 0): Promise<T> {
    return this.#add(owner, toSingleStep(piece), { isNew: true, rank })
  }

  /**
   * Runs a generator piece by piece. An owner's generators run one after the other, so at most one of them is half
   * done.
   */
  runSteps<T>(owner: Owner, steps: Iterator<void, T>): Promise<T> {
    return this.#add(owner, steps, { isNew: true })
  }

  /**
   * Like `run`, for work that has begun: its further pieces are never refused, because a refusal would leave the work
   * half done.
   */
  resume<T>(owner: Owner, piece: () => T): Promise<T> {
    return this.#add(owner, toSingleStep(piece), { isNew: false })
  }

  /**
   * Calls `step` with every item; each piece of work takes as many items as fit into its time.
   * @param options.together called with each piece, to run its steps within something, such as a snapshot
   * @param options.isNew false: the items continue work that has begun, so no piece is refused
   */
  async forEach<T>(
    owner: Owner,
    items: Iterable<T>,
    step: (item: T) => void,
    {
      together = (steps) => steps(),
      isNew = true,
    }: { readonly together?: (steps: () => void) => void; readonly isNew?: boolean } = {},
  ): Promise<void> {
    const iterator = items[Symbol.iterator]()
    let isDone = false
    const steps = (): void => {
      const endMs = this.#clock.monotonicMs() + TICK_BUDGET_MS
      do {
        const next = iterator.next()
        isDone = next.done === true
        if (!next.done) step(next.value)
      } while (!isDone && this.#clock.monotonicMs() < endMs)
    }
    const add = (isFirst: boolean) =>
      this.#add(
        owner,
        toSingleStep(() => together(steps)),
        { isNew: isNew && isFirst },
      )
    try {
      await add(true)
      while (!isDone) await add(false)
    } finally {
      iterator.return?.()
    }
  }

  /**
   * Resolves when the owner's turn comes, and leaves the rest of the tick to the caller: for work that cannot be passed
   * as a piece. The time from then until the next tick counts as the owner's use.
   * @param options.isNew false: the caller continues work that has begun, so it is never refused
   */
  waitForTurn(owner: Owner, { isNew = true }: { readonly isNew?: boolean } = {}): Promise<void> {
    return this.#add(
      owner,
      toSingleStep(() => undefined),
      { isNew, endsTick: true },
    )
  }

  #add<T>(
    owner: Owner,
    steps: Iterator<void, T>,
    { isNew, endsTick = false, rank = 0 }: { isNew: boolean; endsTick?: boolean; rank?: number },
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const refuse = () => reject(this.#overload())
      const run = () => {
        try {
          const { done, value } = steps.next()
          if (done) resolve(value)
          return done === true
        } catch (error) {
          reject(error)
          return true
        }
      }
      if (!this.#queue.push(owner, { run, refuse, endsTick }, 0, { isLimited: isNew, rank })) return refuse()
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => this.#tick())
  }

  #tick(): void {
    this.#isScheduled = false
    const startMs = this.#clock.monotonicMs()
    if (this.#lastTurn) this.#queue.charge(this.#lastTurn.owner, Math.max(startMs - this.#lastTurn.atMs, MIN_COST_MS))
    this.#lastTurn = undefined
    for (let nowMs = startMs; nowMs - startMs < TICK_BUDGET_MS; ) {
      const next = this.#queue.shift()
      if (!next) break
      if (!next.item.run()) this.#queue.putBack(next)
      if (next.item.endsTick) {
        this.#lastTurn = { owner: next.owner, atMs: nowMs }
        this.#schedule()
        return
      }
      const endMs = this.#clock.monotonicMs()
      this.#queue.charge(next.owner, Math.max(endMs - nowMs, MIN_COST_MS))
      nowMs = endMs
    }
    if (this.#queue.size > 0) this.#schedule()
  }
}

const toSingleStep = <T>(piece: () => T): Iterator<void, T> => ({ next: () => ({ done: true, value: piece() }) })

/** Minimum cost of a piece, so that fairness also works for pieces shorter than the clock's resolution. */
const MIN_COST_MS = 0.01

export interface FairPoolOptions extends FairSchedulerOptions {
  /** Maximum number of concurrent tasks. */
  readonly concurrency: number
}

interface Task {
  readonly run: () => Promise<unknown>
  readonly refuse: () => void
}

/** Runs asynchronous tasks with limited concurrency; owners of waiting tasks are served in turn. */
export class FairPool {
  readonly #options: FairPoolOptions
  readonly #queue: FairQueue<Task>
  #running = 0

  constructor(options: FairPoolOptions) {
    this.#options = options
    this.#queue = new FairQueue(options, (task) => task.refuse())
  }

  /**
   * Runs a task when its owner's turn comes; settles as the task does, or rejects with the overload error without
   * starting it.
   */
  run<T>(owner: Owner, task: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const refuse = () => reject(this.#options.overload())
      const run = async () => {
        try {
          resolve(await task())
        } catch (error) {
          reject(error)
        }
      }
      if (!this.#queue.push(owner, { run, refuse }, 0)) return refuse()
      this.#startNext()
    })
  }

  #startNext(): void {
    while (this.#running < this.#options.concurrency) {
      const next = this.#queue.shift()
      if (!next) return
      void this.#run(next.owner, next.item)
    }
  }

  async #run(owner: Owner, task: Task): Promise<void> {
    this.#running++
    const startMs = this.#options.clock.monotonicMs()
    await task.run()
    this.#running--
    this.#queue.charge(owner, Math.max(this.#options.clock.monotonicMs() - startMs, MIN_COST_MS))
    this.#startNext()
  }
}
