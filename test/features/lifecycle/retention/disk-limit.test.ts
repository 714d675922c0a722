import { describe, expect, test } from 'bun:test'
import { computeCapacity, limitToDisk, listDiskLimitWarnings } from '#features/lifecycle/retention/disk-limit.ts'
import { GiB } from '#platform/units.ts'

const DEFAULTS = { content: 20 * GiB, events: 10 * GiB, inbound: 20 * GiB, logs: 20 * GiB }

describe('the effective sizes on a disk', () => {
  test('are the configured ones while all of them fit', () => {
    expect(limitToDisk(DEFAULTS, { capacityBytes: 70 * GiB, usedBytes: 10 * GiB })).toEqual(DEFAULTS)
  })

  // Proves: storage-9
  test('are each at most what the disk can hold', () => {
    const limited = limitToDisk({ ...DEFAULTS, content: 1000 * GiB }, { capacityBytes: 35 * GiB, usedBytes: 0 })
    expect(limited).toEqual({ ...DEFAULTS, content: 35 * GiB })
  })

  // Proves: storage-9
  test('are lowered in proportion to fit together, but only once the data use most of the disk', () => {
    const capacityBytes = 35 * GiB
    expect(limitToDisk(DEFAULTS, { capacityBytes, usedBytes: 28 * GiB })).toEqual(DEFAULTS)
    expect(limitToDisk(DEFAULTS, { capacityBytes, usedBytes: 28 * GiB + 1 })).toEqual({
      content: 8 * GiB,
      events: 4 * GiB,
      inbound: 8 * GiB,
      logs: 8 * GiB,
    })
  })

  test('stay as configured on a nearly full disk if they fit', () => {
    const small = { content: GiB, events: GiB, inbound: GiB, logs: GiB }
    expect(limitToDisk(small, { capacityBytes: 10 * GiB, usedBytes: 9 * GiB })).toEqual(small)
  })

  test('keep 0 as no limit', () => {
    const limited = limitToDisk({ ...DEFAULTS, logs: 0 }, { capacityBytes: 20 * GiB, usedBytes: 19 * GiB })
    expect(limited.logs).toBe(0)
    expect(limited.content + limited.events + limited.inbound).toBeLessThanOrEqual(16 * GiB)
  })
})

describe('the capacity of the disk', () => {
  const disk = { sizeBytes: 100 * GiB, availableBytes: 20 * GiB }

  test('is the used and available space, without the data of others and the reserve', () => {
    expect(computeCapacity(disk, 80 * GiB, GiB)).toBe(99 * GiB)
    expect(computeCapacity(disk, 10 * GiB, GiB)).toBe(29 * GiB)
  })

  test('lowers the sizes before data of others gets new mail rejected, each time by at most a fifth', () => {
    for (let availableBytes = 20 * GiB; availableBytes >= GiB; availableBytes -= GiB) {
      const capacityBytes = computeCapacity({ ...disk, availableBytes }, 10 * GiB, GiB)
      const { content, events, inbound, logs } = limitToDisk(DEFAULTS, { capacityBytes, usedBytes: 10 * GiB })
      const isLowered = content + events + inbound + logs < 10 * GiB
      expect({ availableBytes, isLowered }).toEqual({ availableBytes, isLowered: availableBytes < 3.5 * GiB })
      expect(content + events + inbound + logs).toBeGreaterThanOrEqual(8 * GiB - 4)
    }
  })

  test('is not lowered by others once new mail is rejected: they would displace all data in the end', () => {
    expect(computeCapacity({ ...disk, availableBytes: GiB - 1 }, 10 * GiB, GiB)).toBe(99 * GiB)
  })

  test('is at least half, whatever the reserve', () => {
    expect(computeCapacity(disk, 80 * GiB, 15 * GiB)).toBe(85 * GiB)
    expect(computeCapacity(disk, 80 * GiB, 90 * GiB)).toBe(50 * GiB)
    expect(computeCapacity({ ...disk, availableBytes: 95 * GiB }, GiB, 90 * GiB)).toBe(48 * GiB)
  })
})

test('the warning names the sum of the sizes and the capacity, and is absent if they fit', () => {
  const config = {
    dataDir: '/',
    minFreeDisk: 0,
    contentMaxBytes: 20 * GiB,
    eventsMaxBytes: 10 * GiB,
    inboundMaxBytes: 20 * GiB,
    logsMaxBytes: 20 * GiB,
  }
  expect(listDiskLimitWarnings(config, 70 * GiB)).toEqual([])
  const [warning] = listDiskLimitWarnings(config, 39.9 * GiB)
  expect(warning).toContain('are 70GiB together, and the disk can hold 39.9GiB')
})
