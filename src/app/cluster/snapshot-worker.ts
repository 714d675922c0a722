/**
 * @module Worker that copies the data directory of the leader into PostgreSQL, while the service goes on. Deletion of
 * content is held off meanwhile, as for a backup.
 */
import { readFileSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { holdDeletion } from '#features/core/content-gc/deletion-hold.ts'
import { listBlobFiles, listNames, STORES } from '#platform/content/files.ts'
import { systemCodeOf } from '#platform/errors.ts'
import { answerRequest } from '#platform/process/worker-answer.ts'
import { ROW_BYTES } from '#platform/replication/entries.ts'
import { Postgres } from '#platform/replication/postgres.ts'
import { listDatabases } from '#platform/replication/recover.ts'
import { Snapshots } from '#platform/replication/snapshots.ts'
import { systemClock } from '#platform/time/clock.ts'
import { copyDatabase } from '../backup/files.ts'

export interface SnapshotJob {
  readonly dataDir: string
  readonly url: string
  /** Of the row in `tassis_snapshots`. */
  readonly id: number
  /** Folder for the copy of one database. */
  readonly staging: string
}

answerRequest(async ({ dataDir, url, id, staging }: SnapshotJob): Promise<null> => {
  const hold = holdDeletion(dataDir, systemClock)
  const postgres = new Postgres(url)
  const snapshots = new Snapshots(postgres)
  let parts = 0
  const store = (file: string, bytes: Uint8Array<ArrayBuffer>) => snapshots.addPart(id, ++parts, file, bytes)
  const storeFile = (file: string, path = join(dataDir, file)) => readParts(path, (bytes) => store(file, bytes))
  try {
    // The main database first, so that all content to which its rows refer is there.
    for (const file of listDatabases(dataDir)) {
      rmSync(staging, { recursive: true, force: true })
      await copyDatabase(join(dataDir, file), join(staging, 'copy.db'))
      await storeFile(file, join(staging, 'copy.db'))
    }
    for (const blobs of STORES) for (const file of listBlobFiles(dataDir, blobs)) await storeFile(file)
    const certificates = listNames(join(dataDir, 'certificates')).map((name) => `certificates/${name}`)
    const ids = STORES.map((name) => `${name}.ids`)
    for (const file of [...ids, ...certificates]) await storeFile(file)
    // Another machine will use the copy.
    const instance = JSON.parse(readFileSync(join(dataDir, 'instance.json'), 'utf8')) as object
    await store('instance.json', Buffer.from(JSON.stringify({ ...instance, machine: null })))
    return null
  } finally {
    rmSync(staging, { recursive: true, force: true })
    hold.release()
    await postgres.close()
  }
})

/** Reads a file in parts, of an empty file one. A file that does not exist, or no longer, is left out. */
async function readParts(path: string, use: (bytes: Uint8Array<ArrayBuffer>) => Promise<void>): Promise<void> {
  try {
    await using source = await open(path, 'r')
    for (let offset = 0; ; offset += ROW_BYTES) {
      const { buffer, bytesRead } = await source.read(Buffer.allocUnsafe(ROW_BYTES), 0, ROW_BYTES, offset)
      if (bytesRead === 0 && offset > 0) return
      await use(buffer.subarray(0, bytesRead))
      if (bytesRead < ROW_BYTES) return
    }
  } catch (error) {
    if (systemCodeOf(error) !== 'ENOENT') throw error
  }
}
