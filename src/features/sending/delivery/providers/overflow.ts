/** @module Decides which mail takes the smarthost for overflow instead of waiting for its provider. Pure. */
import type { Millis } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'
import type { Instant, Pair } from './pair.ts'

/** How soon mail is looked at again that could not take the smarthost. */
const RETRY_MS = minutes(1)

/** Due mail of a lane, as its earliest recipient has it. */
export interface WaitingMail {
  readonly pair: Pair
  readonly isBulk: boolean
  readonly attempts: number
}

/** Whether everything of the lane that is due takes the smarthost. */
export function mustOverflow({ pair, isBulk, attempts }: WaitingMail, at: Instant): boolean {
  // Mail that was attempted is no probe, or the same message would be it until it expires.
  const isSuspended = pair.state.suspension !== undefined && (attempts > 0 || pair.allowance(at) <= 0)
  return isSuspended || pair.budgetLeft(isBulk, at.now) <= 0
}

/** When waiting mail may take the smarthost, at the earliest; infinite if only the pair decides that. */
export const nextOverflowAt = (mail: WaitingMail, at: Instant): Millis =>
  mustOverflow(mail, at) ? at.now + RETRY_MS : Number.POSITIVE_INFINITY
