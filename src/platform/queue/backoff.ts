/** @module The delay after consecutive failures: doubles each time. Pure; never waits. */

export interface BackoffDelays {
  /** The delay after the first failure. */
  readonly minMs: number
  readonly maxMs: number
}

/** The delay after `failures` consecutive failures; 0 after none. */
export const backoffDelayMs = (failures: number, { minMs, maxMs }: BackoffDelays): number =>
  failures <= 0 ? 0 : Math.min(minMs * 2 ** (failures - 1), maxMs)
