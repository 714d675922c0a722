/** @module The delay after consecutive failures: grows by a factor each time. Pure; never waits. */

export interface BackoffDelays {
  readonly minMs: number
  readonly maxMs: number
  /** By which each delay exceeds the one before; default 2. */
  readonly factor?: number
}

/** The delay after `failures` consecutive failures; 0 after none. */
export const backoffDelayMs = (failures: number, { minMs, maxMs, factor = 2 }: BackoffDelays): number =>
  failures <= 0 ? 0 : Math.min(minMs * factor ** (failures - 1), maxMs)
