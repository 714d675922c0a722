/** @module What each table states about its rows (`describeTable` in its `tables.ts`), by name. */
import type { TableFacts } from '#platform/db/columns.ts'
import facts from './table-facts.json' with { type: 'json' }

export const TABLE_FACTS: ReadonlyMap<string, TableFacts> = new Map(
  Object.entries(facts as unknown as Record<string, TableFacts>),
)
