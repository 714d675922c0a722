/**
 * @module Worker that measures the use of the disk for operators, or selects the rows to remove. Reads over its own
 * connection; changes nothing.
 */
import { join } from 'node:path'
import { openReadOnly } from '#platform/db/open.ts'
import { answerRequest } from '#platform/process/worker-answer.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Millis } from '#platform/units.ts'
import { measureBudgets } from './budgets.ts'
import { type Cut, canExceedBudgets, findCuts, measureUse } from './cuts.ts'
import { type DiskUse, measureDisk } from './disk.ts'

export interface MeasureRequest {
  /** What uses the disk, or which rows to remove for the budgets. */
  readonly wanted: 'use' | 'cuts'
  readonly config: Config
  readonly now: Millis
}

answerRequest(({ wanted, config, now }: MeasureRequest): DiskUse | Cut[] => {
  const { dataDir } = config
  const budgets = measureBudgets(config)
  if (wanted === 'cuts' && !canExceedBudgets(dataDir, budgets)) return []
  using db = openReadOnly(join(dataDir, 'tassis.db'))
  db.run('PRAGMA temp_store = MEMORY')
  // Not a snapshot, which would keep the write-ahead log from being truncated: rows added or removed meanwhile change
  // little, and each row is checked again before its removal.
  return wanted === 'use' ? measureDisk(db, config, now) : findCuts(measureUse(db, dataDir, budgets), budgets)
})
