/**
 * @module The manifest of a backup: what the backup holds, with size and SHA-256 of each file. A directory backup is
 * complete when it has its manifest, which is written last.
 */
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { type AppliedMigration, OtherVersionError, requireKnown } from '#platform/db/migrate.ts'
import { systemCodeOf } from '#platform/errors.ts'
import { migrations } from '../migrations.ts'
import { BackupError } from './errors.ts'

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
