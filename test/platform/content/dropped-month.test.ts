import { expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ContentStore } from '#platform/content/store.ts'
import { createCheckpointer } from '#platform/db/checkpoint.ts'
import { createLog } from '#platform/log/log.ts'
import { eventually } from '#test/support/app.ts'

/** Deleted but open files below a folder, whose disk space is still in use. */
const keptPlaces = (folder: string): string[] =>
  readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`)
      return path.startsWith(folder) && path.endsWith('(deleted)') ? [path] : []
    } catch {
      return []
    }
  })

test.if(process.platform === 'linux')('dropping a month frees its disk space', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-content-'))
  const checkpointer = createCheckpointer(createLog('silent'))
  const passes: string[] = []
  const store = new ContentStore(folder, {
    checkpointBytes: 1,
    checkpoint: async (path, mode) => {
      await checkpointer.run(path, mode)
      passes.push(mode)
    },
  })
  try {
    const then = Date.UTC(2026, 0, 10)
    const [ref = 0] = await store.put([crypto.getRandomValues(new Uint8Array(50_000))], then)
    await eventually(() => passes.includes('TRUNCATE'))
    expect(store.get(ref)).toHaveLength(50_000)
    await store.dropMonthsBefore(Date.UTC(2026, 1, 1))
    expect(readdirSync(folder)).toEqual([])
    // A connection of this thread stays open until its statements are collected.
    await eventually(() => {
      Bun.gc(true)
      return keptPlaces(folder).length === 0
    })
  } finally {
    await store.close()
    checkpointer.close()
    rmSync(folder, { recursive: true, force: true })
  }
})
