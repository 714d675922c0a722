/**
 * @module Worker that measures use by account and selects the rows to remove. Reads over its own connection.
 * Communicates only with `cutoffs.ts`; changes nothing.
 */
import { join } from 'node:path'
import { openReadOnly } from '#platform/db/open.ts'
import { type Budgets, type Cut, canExceedBudgets, findCuts, measureUse } from './budgets.ts'
import { limitToDisk, measureDiskLimit } from './disk-limit.ts'

declare const self: Worker

export interface MeasureRequest {
  readonly dataDir: string
  readonly minFreeDisk: number
  /** As configured. */
  readonly budgets: Budgets
}

export interface MeasureAnswer {
  readonly cuts?: readonly Cut[]
  readonly error?: string
}

self.onmessage = ({ data }: MessageEvent<MeasureRequest>) => {
  try {
    self.postMessage({ cuts: measureCuts(data) } satisfies MeasureAnswer)
  } catch (error) {
    self.postMessage({ error: error instanceof Error ? error.message : String(error) } satisfies MeasureAnswer)
  }
}

function measureCuts({ dataDir, minFreeDisk, budgets: configured }: MeasureRequest): Cut[] {
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
}
