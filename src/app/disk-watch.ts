/** @module The disk guard of the data folder, with a line in the log when new mail begins to be refused, and when it no longer is. */
import type { Clock } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { createDiskGuard, type DiskGuard } from '#platform/disk.ts'
import type { Log } from '#platform/log.ts'

export const watchDisk = ({ dataDir, minFreeDisk }: Config, clock: Pick<Clock, 'monotonicMs'>, log: Log): DiskGuard =>
  createDiskGuard({
    folder: dataDir,
    minFreeBytes: minFreeDisk,
    clock,
    onChange: (isLow, freeBytes) => {
      const fields = { freeBytes, wantedBytes: minFreeDisk }
      if (!isLow) log.info(fields, 'the disk has room again: new mail is accepted')
      else if (freeBytes === undefined)
        log.error(fields, 'how much of the disk is free cannot be read: new mail is refused')
      else
        log.error(
          fields,
          'the disk has less free space than TASSIS_MIN_FREE_DISK: new mail is refused; see `tassis disk`',
        )
    },
  })
