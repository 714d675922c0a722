/** @module Deletes the rows of tables that state in `tables.ts` how long theirs are kept (`kept`). */
import type { App } from '#features/core/app/app.ts'
import { TABLE_FACTS } from '#features/core/app/table-facts.ts'
import { days } from '#platform/units.ts'
import { removeInBatches } from './batches.ts'

/** Resolves with the number of rows deleted. Call it about every hour, one run at a time. */
export async function purgeExpired(app: App, signal: AbortSignal = new AbortController().signal): Promise<number> {
  let removed = 0
  for (const [table, { kept }] of TABLE_FACTS) {
    if (!kept) continue
    const until = app.confirmedNow() - days(kept.days)
    removed += await removeInBatches(app, signal, ({ db }, limit) => {
      const done = db.query(`DELETE FROM ${table} WHERE ${kept.since} <= ? LIMIT ?`).run(until, limit).changes
      return { done, next: done === limit ? 0 : undefined }
    })
  }
  return removed
}
