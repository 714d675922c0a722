/** @module Tests that the upgrade that indexes stored emails for search logs a message when there are many. */
import { Database } from 'bun:sqlite'
import { expect, setDefaultTimeout, test } from 'bun:test'
import { join } from 'node:path'
import { openApp } from '#app/create.ts'
import { SEARCH_INDEX_MIGRATION } from '#app/migrations.ts'
import { loadConfig } from '#app/settings.ts'
import { createLog } from '#platform/log.ts'
import { createDataFolder } from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

test.each([
  [0, 1000],
  [1, 100_001],
])('a start logs %d lines about indexing when it has to index %d stored emails', async (lineCount, emailCount) => {
  using folder = createDataFolder()
  const { config } = loadConfig({ ...folder.settings })
  await openApp(config).close()
  {
    using db = new Database(join(folder.path, 'tassis.db'))
    db.run('PRAGMA foreign_keys = OFF')
    db.run('DROP TABLE email_search')
    db.run('DELETE FROM migrations WHERE name = ?', [SEARCH_INDEX_MIGRATION])
    db.run(
      `INSERT INTO emails (uuid, account_id, domain_id, stream_id, status, sandbox, transactional, from_address, subject, recipient_count, size_bytes,
         created_at, updated_at)
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       SELECT randomblob(16), 1, 1, 1, 1, 0, 0, 'a@b.test', 's', 1, 1, i, i FROM n`,
      [emailCount],
    )
  }
  const lines: string[] = []
  await openApp(config, { log: createLog('info', { write: (line) => void lines.push(line) }) }).close()
  expect(lines.filter((line) => line.includes('indexing stored emails'))).toHaveLength(lineCount)
})
