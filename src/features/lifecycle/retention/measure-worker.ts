/**
 * @module Worker that measures use by account and selects the rows to remove. Reads over its own connection; changes
 * nothing.
 */
import { join } from 'node:path'
import { openReadOnly } from '#platform/db/open.ts'
import { answerRequest } from '#platform/process/worker-answer.ts'
import { measureBudgets, type SizeSettings } from './budgets.ts'
import { type Cut, canExceedBudgets, findCuts, measureUse } from './cuts.ts'

answerRequest((settings: SizeSettings): Cut[] => {
  const { dataDir } = settings
  const budgets = measureBudgets(settings)
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
