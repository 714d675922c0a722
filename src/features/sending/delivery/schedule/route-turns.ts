/**
 * @module Lets accounts take turns when many lanes look up their routes at the same time: a few milliseconds of lookups
 * per tick of the event loop. Otherwise thousands of lanes that become due together would all ask DNS before the first
 * of them sends. Knows nothing about routes.
 */

import { FairScheduler } from '#platform/queue/fair-scheduler.ts'
import type { Clock } from '#platform/time/clock.ts'

/** While fewer lookups run, another begins immediately. */
const LOOKUPS_WITHOUT_TURN = 16

export class RouteTurns {
  readonly #turns: FairScheduler
  #running = 0

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#turns = new FairScheduler({ clock, overload: () => new Error('too many route lookups') })
  }

  /**
   * Begins a lookup when the turn of its owner comes; `begin` may return undefined, if none is needed any more.
   * @param rank of the owner's lookups, those of a lower rank go first
   */
  async run<T>(owner: number, rank: number, begin: () => Promise<T> | undefined): Promise<T | undefined> {
    const isCrowded = this.#running >= LOOKUPS_WITHOUT_TURN
    this.#running++
    try {
      return await (isCrowded ? this.#turns.run(owner, begin, rank) : begin())
    } finally {
      this.#running--
    }
  }
}
