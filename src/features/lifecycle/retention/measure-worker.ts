/**
 * @module Worker that measures who uses what and which rows have to go. Reads over a connection of its own. Talks with
 * `cutoffs.ts` only; changes nothing.
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
    // Not of one moment: rows that come or go meanwhile change little, and each is looked at again before it goes.
    return findCuts(measureUse(db, dataDir, budgets), budgets)
  } finally {
    db.close()
  }
}
