/** @module The master keys that a database needs, as it records them. Reads one database and nothing else. */
import type { Database } from 'bun:sqlite'
import { getMeta } from '#features/core/events/record.ts'

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
