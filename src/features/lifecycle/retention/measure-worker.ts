/**
 * @module Worker that measures use by account and selects the rows to remove. Reads over its own connection; changes
 * nothing.
 */
import { join } from 'node:path'
import { openReadOnly } from '#platform/db/open.ts'
import { answerRequest } from '#platform/process/worker-answer.ts'
import type { Budgets } from './budgets.ts'
import { type Cut, canExceedBudgets, findCuts, measureUse } from './cuts.ts'
import { limitToDisk, measureDiskLimit } from './disk-limit.ts'

export interface MeasureRequest {
  readonly dataDir: string
  readonly minFreeDisk: number
  /** As configured. */
  readonly budgets: Budgets
}

answerRequest(({ dataDir, minFreeDisk, budgets: configured }: MeasureRequest): Cut[] => {
  const budgets = limitToDisk(configured, measureDiskLimit({ dataDir, minFreeDisk }))
  if (!canExceedBudgets(dataDir, budgets)) return []
  const db = openReadOnly(join(dataDir, 'tassis.db'))
  try {
    db.run('PRAGMA temp_store = MEMORY')
    // Not a snapshot: rows added or removed meanwhile change little, and each row is checked again before its removal.
    return findCuts(measureUse(db, dataDir, budgets), budgets)
  } finally {
    db.close()
  }
})
