/** @module The space of a file system, and how much of it data may use. Reads only. */
import { statfsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { GiB, MiB } from '#platform/units.ts'

/** Space of a file system; `availableBytes` is what unprivileged processes may use. */
export interface DiskSpace {
  readonly sizeBytes: number
  readonly availableBytes: number
}

/** Reads the space of the disk that holds the folder, or will hold it: it may not exist yet. */
export function readDiskSpace(folder: string): DiskSpace {
  try {
    const { bsize, blocks, bavail } = statfsSync(folder)
    return { sizeBytes: blocks * bsize, availableBytes: bavail * bsize }
  } catch (error) {
    const parent = dirname(resolve(folder))
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === folder) throw error
    return readDiskSpace(parent)
  }
}

/** Limits the reserve to half of the bytes, because a larger reserve is a mistake that must not cost data. */
export const subtractReserve = (bytes: number, minFreeDisk: number): number => Math.max(bytes - minFreeDisk, bytes / 2)

/**
 * Default of a size setting: this fraction of the disk of the data folder less the reserve, rounded down to whole MiB,
 * from 8 GiB on to whole GiB. Needs `dataDir` and `minFreeDisk` before it in the order of the settings. 1 GiB when the
 * disk cannot be read: the start then reports the data folder.
 */
export const shareOfDisk =
  (fraction: number) =>
  ({ dataDir, minFreeDisk }: Record<string, unknown>): number => {
    try {
      const { sizeBytes } = readDiskSpace(String(dataDir))
      const bytes = subtractReserve(sizeBytes, Number(minFreeDisk)) * fraction
      const unit = bytes >= 8 * GiB ? GiB : MiB
      return Math.max(MiB, Math.floor(bytes / unit) * unit)
    } catch {
      return GiB
    }
  }
