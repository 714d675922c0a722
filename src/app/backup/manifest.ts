/**
 * @module Which files of a data directory a backup holds, and its manifest, with size and SHA-256 of each file. A
 * directory backup is complete when it has its manifest, which is written last. Its name is like
 * `tassis-20261123T031500Z`; while it is written the name shows the process that writes it, so that the next backup can
 * remove what a killed one left.
 */
import { readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { listNames } from '#platform/content/files.ts'
import { type AppliedMigration, OtherVersionError, requireKnown } from '#platform/db/migrate.ts'
import { systemCodeOf } from '#platform/errors.ts'
import { hours, type Millis } from '#platform/units.ts'
import { migrations } from '../migrations.ts'
import { BackupError } from './errors.ts'
import { checkDatabase, digest, type FileDigest, readChunks } from './files.ts'

const NAME = /^tassis-(\d{8}T\d{6}Z)(?:-\d+)?$/
const PARTIAL = /^\.tassis-(\d{8}T\d{6}Z)-(\d+)-(.+)\.partial$/
/** What another machine began is left over after this time, because its processes are not visible here. */
const MAX_FOREIGN_AGE_MS = hours(24)

/** `20261123T031500Z` */
const formatStamp = (at: Millis): string => new Date(at).toISOString().replace(/[-:]|\.\d+/g, '')

const parseStamp = (stamp: string): Millis =>
  Date.parse(stamp.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z'))

/** @param taken names that exist; two backups of one second get different names */
export function toBackupName(at: Millis, taken: ReadonlySet<string>): string {
  const name = `tassis-${formatStamp(at)}`
  let free = name
  for (let count = 2; taken.has(free); count++) free = `${name}-${count}`
  return free
}

export const toPartialName = (at: Millis, host: string, pid: number): string =>
  `.tassis-${formatStamp(at)}-${pid}-${host}.partial`

export const isBackupName = (name: string): boolean => NAME.test(name)

/** Oldest first. */
export const sortBackupNames = (names: readonly string[]): string[] =>
  names.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }))

export const findBackups = (folder: string): string[] => sortBackupNames(listNames(folder).filter(isBackupName))

export function removeLeftovers(folder: string, host: string, now: Millis): void {
  for (const name of listNames(folder)) {
    const [, stamp = '', pid, writer] = PARTIAL.exec(name) ?? []
    if (pid === undefined) continue
    const isLeft = writer === host ? !isRunning(Number(pid)) : now - parseStamp(stamp) > MAX_FOREIGN_AGE_MS
    if (isLeft) rmSync(join(folder, name), { recursive: true, force: true })
  }
}

/** Whether another process with this id runs. This process begins one backup at a time. */
function isRunning(pid: number): boolean {
  if (pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return systemCodeOf(error) === 'EPERM'
  }
}

/**
 * Removes the oldest backups beyond `keep`; returns their names. Each loses its name first, so that a kill leaves no
 * half of a backup.
 */
export function removeOldBackups(folder: string, keep: number, host: string, now: Millis): string[] {
  const old = findBackups(folder).slice(0, -keep)
  for (const name of old) {
    const removed = join(folder, toPartialName(now, host, process.pid))
    renameSync(join(folder, name), removed)
    rmSync(removed, { recursive: true, force: true })
  }
  return old
}

export const MAIN_DATABASE = 'tassis.db'
export const KEY_FILE = 'master.key'

/** Copied as databases, and always. */
export const DATABASES = [MAIN_DATABASE, 'capture.db'] as const
/** Folders of files that never change once they are complete. */
export const FOLDERS = ['imports'] as const

/**
 * Entries of a data directory that no backup holds: they belong to the process, hold what is still arriving, or are
 * created again at a start. The master key is held only on request.
 */
export const NOT_HELD = [
  'admin.sock',
  'backup-lock',
  'backup-staging',
  'backup-state.json',
  'certificates',
  'first-key',
  'https-tls.pem',
  'inbound-tls.pem',
  'instance.json',
  'lock',
  'lost+found',
  'replica-staging',
  'replica.json',
  'restore-in-progress',
  'submission',
  KEY_FILE,
] as const

