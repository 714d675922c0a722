/** @module Decides which mail takes the smarthost for overflow instead of waiting for its provider. Pure. */
import type { Millis } from '#platform/clock.ts'
import { minutes } from '#platform/units.ts'
import type { Instant, Pair } from './pair.ts'

/** How soon mail is looked at again that could not take the smarthost. */
const RETRY_MS = minutes(1)

/** Due mail of a lane, as its earliest recipient has it. */
export interface WaitingMail {
  readonly pair: Pair
  readonly isBulk: boolean
  readonly attempts: number
  /** When it was first due. */
  readonly since: Millis
  /** How long it may wait; 0: as long as its provider lets it. */
  readonly afterMs: number
}

/** `all`: everything that is due; `late`: what has waited for the set time; undefined: nothing. */
export function chooseOverflow({ pair, isBulk, attempts, since, afterMs }: WaitingMail, at: Instant) {
  // Mail that was attempted is no probe, or the same message would be it until it expires.
  const isSuspended = pair.state.suspension !== undefined && (attempts > 0 || pair.allowance(at) <= 0)
  if (isSuspended || pair.budgetLeft(isBulk, at.now) <= 0) return 'all'
  return afterMs > 0 && at.now - since >= afterMs ? 'late' : undefined
}

/** When waiting mail may take the smarthost, at the earliest; infinite if only the pair decides that. */
export function nextOverflowAt(mail: WaitingMail, at: Instant): Millis {
  if (chooseOverflow(mail, at)) return at.now + RETRY_MS
  return mail.afterMs > 0 ? mail.since + mail.afterMs : Number.POSITIVE_INFINITY
}
