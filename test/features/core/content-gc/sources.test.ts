/** @module The sweep lists every column that refers to content; blobs of an unlisted column would be deleted. */
import { expect, test } from 'bun:test'
import { SOURCES } from '#features/core/content-gc/garbage.ts'
import { createTestApp } from '#test/support/app.ts'

test('the sources listed for the sweep are exactly the columns of the schema that hold references', async () => {
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