export const listFolderFiles = (dataDir: string, folder: string): string[] =>
  listNames(join(dataDir, folder))
    .sort()
    .map((name) => `${folder}/${name}`)

export const MANIFEST_FILE = 'manifest.json'

export const FORMAT = 1
/** A manifest has about 150 bytes for each file. */
const MAX_MANIFEST_BYTES = 1024 ** 3

export interface BackupFile {
  /** Path in the backup and in a data directory, with slashes. */
  readonly path: string
  readonly size: number
  /** SHA-256 in hex. */
  readonly sha256: string
  /** State of the file from which a database was copied; an equal state later means equal content. */
  readonly source?: string | undefined
}

export interface Manifest {
  readonly format: number
  /** Version and commit of the program that wrote the backup. */
  readonly tassis: string
  readonly schema: readonly AppliedMigration[]
  /** Fingerprint of the newest master key, which the data needs. */
  readonly key_fingerprint: string
  /** Fingerprints of former keys that it needs too; present only if the backup was made during a rotation. */
  readonly former_key_fingerprints?: readonly string[]
  readonly hostname: string
  /** Moment of the snapshot of the database, ISO 8601. */
  readonly taken_at: string
  readonly finished_at: string
  readonly has_key: boolean
  /** What was wrong with the data when it was copied. */
  readonly warnings: readonly string[]
  readonly files: readonly BackupFile[]
}

export interface BackupEntry {
  readonly path: string
  /** The bytes, to be read before the next entry. */
  readonly chunks: AsyncIterable<Uint8Array>
}

/** A backup in a folder or in S3. */
export interface BackupReader {
  /** How to name the backup to an operator. */
  readonly name: string
  readonly manifest: Manifest
  /** The files of the manifest, in any order. Throws BackupError where the backup ends early. */
  entries(): AsyncIterable<BackupEntry>
  /** Returns what else is wrong, after all files were found to be as written. */
  check?(): string[]
}

/** Fingerprints of all master keys that the data of a backup needs, the newest first. */
export const listNeededKeys = ({
  key_fingerprint: newest,
  former_key_fingerprints: former = [],
}: Pick<Manifest, 'key_fingerprint' | 'former_key_fingerprints'>): string[] => [newest, ...former]

/** What operators see of a backup. */
export const describeManifest = (manifest: Manifest) => ({
  taken_at: manifest.taken_at,
  tassis: manifest.tassis,
  hostname: manifest.hostname,
  files: manifest.files.length,
  total_bytes: manifest.files.reduce((sum, { size }) => sum + size, 0),
  has_key: manifest.has_key,
  master_keys: listNeededKeys(manifest),
  warnings: manifest.warnings,
})

const hash = (text: string): string => new Bun.CryptoHasher('sha256').update(text).digest('hex')

/** The text of a manifest. Its last member is the SHA-256 of the others. */
export const formatManifest = (manifest: Manifest): string =>
  `${JSON.stringify({ ...manifest, sha256: hash(JSON.stringify(manifest)) }, null, 1)}\n`

/**
 * Parses a manifest.
 * @param name of the backup, for errors
 * @throws BackupError when the text is damaged, or of a newer format
 */
export function parseManifest(text: string, name: string): Manifest {
  let parsed: Manifest & { readonly sha256?: string }
  try {
    parsed = JSON.parse(text) as typeof parsed
  } catch {
    throw damagedManifest(name)
  }
  if (typeof parsed !== 'object' || parsed === null) throw damagedManifest(name)
  const { sha256, ...manifest } = parsed
  if (manifest.format > FORMAT)
    throw new BackupError(`${name} was written by Tassis ${manifest.tassis}, in a newer format; use that version.`)
  if (manifest.format !== FORMAT || sha256 !== hash(JSON.stringify(manifest))) throw damagedManifest(name)
  // The paths become paths on this machine.
  if (!manifest.files.every(({ path }) => isSafePath(path))) throw damagedManifest(name)
  return manifest
}

