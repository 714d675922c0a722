/**
 * @module The folder where contact files are stored until they are imported. A file is received in chunks and is on
 * disk before the upload is acknowledged; an incomplete file leaves nothing.
 */
import { mkdirSync, readdirSync } from 'node:fs'
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { App } from '#features/core/app/app.ts'
import { syncFolder } from '#platform/content/synced-files.ts'
import { toStorageError } from '#platform/disk/storage-errors.ts'
import { insufficientStorage } from '#platform/errors.ts'
import type { BodyStream } from '#platform/http/body-stream.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { MiB } from '#platform/units.ts'
import { type CsvHead, HEAD_BYTES, readHead } from './csv.ts'

/** A file that is on disk. */
export interface SpooledFile {
  /** Name in the folder. */
  readonly file: string
  readonly sizeBytes: number
  /** Line ends after its header; how many contacts it has is known only after the import. */
  readonly lines: number
}

/** Synced while it is received, so that a final sync does not block the disk for everything else. */
const SYNC_EVERY_BYTES = 8 * MiB

/** Files being received, per running service, with the account of each. */
const getArrivingFiles = perOwner((_: App) => new Map<string, number>())

/** How many files are being received for an account. */
export const countArriving = (app: App, accountId: number): number =>
  [...getArrivingFiles(app).values()].filter((id) => id === accountId).length

const getFolder = (app: App): string => join(app.config.dataDir, 'imports')

/** Path of a file in the folder. */
export const toSpoolPath = (app: App, file: string): string => join(getFolder(app), file)

/**
 * Receives a file, then passes it to `keep`; if that fails, the file is deleted. Throws 422 `invalid_csv` as soon as
 * its head shows that it is not a contact file, 507 when the disk is full, and errors of reading the body.
 */
export async function spoolFile<T>(
  app: App,
  accountId: number,
  body: BodyStream,
  onStored: (spooled: SpooledFile) => Promise<T>,
): Promise<T> {
  const file = `${formatUuid(newUuid())}.csv`
  const files = getArrivingFiles(app)
  files.set(file, accountId)
  try {
    return await onStored({ file, ...(await receive(app, file, body)) })
  } catch (error) {
    await removeSpooledFile(app, file)
    throw toStorageError(error)
  } finally {
    files.delete(file)
  }
}

async function receive(app: App, file: string, body: BodyStream): Promise<Omit<SpooledFile, 'file'>> {
  await mkdir(getFolder(app), { recursive: true, mode: 0o700 })
  const handle = await open(toSpoolPath(app, file), 'wx', 0o600)
  try {
    const received = await writeBody(app, handle, body)
    await handle.sync()
    await syncFolder(getFolder(app))
    return received
  } finally {
    await handle.close()
  }
}

async function writeBody(app: App, handle: FileHandle, body: BodyStream): Promise<Omit<SpooledFile, 'file'>> {
  let start = Buffer.alloc(0)
  let head: CsvHead | undefined
  let sizeBytes = 0
  let unsyncedBytes = 0
  let lineEnds = 0
  let lastByte: number | undefined
  for await (const piece of body) {
    if (await app.disk.isLow()) throw insufficientStorage()
    if (!head) {
      start = Buffer.concat([start, piece.subarray(0, HEAD_BYTES - start.length)])
      if (start.length === HEAD_BYTES) head = readHead(start, false)
    }
    app.disk.countWritten(piece.length)
    await writeAll(handle, piece)
    sizeBytes += piece.length
    unsyncedBytes += piece.length
    lineEnds += countLineEnds(piece)
    lastByte = piece.at(-1) ?? lastByte
    if (unsyncedBytes >= SYNC_EVERY_BYTES) {
      unsyncedBytes = 0
      await handle.datasync()
    }
  }
  head ??= readHead(start, true)
  const lines = lineEnds + (lastByte === LF ? 0 : 1) - (head.dataLine - 1)
  return { sizeBytes, lines: Math.max(lines, 0) }
}

async function writeAll(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) at += (await handle.write(bytes, at)).bytesWritten
}

const LF = 10

function countLineEnds(bytes: Uint8Array): number {
  let count = 0
  for (let at = bytes.indexOf(LF); at !== -1; at = bytes.indexOf(LF, at + 1)) count++
  return count
}

/** Deletes a file; a missing one is not an error. */
export const removeSpooledFile = (app: App, file: string): Promise<void> => rm(toSpoolPath(app, file), { force: true })

/** Deletes files left behind when a process ended: those neither being received nor `isKept`. */
export async function removeLeftovers(app: App, isKept: (file: string) => boolean): Promise<void> {
  mkdirSync(getFolder(app), { recursive: true, mode: 0o700 })
  for (const file of readdirSync(getFolder(app)))
    if (!getArrivingFiles(app).has(file) && !isKept(file)) await removeSpooledFile(app, file)
}
