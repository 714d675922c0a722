/**
 * @module Decides which password is hashed next. Hashes of known and unknown owners wait in two queues that are served
 * round-robin, so a hash of a known owner waits for at most one of an unknown owner. Never hashes.
 */

import { AppError } from '#platform/errors.ts'
import { FairPool } from '#platform/queue/fair-scheduler.ts'
import { type Clock, systemClock } from '#platform/time/clock.ts'

/** About two seconds of work. */
export const MAX_WAITING_HASHES = 40
/** Per owner, so that one network cannot fill the queue. */
const MAX_WAITING_PER_OWNER = 20
const RETRY_AFTER_SECONDS = 3

/** Identifies the owner of a hash that is waiting. */
export interface HashRequest {
  /**
   * Whether the owner is signed in, has a link, or comes from a network where the user was signed in before. Hashes of
   * unknown owners, from however many networks, delay a known one by one hash at most.
   */
  readonly isKnown: boolean
  /** Owners are served round-robin. A known owner is a user or an account; an unknown one is a network. */
  readonly owner: string
}

/** Runs a hash when its turn comes; rejects with 503 when too many are waiting. */
export type RunHash = <T>(request: HashRequest, hash: () => Promise<T>) => Promise<T>

/** @param maxConcurrent hashes that run at the same time, known and unknown together */
export function createHashScheduler(maxConcurrent: number, clock: Pick<Clock, 'monotonicMs'> = systemClock): RunHash {
  const createPool = (limits: { readonly maxWaiting?: number; readonly maxPerOwner?: number }): FairPool =>
    new FairPool({ clock, concurrency: maxConcurrent, overload: hashQueueFull, ...limits })
  const waiting = { maxWaiting: MAX_WAITING_HASHES, maxPerOwner: MAX_WAITING_PER_OWNER }
  const known = createPool(waiting)
  const unknown = createPool(waiting)
  // At most `maxConcurrent` hashes of each queue get here at a time.
  const shared = createPool({})
  return ({ isKnown, owner }, hash) =>
    (isKnown ? known : unknown).run(owner, () => shared.run(isKnown ? 'known' : 'unknown', hash))
}

const hashQueueFull = () =>
  new AppError(503, 'busy', 'Too many people are signing in at the moment; try again in a few seconds.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  })