const damagedManifest = (name: string): BackupError =>
  new BackupError(`${name} is damaged: ${MANIFEST_FILE} is not as it was written; use another backup.`)

/** Whether a path of a backup stays in its folder. */
export const isSafePath = (path: string): boolean =>
  /^[\w.-]+(\/[\w.-]+){0,3}$/.test(path) && !path.split('/').some((part) => /^\.+$/.test(part))

/** Reads the manifest of a directory backup. Throws BackupError when there is none, or it is damaged. */
export function readManifest(folder: string): Manifest {
  let text: string
  try {
    text = readFileSync(join(folder, MANIFEST_FILE), 'utf8')
  } catch (error) {
    const code = systemCodeOf(error)
    if (code === 'ENOENT')
      throw new BackupError(`${folder} is not a backup: it has no ${MANIFEST_FILE}; name the folder that has one.`)
    throw new BackupError(`${join(folder, MANIFEST_FILE)} cannot be read (${code || 'unknown error'}).`)
  }
  if (text.length > MAX_MANIFEST_BYTES) throw damagedManifest(basename(folder))
  return parseManifest(text, basename(folder))
}

/** Throws BackupError when a version that this one does not know wrote the backup. */
export function requireKnownSchema({ schema, tassis }: Manifest, name: string): void {
  try {
    requireKnown(schema, migrations)
  } catch (error) {
    if (error instanceof OtherVersionError) throw new BackupError(`${name} is of Tassis ${tassis}. ${error.message}`)
    throw error
  }
}

/** Opens a folder. Throws BackupError when it is no backup, or its manifest is damaged. */
export function openBackup(path: string): BackupReader {
  const absolute = resolve(path)
  const stat = statSync(absolute, { throwIfNoEntry: false })
  if (stat === undefined) throw new BackupError(`There is no backup at ${absolute}.`)
  if (!stat.isDirectory())
    throw new BackupError(`${absolute} is not a backup, which is a folder; unpack the file if it holds one.`)
  const inside = findBackups(absolute)
  const newest = inside.at(-1)
  if (newest !== undefined)
    throw new BackupError(
      `${absolute} holds ${inside.length} backup${inside.length === 1 ? '' : 's'}; name one of them. The newest is ${join(absolute, newest)}.`,
    )
  const manifest = readManifest(absolute)
  return {
    name: basename(absolute),
    manifest,
    async *entries() {
      for (const { path } of manifest.files) {
        const file = join(absolute, path)
        if (statSync(file, { throwIfNoEntry: false }) !== undefined) yield { path, chunks: readChunks(file) }
      }
    },
    check: () => checkDatabase(join(absolute, MAIN_DATABASE)).map((problem) => `${MAIN_DATABASE}: ${problem}`),
  }
}

/**
 * Passes each file to `consume`, which reads or writes its bytes, and compares what it read with the manifest.
 * @returns what is wrong, by file; empty when the backup is as it was written
 */
export async function compareFiles(
  { manifest, entries }: BackupReader,
  consume: (entry: BackupEntry) => Promise<FileDigest> = ({ chunks }) => digest(chunks),
  maxProblems = 20,
): Promise<string[]> {
  const expected = new Map(manifest.files.map((file) => [file.path, file]))
  const problems: string[] = []
  try {
    for await (const entry of entries()) {
      const file = expected.get(entry.path)
      if (!file) continue
      expected.delete(entry.path)
      const problem = compare(file, await consume(entry))
      if (problem !== undefined) problems.push(problem)
      if (problems.length >= maxProblems) return problems
    }
  } catch (error) {
    if (!(error instanceof BackupError)) throw error
    return [...problems, error.message]
  }
  for (const path of [...expected.keys()].slice(0, maxProblems - problems.length)) problems.push(`${path} is missing`)
  return problems
}

function compare({ path, size, sha256 }: BackupFile, read: FileDigest): string | undefined {
  if (read.size !== size) return `${path} has ${read.size} bytes instead of ${size}`
  return read.sha256 === sha256 ? undefined : `${path} is not as it was written (its SHA-256 differs)`
}
