/** @module A disk whose free space a test controls; writes do not change it. */
import type { DiskGuard } from '#platform/disk/disk.ts'

/**
 * @param isLow result for callers that ask before they begin
 * @param hasSpace result for commits
 */
export const createTestDisk = (
  isLow: () => boolean | Promise<boolean>,
  hasSpace: () => boolean = () => true,
): DiskGuard => ({
  isLow: async () => isLow(),
  refresh: () => undefined,
  hasSpaceFor: hasSpace,
  countWritten: () => undefined,
  register: () => () => undefined,
})
