/** @module The space of a file system. Reads only. */
import { statfsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'

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
