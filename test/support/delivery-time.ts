/** @module Lets time pass for a service that delivers, for tests with a clock of their own. */
import { ABOUT_TO_BE_DELIVERED_REASON } from '#features/sending/delivery/schedule/waits.ts'
import { eventually, type TestApp } from './app.ts'
import { laneStates } from './lanes.ts'
import type { ManualClock } from './manual-clock.ts'

/**
 * Whether all mail waits for time to pass. Not while a message is in delivery, its outcome is being stored, or a lane
 * looks up its route or claims.
 */
function isWaitingForTime(service: Pick<TestApp, 'app' | 'delivery'>): boolean {
  if (service.delivery?.scheduler.inFlight !== 0) return false
  return laneStates(service).every(
    ({ reason }) => reason !== ABOUT_TO_BE_DELIVERED_REASON && !reason.includes(' in delivery'),
  )
}

/**
 * Advances the clock in steps until all mail waits for time and the condition holds. Steps only when nothing but time
 * brings the mail forward: otherwise a busy machine would let hours pass during one attempt.
 */
export async function advanceUntil(
  clock: ManualClock,
  service: Pick<TestApp, 'app' | 'delivery'>,
  condition: () => boolean,
  stepMs: number,
): Promise<void> {
  await eventually(() => {
    if (isWaitingForTime(service)) {
      if (condition()) return true
      clock.advance(stepMs)
    } else clock.advance(SMALL_STEP_MS)
    return false
  }, 110_000)
}

/** For timers of the service itself; too short to matter to any mail. */
const SMALL_STEP_MS = 10
