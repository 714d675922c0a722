/**
 * @module Whose work is done now, by time used: `FairScheduler` for pieces of work on the event loop, `FairPool` for work that is waited for. Both take turns by
 * owner (an account, a network), and measure what each piece took. Know nothing of the work.
 */
import type { Clock } from '../clock.ts'
import { FairQueue, type FairQueueLimits, type Owner } from './fair-queue.ts'

/** How long pieces of work may hold a turn of the event loop; one that takes longer has a turn for itself. */
const TICK_BUDGET_MS = 4

interface Piece {
  /** True when nothing of it is left. */
  readonly run: () => boolean
  readonly refuse: () => void
  /** Whether what it began runs after it, in the rest of the turn of the event loop. */
  readonly endsTick: boolean
}

export interface FairSchedulerOptions extends FairQueueLimits {
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** The error with which a piece is refused that finds the limits reached, or has to give way. */
  readonly overload: () => Error
}

/**
 * Pieces of synchronous work, each of some milliseconds. Between two of them everything else that waits for the event loop has its turn, and owners
 * get the same time whatever they bring, so a request waits for one piece and not for a whole batch, export or page.
 */
export class FairScheduler {
  readonly #clock: FairSchedulerOptions['clock']
  readonly #overload: () => Error
  readonly #queue: FairQueue<Piece>
  #isScheduled = false
  /** Who entered in the last tick, and when. */
  #lastTurn: { readonly owner: Owner; readonly atMs: number } | undefined

  constructor({ clock, overload, ...limits }: FairSchedulerOptions) {
    this.#clock = clock
    this.#overload = overload
    this.#queue = new FairQueue(limits, (piece) => piece.refuse())
  }

  /** Pieces that wait. */
  get size(): number {
    return this.#queue.size
  }

  /** Runs a piece when its owner's turn comes; resolves with its value or rejects with what it throws, or with the overload error. */
  run<T>(owner: Owner, piece: () => T): Promise<T> {
    return this.#add(owner, toSingleStep(piece), { isNew: true })
  }

  /**
   * Runs work that yields between its pieces. Works of one owner run one after the other, so at most one of them is
   * half done.
   */
  runSteps<T>(owner: Owner, steps: Iterator<void, T>): Promise<T> {
    return this.#add(owner, steps, { isNew: true })
  }

  /** The same as `run` for work that has begun: its further pieces are never refused, or it would end half done. */
  resume<T>(owner: Owner, piece: () => T): Promise<T> {
    return this.#add(owner, toSingleStep(piece), { isNew: false })
  }

  /**
   * Calls `step` with every item, as many in a piece as fit into its time.
   * @param options.together what surrounds the steps of a piece, such as a snapshot
   * @param options.isNew false: work that has begun, which is never refused
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
    let isOver = false
    const steps = (): void => {
      const endMs = this.#clock.monotonicMs() + TICK_BUDGET_MS
      do {
        const next = iterator.next()
        isOver = next.done === true
        if (!next.done) step(next.value)
      } while (!isOver && this.#clock.monotonicMs() < endMs)
    }
    const add = (isFirst: boolean) =>
      this.#add(
        owner,
        toSingleStep(() => together(steps)),
        { isNew: isNew && isFirst },
      )
    try {
      await add(true)
      while (!isOver) await add(false)
    } finally {
      iterator.return?.()
    }
  }

  /**
   * Resolves when the owner's turn comes, and leaves the rest of the turn of the event loop to what waits for it: for work that cannot be handed over as
   * a piece. Up to the next turn its time counts.
   * @param options.isNew false: work that has begun, which is never refused
   */
  enter(owner: Owner, { isNew = true }: { readonly isNew?: boolean } = {}): Promise<void> {
    return this.#add(
      owner,
      toSingleStep(() => undefined),
      { isNew, endsTick: true },
    )
  }

  #add<T>(
    owner: Owner,
    steps: Iterator<void, T>,
    { isNew, endsTick = false }: { isNew: boolean; endsTick?: boolean },
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
      if (!this.#queue.push(owner, { run, refuse, endsTick }, 0, { isLimited: isNew })) return refuse()
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

/** So that pieces which take no time that the clock sees take turns as well. */
const MIN_COST_MS = 0.01

export interface FairPoolOptions extends FairQueueLimits {
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** Works that run at the same time. */
  readonly concurrency: number
  /** The error with which work is refused that finds the limits reached, or has to give way. */
  readonly overload: () => Error
}

interface Work {
  readonly run: () => Promise<unknown>
  readonly refuse: () => void
}

/** Works that are waited for, some at the same time; the others wait by turns of their owners. */
export class FairPool {
  readonly #options: FairPoolOptions
  readonly #queue: FairQueue<Work>
  #running = 0

  constructor(options: FairPoolOptions) {
    this.#options = options
    this.#queue = new FairQueue(options, (work) => work.refuse())
  }

  /** Works that have not begun. */
  get waiting(): number {
    return this.#queue.size
  }

  /** Runs a work when its owner's turn comes; ends as it does, or rejects with the overload error without having begun. */
  run<T>(owner: Owner, work: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const refuse = () => reject(this.#options.overload())
      const run = async () => {
        try {
          resolve(await work())
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

  async #run(owner: Owner, work: Work): Promise<void> {
    this.#running++
    const startMs = this.#options.clock.monotonicMs()
    await work.run()
    this.#running--
    this.#queue.charge(owner, Math.max(this.#options.clock.monotonicMs() - startMs, MIN_COST_MS))
    this.#startNext()
  }
}
