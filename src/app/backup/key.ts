/**
 * @module The master keys that a database needs, as it records them, and the key of a data directory, for backups that
 * hold it and restores that need it.
 */
import type { Database } from 'bun:sqlite'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { getMeta } from '#features/core/events/record.ts'
import { KeyRing, parseMasterKeys } from '#platform/crypto/crypto.ts'
import { systemCodeOf } from '#platform/errors.ts'
import type { Config } from '#platform/settings/config.ts'
import { BackupError } from './errors.ts'
import { KEY_FILE } from './manifest.ts'

export const KEY_META = {
  newest: 'master_key',
  /** Fingerprints of keys under which something may still be sealed, separated by blanks. */
  outdated: 'master_keys_outdated',
} as const

const SHOWN_LENGTH = 12
export const shortenFingerprint = (fingerprint: string): string => fingerprint.slice(0, SHOWN_LENGTH)

/** Fingerprint of the newest key; undefined in a database that was never opened with a key. */
export const readNewestKey = (db: Database): string | undefined => getMeta(db, KEY_META.newest)

/** Fingerprints of the former keys that are still needed, because a rotation has not ended. */
export const listOutdatedKeys = (db: Database): string[] =>
  (getMeta(db, KEY_META.outdated) ?? '').split(' ').filter(Boolean)

type KeyConfig = Pick<Config, 'dataDir' | 'masterKey' | 'masterKeyFile'>

/** The text of the key that the settings name; undefined when they name none. Throws BackupError for an unreadable file. */
export function readConfiguredKey({ masterKey, masterKeyFile }: KeyConfig): string | undefined {
  if (masterKey !== '') return masterKey
  return masterKeyFile === '' ? undefined : readKeyFile(masterKeyFile)
}

/** The text of the key of a data directory. Throws BackupError when it cannot be read. */
export const readKeyText = (config: KeyConfig): string =>
  readConfiguredKey(config) ?? readKeyFile(join(config.dataDir, KEY_FILE))

/** The fingerprints that the text of a key file does not hold, first or after newer ones. */
export function findMissingKeys(text: string, fingerprints: readonly string[]): string[] {
  const held = parseMasterKeys(text)?.map((key) => new KeyRing([key]).fingerprint()) ?? []
  return fingerprints.filter((fingerprint) => !held.includes(fingerprint))
}

/** Keys as `tassis keys list-master` shows them: `master keys 3f9c01ab77de, 90b2c4d1e8aa`. */
export const formatKeys = (fingerprints: readonly string[]): string =>
  `master key${fingerprints.length === 1 ? '' : 's'} ${fingerprints.map(shortenFingerprint).join(', ')}`

/** Throws BackupError when the file cannot be read. */
export function readKeyFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const code = systemCodeOf(error) || 'unknown error'
    throw new BackupError(`The master key file ${path} cannot be read (${code}); name the file that has the key.`)
  }
}
