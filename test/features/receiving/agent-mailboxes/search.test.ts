/** @module A compacted search index does not contain the words of deleted messages. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  compactSearchIndex,
  indexMessage,
  searchMessageIds,
  unindexMessage,
} from '#features/receiving/agent-mailboxes/search.ts'
import { createTestApp, eventually } from '#test/support/app.ts'

test('a compacted index has no words of deleted messages, and still finds the others', async () => {
  await using service = await createTestApp()
  const { app, dataDir } = service
  await app.commit.write((tx) => {
    for (let id = 1; id <= 2000; id++) {
      const isSecret = id % 40 === 0
      const sender = isSecret ? 'zebravictim' : `sender${id}`
      indexMessage(tx, id, { mailboxId: 1, subject: `hello ${id}`, sender, body: `${sender} lorem ipsum ${id}` })
    }
  })
  await app.commit.write((tx) => {
    for (let id = 40; id <= 2000; id += 40) unindexMessage(tx, id)
  })
  const words = async (): Promise<number> => {
    // It is busy while the checkpoint of the service runs.
    await eventually(() =>
      app.commit.runExclusive((db) => {
        const [row] = db.query<{ busy: number }, []>('PRAGMA wal_checkpoint(TRUNCATE)').all()
        return row?.busy === 0
      }),
    )
    return readFileSync(join(dataDir, 'tassis.db'), 'latin1').split('zebravic').length - 1
  }
  expect(await words()).toBeGreaterThan(0)
  await compactSearchIndex(app)
  expect(await words()).toBe(0)
  expect(searchMessageIds(app.db, 1, 'zebravictim')).toEqual([])
  expect(searchMessageIds(app.db, 1, 'sender1999')).toEqual([1999])
})
