/**
 * @module Restores a backup into an empty data directory. Everything is written while a marker in the directory keeps
 * any service from starting there, and compared with the manifest; the database gets its name and the marker goes only
 * when all of it is on disk. So a restore that was killed leaves a directory in which nothing starts, and which the
 * next restore clears. The database of a backup is marked as a copy, so the first start fences it (`core/fence`).
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { STORES } from '#platform/content/files.ts'
import { syncFolder } from '#platform/content/synced-files.ts'
import { parseMasterKeys } from '#platform/crypto/crypto.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { giveToOwner, requireUsableData } from '#platform/disk/data-owner.ts'
import { lockDirectory } from '#platform/disk/lock.ts'
import { RESTORE_MARKER } from '../create.ts'
import { BackupError, explainWriteError } from './errors.ts'
import { checkDatabase, digest, writeChunks, writeText } from './files.ts'
import { findMissingKeys, formatKeys, readNewestKey } from './key.ts'
import * as manifests from './manifest.ts'

export interface RestoreRequest {
  readonly reader: manifests.BackupReader
  /** Absolute path; missing, or empty but for a master key. */
  readonly dataDir: string
  /** Text of the key that the operator named, which is written into the directory. */
  readonly key?: string | undefined
  /** Text of the key that the settings name, which stays where it is. */
  readonly configuredKey?: string | undefined
}

/** The database until everything else is in place: so no version of the program takes the directory for complete. */
const UNFINISHED_DATABASE = `${manifests.MAIN_DATABASE}.restoring`

/** What an interrupted restore may have written. */
const WRITTEN: readonly string[] = [
  UNFINISHED_DATABASE,
  ...manifests.DATABASES,
  ...STORES,
  ...STORES.map((store) => `${store}.ids`),
  ...manifests.FOLDERS,
]

const MAY_EXIST: readonly string[] = [manifests.KEY_FILE, 'lock', 'lost+found', RESTORE_MARKER]

/** Restores. A failure leaves the directory as it was. @throws BackupError that says what to do */
export async function restoreBackup({ reader, dataDir, key, configuredKey }: RestoreRequest): Promise<void> {
  manifests.requireKnownSchema(reader.manifest, reader.name)
  const keyToWrite = chooseKey(reader, dataDir, key, configuredKey)
  const isNew = !existsSync(dataDir)
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    // Before the lock is created in it.
    requireEmpty(dataDir)
  } catch (error) {
    throw explainWriteError(error, dataDir, 'nothing was written')
  }
  requireUsableData(dataDir)
  const lock = lockDirectory(dataDir)
  if (!lock)
    throw new BackupError(
      `A running service or another restore uses ${dataDir}; stop it (\`systemctl stop tassis\`), or restore into another folder with --into.`,
    )
  const created: string[] = []
  try {
    // Again, because another restore may have ended in between.
    requireEmpty(dataDir)
    if (existsSync(join(dataDir, RESTORE_MARKER))) clear(dataDir, WRITTEN)
    writeFileSync(join(dataDir, RESTORE_MARKER), '', { mode: 0o600 })
    await syncFolder(dataDir)
    if (keyToWrite !== undefined) {
      created.push(manifests.KEY_FILE)
      await writeText(join(dataDir, manifests.KEY_FILE), `${keyToWrite.trim()}\n`)
    }
    await writeFiles(reader, dataDir)
    finishDatabase(reader, join(dataDir, UNFINISHED_DATABASE))
    giveToOwner(dataDir)
    await syncFolder(dataDir)
    await rename(join(dataDir, UNFINISHED_DATABASE), join(dataDir, manifests.MAIN_DATABASE))
    await syncFolder(dataDir)
    rmSync(join(dataDir, RESTORE_MARKER))
    await syncFolder(dataDir)
    lock.release()
  } catch (error) {
    clear(dataDir, [...WRITTEN, ...created, RESTORE_MARKER])
    giveToOwner(dataDir)
    lock.release()
    if (isNew) await rm(dataDir, { recursive: true, force: true })
    throw explainWriteError(error, dataDir, 'nothing of the restore was kept')
  }
}

