/** @module A disk that a test says is low or not; what is written changes nothing. */
import type { DiskGuard } from '#platform/disk.ts'

/**
 * @param isLow what those are told who ask before they begin
 * @param hasRoom what commits are told
 */
export const createTestDisk = (
  isLow: () => boolean | Promise<boolean>,
  hasRoom: () => boolean = () => true,
): DiskGuard => ({
  isLow: async () => isLow(),
  refresh: () => undefined,
  hasRoomFor: hasRoom,
  countWritten: () => undefined,
  register: () => () => undefined,
})
