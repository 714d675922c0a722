/**
 * @module Worker that measures the use of the disk for the operator's routes. Reads over its own connection. Communicates
 * only with `disk-meter.ts`; changes nothing.
 */
import { join } from 'node:path'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { type DiskUsage, measureDisk } from './disk.ts'

declare const self: Worker

export interface DiskRequest {
  readonly config: Config
  readonly now: Millis
}

export interface DiskAnswer {
  readonly usage?: DiskUsage
  readonly error?: string
}

self.onmessage = ({ data }: MessageEvent<DiskRequest>) => {
  try {
    self.postMessage({ usage: measure(data) } satisfies DiskAnswer)
  } catch (error) {
    self.postMessage({ error: error instanceof Error ? error.message : String(error) } satisfies DiskAnswer)
  }
}

function measure({ config, now }: DiskRequest): DiskUsage {
  const db = openReadOnly(join(config.dataDir, 'tassis.db'))
  try {
    db.run('PRAGMA temp_store = MEMORY')
    // Not a snapshot: a long one would keep the write-ahead log from being truncated.
    return measureDisk(db, config, now)
  } finally {
    db.close()
  }
}
