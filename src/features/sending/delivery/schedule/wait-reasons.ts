/** @module Why mail waits, in words, for senders and operators. Pure. */
import type { Millis } from '#platform/time/clock.ts'
import type { Instant, Pair } from '../providers/pair.ts'
import type { Site } from '../sites/sites.ts'

/** The reason of a lane whose mail is not due yet. */
export const NOT_DUE_REASON = 'waits for its time'

/** The reason of a lane that waits for nothing but its turn. */
export const ABOUT_TO_BE_DELIVERED_REASON = 'is about to be delivered'

/** The reason of due mail while nothing delivers it. */
export const NO_SERVICE_REASON = 'no service is running'

/** The reason of a lane for which the log has a warning. */
export const STALLED_REASON = 'makes no progress, although nothing known holds it: see the log; a restart frees it'

/** Follows the reason of a broadcast. */
export const AFTER_OTHERS = ', after all non-broadcast mail'

export const describeInDelivery = (attempts: number, areOthersWaiting: boolean): string =>
  `${attempts} in delivery${areOthersWaiting ? ', the others wait for a connection' : ''}`

const SUSPENDED = ' is suspended until '

/** Whether `describePair` names a suspension, which is about our address and not about the mail. */
export const isSuspension = (reason: string): boolean => reason.includes(SUSPENDED)

/** Why an operator sees mail wait at a pair. */
export function describePair(pair: Pair, at: Instant, isBulk: boolean): string {
  const { suspension } = pair.state
  if (suspension && pair.suspendedMs(at.now) > 0)
    return `${pair.key}${SUSPENDED}${new Date(suspension.until).toISOString()} (${suspension.rule}): ${suspension.reason}`
  if (suspension) return `waits for the probe of ${pair.key} (${suspension.rule}): ${suspension.reason}`
  if (pair.budgetWaitMs(isBulk, at.now) > 0) return describeBudget(pair, at.now)
  return pair.allowance(at) === Number.POSITIVE_INFINITY ? `waits for a connection to ${pair.key}` : describeRate(pair)
}

/** Why a sender sees mail wait for a pair over which nothing may begin. */
export function describePairToSender(pair: Pair, at: Instant, isBulk: boolean): string {
  const { suspension } = pair.state
  if (suspension) return `${pair.key} is not tried for a while: ${suspension.reason}`
  return pair.budgetWaitMs(isBulk, at.now) > 0 ? describeBudget(pair, at.now) : describeRate(pair)
}

const describeRate = (pair: Pair): string =>
  `${pair.key} gets at most ${Math.round(pair.ratePerMinute)} messages a minute`

/** Why the budget of a warm-up holds mail back. */
const describeBudget = ({ key, warmUp }: Pair, now: Millis): string =>
  `${key} has had its ${warmUp?.stateAt(now).budget} messages of the day, because our address is new to it`

/**
 * Why an operator sees mail wait for a site.
 * @param options.isBackingOff whether it waits for the end of a backoff, not for a slot
 */
export const describeSite = (
  name: string,
  { backoffUntil, backoffReason }: Site,
  { isBackingOff, isBulk }: { readonly isBackingOff: boolean; readonly isBulk: boolean },
): string =>
  isBackingOff
    ? `${name} is in backoff until ${new Date(backoffUntil).toISOString()}: ${backoffReason}`
    : `waits for a connection to ${name}${isBulk ? AFTER_OTHERS : ''}`

/** Why a sender sees mail wait for the end of a backoff. */
export const describeSiteToSender = (name: string, { backoffReason }: Site): string =>
  `${name} is not tried for a while: ${backoffReason}`

export const describeSlotWait = (isBulk: boolean): string =>
  `waits for a free slot${isBulk ? AFTER_OTHERS : ''}: the limit of messages in delivery is reached, in total, for its account or for one address`
