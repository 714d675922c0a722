/** @module Provisional. */
import type { Clock } from '#platform/clock.ts'
import type { CommitterOptions } from '#platform/db/commit.ts'

export interface CaptureStore {
  close(): Promise<void>
}

export function openCaptureStore(_: {
  dataDir: string
  clock: Clock
  maxBytes: number
  maxAgeMs: number
  committerOptions: CommitterOptions
}): CaptureStore {
  return { close: () => Promise.resolve() }
}
