import { expect, test } from 'bun:test'
import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readDiskSpace } from '#platform/disk/disk.ts'

test('the folder need not exist yet', () => {
  const { blocks, bsize } = statfsSync(tmpdir())
  expect(readDiskSpace(join(tmpdir(), 'not-yet', 'data')).sizeBytes).toBe(blocks * bsize)
})
