/** @module The disk guard of the data directory; logs when the service starts and stops refusing new mail. */

import { createDiskGuard, type DiskGuard } from '#platform/disk/disk.ts'
import type { Log } from '#platform/log/log.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Clock } from '#platform/time/clock.ts'

export const watchDisk = ({ dataDir, minFreeDisk }: Config, clock: Pick<Clock, 'monotonicMs'>, log: Log): DiskGuard =>
  createDiskGuard({
    folder: dataDir,
    minFreeBytes: minFreeDisk,
    clock,
    onChange: (isLow, freeBytes) => {
      const fields = { freeBytes, wantedBytes: minFreeDisk }
      if (!isLow) log.info(fields, 'disk has free space again: accepting new mail')
      else if (freeBytes === undefined) log.error(fields, 'cannot read free disk space: refusing new mail')
      else log.error(fields, 'free disk space below TASSIS_MIN_FREE_DISK: refusing new mail; see `tassis disk`')
    },
  })
