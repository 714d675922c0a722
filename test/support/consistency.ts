/** @module Checks a service after a test that attacked it: its data is consistent and nothing is in flight. */
import { Database } from 'bun:sqlite'
import { expect } from 'bun:test'
import { join } from 'node:path'
import { checkConsistency, hideDeletedAccounts } from '#app/cli/check.ts'
import { checkBalances, readBalances } from '#features/sending/queue/consistency.ts'
import type { TestApp } from './app.ts'

/** Expects that the data is consistent and that every slot and every byte of memory was released. */
export function expectBalanced({ app, delivery, dataDir }: Pick<TestApp, 'app' | 'delivery' | 'dataDir'>): void {
  // A separate connection, since the check leaves tables behind.
  using db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
  hideDeletedAccounts(db)
  const findings = [...checkConsistency(db), checkBalances(readBalances(db))]
  expect(findings.filter(({ differences }) => differences.length > 0)).toEqual([])
  expect(delivery?.scheduler.inFlight ?? 0).toBe(0)
  expect(app.memory.inUseBytes).toBe(0)
}
