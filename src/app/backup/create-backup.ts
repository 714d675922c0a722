/**
 * @module Writes a backup of a data directory, of a running or a stopped service, into a new folder. Order matters: the
 * database is copied first, then the content, so that all content to which the copied rows refer is there. The caller
 * holds off the deletion of content meanwhile (`deletion-hold.ts`). The folder gets its name only when all of it is on
 * disk and was read again, so a backup is whole or does not exist. Opens only the files that SQLite does not use: see
 * `copyDatabase`.
 */
import type { Database } from 'bun:sqlite'
import { rmSync, statfsSync, statSync } from 'node:fs'
import { link, mkdir, rename, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { describeDamagedContent } from '#features/core/content-gc/damaged-content.ts'
import { markAsCopy } from '#features/core/fence/restored.ts'
import { listBlobFiles, listMonthDatabases, listNames, STORES } from '#platform/content/files.ts'
import { syncFolder } from '#platform/content/synced-files.ts'
import { readApplied } from '#platform/db/migrate.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { systemCodeOf } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatSize } from '#platform/settings/setting-kinds.ts'
import type { Clock } from '#platform/time/clock.ts'
import { MiB } from '#platform/units.ts'
import { formatVersion } from '../version.ts'
import { BackupError, explainWriteError } from './errors.ts'
import {
  checkDatabase,
  copyDatabase,
  createFolder,
  describeState,
  digest,
  readChunks,
  writeChunks,
  writeText,
} from './files.ts'
import { findMissingKeys, formatKeys, listOutdatedKeys, readNewestKey } from './key.ts'
import * as manifests from './manifest.ts'
import { findBackups, removeLeftovers, toBackupName, toPartialName } from './manifest.ts'

export interface BackupRequest {
  readonly dataDir: string
  /** Absolute path of the folder in which the backup gets a folder of its own; created if only it is missing. */
  readonly folder: string
  /** Host name of the service, for people. */
  readonly hostname: string
  /** The text of the master key, to be held by the backup; undefined: the backup holds no key. */
  readonly masterKey?: string | undefined
}

/**
 * Writes a backup; `writtenBytes` are those that it does not share with the previous one. A failure leaves nothing.
 * @throws BackupError that says what to do
 */
export async function createBackup(request: BackupRequest, clock: Pick<Clock, 'now'>) {
  const { dataDir, folder } = request
  try {
    await createFolder(folder)
    removeLeftovers(folder, hostname(), clock.now())
    requireSpace(request)
  } catch (error) {
    throw explainWriteError(error, folder, 'nothing was written')
  }
  const partial = join(folder, toPartialName(clock.now(), hostname(), process.pid))
  try {
    await mkdir(partial, { mode: 0o700 })
    const copier = new Copier(dataDir, partial, findPrevious(folder), clock)
    const manifest = await fill(copier, request, clock)
    const path = await nameBackup(partial, folder, Date.parse(manifest.taken_at))
    return { path, manifest, writtenBytes: manifests.describeManifest(manifest).total_bytes - copier.linkedBytes }
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw explainWriteError(error, folder, 'nothing of the backup was kept')
  }
}

async function fill(copier: Copier, request: BackupRequest, clock: Pick<Clock, 'now'>): Promise<manifests.Manifest> {
  const { dataDir, masterKey } = request
  // Before and after the database: an import that ends meanwhile is in the first list, one that begins in the second.
  for (const folder of manifests.FOLDERS) await copier.addFiles(manifests.listFolderFiles(dataDir, folder))
  const takenAt = clock.now()
  await copier.addDatabase(manifests.MAIN_DATABASE, (db) => markAsCopy(db, { kind: 'backup', takenAt }))
  using copy = openReadOnly(join(copier.target, manifests.MAIN_DATABASE))
  const identity = readIdentity(copy)
  const missing = masterKey === undefined ? [] : findMissingKeys(masterKey, manifests.listNeededKeys(identity))
  if (missing.length > 0)
    throw new BackupError(
      `The key file lacks the ${formatKeys(missing)}, which the data needs; if it was just replaced, write the backup again.`,
    )
  for (const folder of manifests.FOLDERS) await copier.addFiles(manifests.listFolderFiles(dataDir, folder))
  for (const store of STORES) {
    for (const path of listMonthDatabases(dataDir, store)) await copier.addUnlessUnchanged(path)
    await copier.addFiles(listBlobFiles(dataDir, store))
    // After the databases: the ids in it may not be below theirs.
    await copier.addFiles([`${store}.ids`])
  }
  copier.warnings.push(...describeDamagedContent(copy, copier.target))
  for (const path of manifests.DATABASES) if (path !== manifests.MAIN_DATABASE) await copier.addDatabase(path)
  if (masterKey !== undefined) await copier.addText(manifests.KEY_FILE, `${masterKey.trim()}\n`)
  const manifest: manifests.Manifest = {
    format: manifests.FORMAT,
    tassis: formatVersion(),
    ...identity,
    hostname: request.hostname,
    taken_at: isoTime(takenAt),
    finished_at: isoTime(clock.now()),
    has_key: masterKey !== undefined,
    warnings: copier.warnings,
    files: copier.files,
  }
  await copier.syncFolders()
  await writeText(join(copier.target, manifests.MANIFEST_FILE), manifests.formatManifest(manifest))
  return manifest
}

function readIdentity(
  db: Database,
): Pick<manifests.Manifest, 'schema' | 'key_fingerprint' | 'former_key_fingerprints'> {
  const former = listOutdatedKeys(db)
  return {
    schema: readApplied(db),
    key_fingerprint: readNewestKey(db) ?? '',
    ...(former.length > 0 && { former_key_fingerprints: former }),
  }
}

async function nameBackup(partial: string, folder: string, takenAt: number): Promise<string> {
  await syncFolder(partial)
  const names = new Set(listNames(folder))
  const path = join(folder, toBackupName(takenAt, names))
  await rename(partial, path)
  await syncFolder(folder)
  return path
}

/** Rough size of what is written at least: the databases, without what may be shared with the previous backup. */
function requireSpace({ dataDir, folder }: BackupRequest): void {
  const sizeBytes = manifests.DATABASES.reduce(
    (sum, name) => sum + (statSync(join(dataDir, name), { throwIfNoEntry: false })?.size ?? 0),
    16 * MiB,
  )
  const { bavail, bsize } = statfsSync(folder)
  if (bavail * bsize < sizeBytes)
    throw new BackupError(
      `The disk of ${folder} has ${roundSize(bavail * bsize)} free, and the databases alone need ${roundSize(sizeBytes)}; free space or use another disk. Nothing was written.`,
    )
}

const roundSize = (bytes: number): string => formatSize(Math.round(bytes / MiB) * MiB)

interface PreviousBackup {
  readonly path: string
  readonly files: ReadonlyMap<string, manifests.BackupFile>
}

/** The newest backup in the folder with a readable manifest. */
function findPrevious(folder: string): PreviousBackup | undefined {
  for (const name of findBackups(folder).toReversed()) {
    try {
      const path = join(folder, name)
      return { path, files: new Map(manifests.readManifest(path).files.map((file) => [file.path, file])) }
    } catch {
      // A damaged backup is not used; `tassis backup --verify` names it.
    }
  }
  return undefined
}

/** Copies files into a backup, or shares them with the previous one, and records each. */
class Copier {
  readonly files: manifests.BackupFile[] = []
  readonly warnings: string[] = []
  linkedBytes = 0
  readonly target: string
  readonly #dataDir: string
  readonly #previous: PreviousBackup | undefined
  readonly #clock: Pick<Clock, 'now'>
  readonly #added = new Set<string>()

  constructor(dataDir: string, target: string, previous: PreviousBackup | undefined, clock: Pick<Clock, 'now'>) {
    this.#dataDir = dataDir
    this.target = target
    this.#previous = previous
    this.#clock = clock
  }

  /** Copies a database if it exists. Throws BackupError when the main database is corrupt. */
  async addDatabase(path: string, change?: (copy: Database) => void, source?: string): Promise<void> {
    const from = join(this.#dataDir, path)
    if (statSync(from, { throwIfNoEntry: false }) === undefined) return
    const to = join(this.target, path)
    await copyDatabase(from, to, change)
    const problems = checkDatabase(to)
    if (problems.length > 0 && path === manifests.MAIN_DATABASE)
      throw new BackupError(
        `${from} is corrupt (${problems[0]}), so no backup was written; \`tassis check\` shows more. Keep your older backups.`,
      )
    if (problems.length > 0) this.warnings.push(`${path} is corrupt: ${problems[0]}`)
    this.#record({ path, ...(await digest(readChunks(to))), ...(source !== undefined && { source }) })
  }

  /** Copies a month of content, or shares it with the previous backup when nothing was written to it since. */
  async addUnlessUnchanged(path: string): Promise<void> {
    const from = join(this.#dataDir, path)
    const state = describeState(from, this.#clock.now())
    const known = this.#previous?.files.get(path)
    if (state !== undefined && known?.source === state && (await this.#share(known))) return
    await this.addDatabase(path, undefined, state)
  }

  /** Copies files that never change, or shares them. A file that was deleted meanwhile is left out. */
  async addFiles(paths: readonly string[]): Promise<void> {
    for (const path of paths) {
      if (this.#added.has(path)) continue
      const known = this.#previous?.files.get(path)
      const isBlob = path.endsWith('.zst')
      const isShared = isBlob && known !== undefined && (await this.#share(known))
      try {
        if (isShared) await this.#compareWithBackup(known)
        else await this.#copyFile(path)
      } catch (error) {
        if (systemCodeOf(error) !== 'ENOENT') throw error
        if (!isShared) rmSync(join(this.target, path), { force: true })
      }
    }
  }

  /** Reads a file that is shared with the previous backup: that copy is sound, but the file may be damaged since. */
  async #compareWithBackup({ path, sha256 }: manifests.BackupFile): Promise<void> {
    const file = join(this.#dataDir, path)
    if ((await digest(readChunks(file))).sha256 !== sha256)
      this.warnings.push(`${file} is damaged; the backup has it as it was, so copy it from there`)
  }

  async addText(path: string, text: string): Promise<void> {
    this.#record({ path, ...(await writeText(join(this.target, path), text)) })
  }

  async syncFolders(): Promise<void> {
    const folders = new Set(this.files.map(({ path }) => path.split('/').slice(0, -1).join('/')))
    for (const folder of [...folders].toSorted().toReversed()) await syncFolder(join(this.target, folder))
  }

  async #copyFile(path: string): Promise<void> {
    const to = join(this.target, path)
    const written = await writeChunks(to, readChunks(join(this.#dataDir, path)))
    const { sha256 } = await digest(readChunks(to))
    if (sha256 !== written.sha256)
      throw new BackupError(`${to} was not read as it was written: the disk is defective; use another one.`)
    this.#record({ path, ...written })
  }

  /**
   * Links a file of the previous backup, if it is still as it was written. Returns false when it must be copied.
   */
  async #share(known: manifests.BackupFile): Promise<boolean> {
    if (!this.#previous) return false
    const to = join(this.target, known.path)
    try {
      await mkdir(join(to, '..'), { recursive: true, mode: 0o700 })
      await link(join(this.#previous.path, known.path), to)
    } catch {
      // Deleted, or a file system without links.
      return false
    }
    const { size, sha256 } = await digest(readChunks(to))
    if (size !== known.size || sha256 !== known.sha256) {
      this.warnings.push(`${known.path} is damaged in ${this.#previous.path}; it was copied again`)
      rmSync(to)
      return false
    }
    this.linkedBytes += size
    this.#record(known)
    return true
  }

  #record(file: manifests.BackupFile): void {
    this.#added.add(file.path)
    this.files.push(file)
  }
}
