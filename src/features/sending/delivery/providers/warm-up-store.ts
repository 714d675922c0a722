/** @module Stores warm-ups, and which of our addresses are new. Bounded: listed providers and configured addresses only. */
import type { App } from '#features/core/app/app.ts'
import { hasSentFrom } from '#features/sending/queue/queue.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { WarmUpState } from './warm-up.ts'

interface WarmUpRow extends Omit<WarmUpState, 'isBlocked'> {
  readonly isBlocked: number
}

const sql = prepareStatements((db) => ({
  find: db.prepare<WarmUpRow, [string, string]>(
    `SELECT day, budget, tried, accepted, failed, is_blocked AS isBlocked FROM warm_ups
     WHERE provider = ? AND source = ?`,
  ),
  save: db.prepare(
    `INSERT OR REPLACE INTO warm_ups (provider, source, day, budget, tried, accepted, failed, is_blocked)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  ),
}))

/** In place of a provider: the row says whether the address itself is new (budget 0) or sent before (null). */
const WHOLE_SOURCE = ''

export function findWarmUp({ db }: Pick<App, 'db'>, provider: string, source: string): WarmUpState | undefined {
  const row = sql(db).find.get(provider, source)
  return row ? { ...row, isBlocked: row.isBlocked === 1 } : undefined
}

export function saveWarmUp(tx: Tx, provider: string, source: string, state: WarmUpState): void {
  const { day, budget, tried, accepted, failed, isBlocked } = state
  sql(tx.db).save.run(provider, source, day, budget, tried, accepted, failed, isBlocked ? 1 : 0)
}

/** Whether an address needs no warm-up: mail had left from it when it was configured. `undefined` until `recordSources` has run. */
export const isEstablished = (app: Pick<App, 'db'>, source: string): boolean | undefined => {
  const row = findWarmUp(app, WHOLE_SOURCE, source)
  return row && row.budget === null
}

/** Records for each address that is configured for the first time whether mail has left from it before. */
export async function recordSources(app: Pick<App, 'commit' | 'db'>, sources: readonly string[]): Promise<void> {
  const unknown = sources.filter((source) => isEstablished(app, source) === undefined)
  if (unknown.length === 0) return
  await app.commit.writeFromReserve((tx) => {
    for (const source of unknown) {
      const budget = hasSentFrom(tx.db, source) ? null : 0
      saveWarmUp(tx, WHOLE_SOURCE, source, { day: 0, budget, tried: 0, accepted: 0, failed: 0, isBlocked: false })
    }
  })
}
