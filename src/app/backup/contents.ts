/** @module Which files of a data directory a backup holds, and where they are. */
import { join } from 'node:path'
import { listNames } from '#platform/content/files.ts'

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

export const listFolderFiles = (dataDir: string, folder: string): string[] =>
  listNames(join(dataDir, folder))
    .sort()
    .map((name) => `${folder}/${name}`)
