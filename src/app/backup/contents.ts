/** @module Which files of a data directory a backup holds, and where they are. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseMonthName } from '#platform/content/read.ts'
import { systemCodeOf } from '#platform/errors.ts'

export const MAIN_DATABASE = 'tassis.db'
export const KEY_FILE = 'master.key'

/** Copied as databases, and always. */
export const DATABASES = [MAIN_DATABASE, 'capture.db'] as const
/** Content stores: databases by month with folders of large blobs, and the ids that they have issued. */
export const STORES = ['content', 'raw-mail'] as const
/** Folders of files that never change once they are complete. */
export const FOLDERS = ['imports'] as const

/**
 * Entries of a data directory that no backup holds: they belong to the process, hold what is still arriving, or are
 * created again at a start. The master key is held only on request.
 */
export const NOT_HELD = [
  'admin.sock',
  'backup-staging',
  'ballast',
  'certificates',
  'first-key',
  'https-tls.pem',
  'inbound-tls.pem',
  'instance.json',
  'lock',
  'lost+found',
  'restore-in-progress',
  'submission',
  KEY_FILE,
] as const

/** Names in a folder; none when the folder does not exist. */
export function listNames(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return []
    throw error
  }
}

/** The databases of a content store, such as `content/2026-11.db`. */
export const listMonthDatabases = (dataDir: string, store: string): string[] =>
  listNames(join(dataDir, store))
    .filter((name) => name.endsWith('.db') && parseMonthName(name) !== undefined)
    .sort()
    .map((name) => `${store}/${name}`)

/** The files of large blobs of a content store, without unfinished ones. */
export const listBlobFiles = (dataDir: string, store: string): string[] =>
  listNames(join(dataDir, store))
    .filter((name) => !name.includes('.') && parseMonthName(name) !== undefined)
    .flatMap((month) =>
      listNames(join(dataDir, store, month))
        .filter((name) => /^[0-9a-f]{32}\.zst$/.test(name))
        .map((name) => `${store}/${month}/${name}`),
    )
    .sort()

export const listFolderFiles = (dataDir: string, folder: string): string[] =>
  listNames(join(dataDir, folder))
    .sort()
    .map((name) => `${folder}/${name}`)
