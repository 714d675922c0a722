/** @module The sweep knows every column that refers to content; one that it does not know would lose its parts. */
import { expect, test } from 'bun:test'
import { SOURCES } from '#features/core/content-gc/sources.ts'
import { createTestApp } from '#test/support/app.ts'

test('every column of the schema that holds a reference is a source of the sweep, and no other', async () => {
  await using service = await createTestApp()
  const columns = service.app.db
    .query<{ name: string }, []>(
      `SELECT t.name || '.' || c.name AS name FROM sqlite_master t JOIN pragma_table_info(t.name) c
       WHERE t.type = 'table' AND (c.name LIKE '%\\_ref' ESCAPE '\\' OR c.name = 'attachments') ORDER BY 1`,
    )
    .all()
    .map(({ name }) => name)
  const sources = Object.values(SOURCES)
    .flat()
    .flatMap(({ table, columns: single, json = [] }) => [...single, ...json].map((column) => `${table}.${column}`))
  expect(columns.length).toBeGreaterThan(15)
  expect(sources.toSorted()).toEqual(columns)
})
