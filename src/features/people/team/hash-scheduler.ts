/**
 * @module Whose password is hashed now. Known and unknown ones wait apart, and the two take turns, so a known one waits
 * for at most one hash of the others. Never hashes.
 */
import { type Clock, systemClock } from '#platform/clock.ts'
import { AppError } from '#platform/errors.ts'
import { FairPool } from '#platform/queue/fair-scheduler.ts'

/** About two seconds of work. */
export const MAX_WAITING_HASHES = 40
/** For one owner, so that one network does not fill the queue. */
const MAX_WAITING_PER_OWNER = 20
const RETRY_AFTER_SECONDS = 3

/** Who waits for a hash. */
export interface HashRequest {
  /**
   * Is signed in, has a link, or comes from a network in which the user was signed in before: others, from however many
   * networks, delay it by one hash at most.
   */
  readonly isKnown: boolean
  /** Owners take turns: a user or an account, of unknown ones the network. */
  readonly owner: string
}

/** Runs a hash when its turn comes; rejects with 503 when too many wait. */
export type RunHash = <T>(request: HashRequest, hash: () => Promise<T>) => Promise<T>

/** @param maxConcurrent hashes at once, of known and unknown ones together */
export function createHashScheduler(maxConcurrent: number, clock: Pick<Clock, 'monotonicMs'> = systemClock): RunHash {
  const createPool = (limits: { readonly maxWaiting?: number; readonly maxPerOwner?: number }): FairPool =>
    new FairPool({ clock, concurrency: maxConcurrent, overload: hashQueueFull, ...limits })
  const waiting = { maxWaiting: MAX_WAITING_HASHES, maxPerOwner: MAX_WAITING_PER_OWNER }
  const known = createPool(waiting)
  const unknown = createPool(waiting)
  // At most `maxConcurrent` of each come here at a time.
  const shared = createPool({})
  return ({ isKnown, owner }, hash) =>
    (isKnown ? known : unknown).run(owner, () => shared.run(isKnown ? 'known' : 'unknown', hash))
}

const hashQueueFull = () =>
  new AppError(503, 'busy', 'Too many people sign in at this moment; try again in some seconds.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  })