function clear(dataDir: string, names: readonly string[]): void {
  for (const name of names) rmSync(join(dataDir, name), { recursive: true, force: true })
}

function requireEmpty(dataDir: string): void {
  const names = readdirSync(dataDir)
  const wasInterrupted = names.includes(RESTORE_MARKER)
  const found = names.filter((name) => !MAY_EXIST.includes(name) && !(wasInterrupted && WRITTEN.includes(name)))
  if (found.includes('admin.sock'))
    throw new BackupError(
      `${dataDir} is the data directory of a service, which may run; stop it, move the directory away (\`mv ${dataDir} ${dataDir}.old\`), or restore into another one with --into.`,
    )
  if (found.length > 0)
    throw new BackupError(
      `${dataDir} is not empty (it has ${found.slice(0, 3).join(', ')}${found.length > 3 ? ', …' : ''}); move it away (\`mv ${dataDir} ${dataDir}.old\`), or restore into another folder with --into.`,
    )
}

/**
 * Checks that the key which the restored service will use is that of the backup.
 * @returns the key to be written; undefined when it is already there, in the settings or in the backup
 */
function chooseKey(
  { manifest, name }: manifests.BackupReader,
  dataDir: string,
  key: string | undefined,
  configuredKey: string | undefined,
): string | undefined {
  const file = join(dataDir, manifests.KEY_FILE)
  const needed = manifests.listNeededKeys(manifest)
  const candidates = [
    { text: key, source: '--key' },
    { text: configuredKey, source: 'the settings' },
    { text: existsSync(file) ? readFileSync(file, 'utf8') : undefined, source: file },
  ]
  const given = candidates.flatMap(({ text, source }) => (text === undefined ? [] : [{ text: text.trim(), source }]))
  for (const { text, source } of given) {
    if (!parseMasterKeys(text))
      throw new BackupError(`The key of ${source} is not a master key: it must be 32 bytes in base64.`)
    const missing = findMissingKeys(text, needed)
    if (missing.includes(manifest.key_fingerprint))
      throw new BackupError(
        `The key of ${source} is not the master key of ${name}, which needs the ${formatKeys(needed)}; use the key file of that service.`,
      )
    if (missing.length > 0)
      throw new BackupError(
        `The key of ${source} lacks the former ${formatKeys(missing)}: ${name} was written while secrets were being sealed again under a new key, so it needs the ${formatKeys(needed)}. Use the key file of that time, or add the former key as a line below the newest.`,
      )
    if (key !== undefined && text !== key.trim())
      throw new BackupError(`The key of ${source} is used, not that of --key, and they differ; remove one of them.`)
  }
  if (given.length === 0 && !manifest.has_key)
    throw new BackupError(
      `${name} holds no master key, and needs the ${formatKeys(needed)}; name its file with --key, or put it into ${file}.`,
    )
  return given.length === 1 ? key : undefined
}

/** Writes all files and compares them with the manifest. Throws BackupError that names the damaged file. */
async function writeFiles(reader: manifests.BackupReader, dataDir: string): Promise<void> {
  const hasKey = existsSync(join(dataDir, manifests.KEY_FILE))
  const [problem] = await manifests.compareFiles(
    reader,
    ({ path, chunks }) => {
      // A key that is there was found to open the backup.
      if (path === manifests.KEY_FILE && hasKey) return digest(chunks)
      return writeChunks(join(dataDir, path === manifests.MAIN_DATABASE ? UNFINISHED_DATABASE : path), chunks)
    },
    1,
  )
  if (problem !== undefined)
    throw new BackupError(`${reader.name} is damaged: ${problem}. Nothing was restored; use another backup.`)
}

function finishDatabase({ manifest, name }: manifests.BackupReader, path: string): void {
  const [problem] = checkDatabase(path)
  if (problem !== undefined)
    throw new BackupError(`The database of ${name} is corrupt (${problem}). Nothing was restored; use another backup.`)
  using db = openReadOnly(path)
  if (readNewestKey(db) !== manifest.key_fingerprint)
    throw new BackupError(`The database of ${name} belongs to another master key. Nothing was restored.`)
}
