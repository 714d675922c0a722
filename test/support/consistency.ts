/** @module What must be true of a service after a test that attacked it: balanced books, nothing in hand. */
import { Database } from 'bun:sqlite'
import { expect } from 'bun:test'
import { join } from 'node:path'
import { hideDeletedAccounts } from '#app/cli/deleted-accounts.ts'
import { checkConsistency } from '#app/consistency-rules.ts'
import { checkBalances, readBalances } from '#features/sending/queue/balance.ts'
import type { TestApp } from './app.ts'

/** Expects that the books agree with a recount and that every place and every byte of memory was given back. */
export function expectBalanced({ app, delivery, dataDir }: Pick<TestApp, 'app' | 'delivery' | 'dataDir'>): void {
  // A connection of its own, since the examination leaves tables behind.
  using db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
  hideDeletedAccounts(db)
  const findings = [...checkConsistency(db), checkBalances(readBalances(db))]
  expect(findings.filter(({ differences }) => differences.length > 0)).toEqual([])
  expect(delivery?.scheduler.inFlight ?? 0).toBe(0)
  expect(app.memory.inUseBytes).toBe(0)
}
