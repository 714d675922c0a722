/**
 * @module The outcome of a recipient on the suppression list, with the same text at acceptance and before delivery.
 * Never reads the list.
 */
import type { EventData } from '#features/core/events/record.ts'

/** @param reason why the address is suppressed, such as `hard_bounce` */
export const suppressedOutcome = (reason: string): { lastError: string; data: EventData } => ({
  lastError: `The address is on the suppression list (${reason}), so nothing is sent to it.`,
  data: { reason: 'suppressed', suppression: reason },
})
