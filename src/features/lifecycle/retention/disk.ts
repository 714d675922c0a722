/** @module What uses the disk, how long each kind of data is retained and what is deleted next. Reads only. */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { readDiskSpace } from '#platform/disk/disk-space.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Millis } from '#platform/time/clock.ts'
import { measureUse } from './cuts.ts'
import type { ServerDisk } from './disk-model.ts'
import { type MonthUse, measureAllocated } from './measure.ts'
import { listKindUsages } from './overview.ts'

export type DiskUse = ReturnType<typeof measureDisk>

/** The file system of the data directory, as it is now; free bytes are those for an unprivileged process. */
export function readFileSystem({
  dataDir,
  minFreeDisk,
}: Pick<Config, 'dataDir' | 'minFreeDisk'>): ServerDisk['file_system'] {
  const { sizeBytes, availableBytes } = readDiskSpace(dataDir)
  return { size_bytes: sizeBytes, free_bytes: availableBytes, wanted_free_bytes: minFreeDisk }
}

/**
 * Measures the data directory, as du(1) counts it. Reads whole tables, so it runs in a Worker or a command.
 * @param db in a read transaction
 */
export function measureDisk(db: Database, config: Config, now: Millis) {
  const { dataDir } = config
  const measureFiles = (...names: string[]): number =>
    names.reduce((sum, name) => sum + measureAllocated(join(dataDir, name)), 0)
  const measured = measureUse(db, dataDir)
  const kinds = listKindUsages(db, config, measured, now)
  const fileBytes = measureFiles('tassis.db')
  const walBytes = measureFiles('tassis.db-wal', 'tassis.db-shm')
  const captures = measureFiles('capture.db', 'capture.db-wal', 'capture.db-shm')
  const imports = measureFiles('imports')
  const months = [...measured.content, ...measured.rawMail].reduce((sum, { bytes }) => sum + bytes, 0)
  const total = measureAllocated(dataDir)
  return {
    at: isoTime(now),
    data_dir: dataDir,
    total_bytes: total,
    database: {
      file_bytes: fileBytes,
      wal_bytes: walBytes,
      free_bytes: measured.database.freeBytes,
      groups: { ...measured.database.groups },
    },
    content: measured.content.map(toMonthBytes),
    raw_mail: measured.rawMail.map(toMonthBytes),
    captures_bytes: captures,
    imports_bytes: imports,
    other_bytes: Math.max(0, total - fileBytes - walBytes - months - captures - imports),
    kinds,
  } satisfies ServerDisk['use']
}

const toMonthBytes = ({ month, bytes, freeBytes }: MonthUse) => ({ month, bytes, free_bytes: freeBytes })
