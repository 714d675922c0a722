/** @module Reads something expensive at most as often as the time it takes allows. */

import type { Millis } from '#platform/units.ts'
import type { Clock } from '../time/clock.ts'

/** Reading takes at most this fraction of the time. */
const MAX_READ_FRACTION = 0.02

export interface PacedReader<T> {
  /** Resolves with the last reading, or the next one if it is due; all callers share it. */
  (): Promise<T>
  /** Makes a reading due. */
  readonly forget: () => void
}

export function createPacedReader<T>(
  clock: Pick<Clock, 'monotonicMs'>,
  minIntervalMs: number,
  read: () => Promise<T>,
): PacedReader<T> {
  let reading: Promise<T> | undefined
  let nextAtMs: Millis = Number.NEGATIVE_INFINITY
  const readAndPace = async (): Promise<T> => {
    const startedAtMs = clock.monotonicMs()
    try {
      return await read()
    } finally {
      const now = clock.monotonicMs()
      nextAtMs = now + Math.max(minIntervalMs, (now - startedAtMs) / MAX_READ_FRACTION)
    }
  }
  const reader = () => {
    if (!reading || clock.monotonicMs() >= nextAtMs) {
      nextAtMs = Number.POSITIVE_INFINITY
      reading = readAndPace()
    }
    return reading
  }
  const forget = () => {
    reading = undefined
  }
  return Object.assign(reader, { forget })
}
