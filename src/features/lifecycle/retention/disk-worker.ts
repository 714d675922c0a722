/**
 * @module Worker that measures the use of the disk for the operator's routes. Reads over its own connection; changes
 * nothing.
 */
import { join } from 'node:path'
import { openReadOnly } from '#platform/db/open.ts'
import { answerRequest } from '#platform/process/worker-answer.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Millis } from '#platform/time/clock.ts'
import { type DiskUse, measureDisk } from './disk.ts'

export interface DiskRequest {
  readonly config: Config
  readonly now: Millis
}

answerRequest(({ config, now }: DiskRequest): DiskUse => {
  const db = openReadOnly(join(config.dataDir, 'tassis.db'))
  try {
    db.run('PRAGMA temp_store = MEMORY')
    // Not a snapshot: a long one would keep the write-ahead log from being truncated.
    return measureDisk(db, config, now)
  } finally {
    db.close()
  }
})
