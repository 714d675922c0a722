/** @module Tests the default sizes of retention, which are shares of the disk. */
import { expect, test } from 'bun:test'
import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '#app/settings.ts'
import { readDiskSpace, shareOfDisk, subtractReserve } from '#platform/disk/disk-space.ts'
import { GiB, MiB } from '#platform/units.ts'

const sizesOf = (settings: Record<string, string>): number[] => {
  const { contentMaxBytes, eventsMaxBytes, inboundMaxBytes, logsMaxBytes } = loadConfig(settings).config
  return [contentMaxBytes, eventsMaxBytes, inboundMaxBytes, logsMaxBytes]
}

// Proves: storage-9
test('the default sizes of retention are shares of the disk less the reserve, together at most 80 % of it', () => {
  const { blocks, bsize } = statfsSync(tmpdir())
  for (const reserve of [64 * MiB, GiB]) {
    const capacityBytes = Math.max(blocks * bsize - reserve, (blocks * bsize) / 2)
    const sizes = sizesOf({ TASSIS_DATA_DIR: tmpdir(), TASSIS_MIN_FREE_DISK: `${reserve / MiB}MiB` })
    for (const [index, percent] of [25, 10, 20, 25].entries()) {
      const wanted = (capacityBytes * percent) / 100
      const unit = wanted >= 8 * GiB ? GiB : MiB
      expect(sizes[index]).toBe(Math.floor(wanted / unit) * unit)
    }
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThanOrEqual(capacityBytes * 0.8)
  }
})

test('an explicit size stays, also 0, which means no limit', () => {
  const folder = { TASSIS_DATA_DIR: tmpdir() }
  const [, events, inbound, logs] = sizesOf(folder)
  expect(sizesOf({ ...folder, TASSIS_CONTENT_MAX_BYTES: '3GiB' })).toEqual([
    3 * GiB,
    events ?? 0,
    inbound ?? 0,
    logs ?? 0,
  ])
  expect(sizesOf({ ...folder, TASSIS_LOGS_MAX_BYTES: '0' }).at(-1)).toBe(0)
})

test('the data folder need not exist yet', () => {
  const settings = { TASSIS_DATA_DIR: join(tmpdir(), 'not-yet', 'data') }
  expect(sizesOf(settings)).toEqual(sizesOf({ TASSIS_DATA_DIR: tmpdir() }))
  expect(readDiskSpace(settings.TASSIS_DATA_DIR).sizeBytes).toBe(readDiskSpace(tmpdir()).sizeBytes)
})

test('a share is never 0, and a disk that cannot be read gives 1 GiB', () => {
  expect(shareOfDisk(0)({ dataDir: tmpdir(), minFreeDisk: 0 })).toBe(MiB)
  expect(shareOfDisk(0.25)({ dataDir: `${import.meta.path}/data`, minFreeDisk: 0 })).toBe(GiB)
})

test('the reserve takes at most half of the disk', () => {
  expect(subtractReserve(100 * GiB, 15 * GiB)).toBe(85 * GiB)
  expect(subtractReserve(100 * GiB, 90 * GiB)).toBe(50 * GiB)
})
