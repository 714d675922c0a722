/**
 * @module Worker that measures what is used and how much has to go. Reads by a connection of its own, in one read transaction. Talks with `cutoffs.ts` only;
 * changes nothing.
 */
import { join } from 'node:path'
import { openReadOnly } from '#platform/db/open.ts'
import { type Budgets, type Cutoffs, cutoffsOf, mayBeOver, measure } from './budgets.ts'

declare const self: Worker

export interface MeasureRequest {
  readonly dataDir: string
  readonly budgets: Budgets
}

export interface MeasureAnswer {
  readonly cutoffs?: Cutoffs
  readonly error?: string
}

self.onmessage = ({ data }: MessageEvent<MeasureRequest>) => {
  try {
    self.postMessage({ cutoffs: look(data) } satisfies MeasureAnswer)
  } catch (error) {
    self.postMessage({ error: error instanceof Error ? error.message : String(error) } satisfies MeasureAnswer)
  }
}

function look({ dataDir, budgets }: MeasureRequest): Cutoffs {
  if (!mayBeOver(dataDir, budgets)) return {}
  const db = openReadOnly(join(dataDir, 'tassis.db'))
  try {
    db.run('PRAGMA temp_store = MEMORY')
    db.run('BEGIN')
    return cutoffsOf(db, measure(db, dataDir), budgets)
  } finally {
    db.close()
  }
}
