/**
 * @module Returns the key of an address on the suppression list: the normalised address, or a keyed hash once the
 * person was erased, so that the address stays suppressed although nobody can read it. An address has one key at a
 * time.
 */
import type { Database } from 'bun:sqlite'
import { hmacSha256 } from '#platform/crypto/crypto.ts'
import { prepareStatements } from '#platform/db/open.ts'

/** Replaces the address of an erased person; nobody can own an `.invalid` address (RFC 2606 §2). */
export const ERASED_ADDRESS = 'erased@erased.invalid'

/** No address begins with this prefix, because a colon in a local part needs quotes. */
const ERASED_PREFIX = 'erased:'
const ERASED_KEY = /^erased:[0-9a-f]{64}$/

const sql = prepareStatements((db) => ({
  // The ends of an index range: `;` follows `:` in ASCII.
  anyErased: db.prepare<{ id: number }, [number]>(
    "SELECT id FROM suppressions WHERE account_id = ? AND address >= 'erased:' AND address < 'erased;' LIMIT 1",
  ),
  isListed: db.prepare<{ id: number }, [number, string]>(
    'SELECT id FROM suppressions WHERE account_id = ? AND address = ? LIMIT 1',
  ),
}))

interface ErasureState {
  readonly hashKey: Uint8Array
  /**
   * Whether an account may have erased addresses on its list. False is always right; true may be outdated. For an
   * account that has none, look-ups skip the hash.
   */
  readonly hasErased: Map<number, boolean>
}

const stateByDatabase = new WeakMap<Database, ErasureState>()

/** Sets the hash key of a database: 32 bytes that never change. Look-ups need it. */
export const setErasedKey = (db: Database, hashKey: Uint8Array): void =>
  void stateByDatabase.set(db, { hashKey, hasErased: new Map() })

function getErasureState(db: Database): ErasureState {
  const found = stateByDatabase.get(db)
  if (!found) throw new Error('the database has no key for erased addresses')
  return found
}

export const isErasedKey = (text: string): boolean => ERASED_KEY.test(text)

/**
 * The key that an address has, or would have, on the account's list.
 * @param addressKey as `normaliseAddress` returns it
 */
export function suppressionListKey(db: Database, accountId: number, addressKey: string): string {
  if (!canHaveErased(db, accountId)) return addressKey
  const form = toErasedKey(db, accountId, addressKey)
  return sql(db).isListed.get(accountId, form) ? form : addressKey
}

/** The key of an address whose rows are about to be erased. From now on, look-ups search for this key, too. */
export function prepareErasedKey(db: Database, accountId: number, addressKey: string): string {
  recordErased(db, accountId)
  return toErasedKey(db, accountId, addressKey)
}

/** Records that an account has an erased address on its list. */
export const recordErased = (db: Database, accountId: number): void =>
  void getErasureState(db).hasErased.set(accountId, true)

function canHaveErased(db: Database, accountId: number): boolean {
  const { hasErased } = getErasureState(db)
  const cached = hasErased.get(accountId)
  if (cached !== undefined) return cached
  const found = sql(db).anyErased.get(accountId) !== null
  hasErased.set(accountId, found)
  return found
}

/**
 * The key of an erased address.
 * @param addressKey as `normaliseAddress` returns it
 */
export const toErasedKey = (db: Database, accountId: number, addressKey: string): string =>
  ERASED_PREFIX + hmacSha256(getErasureState(db).hashKey, `${accountId} ${addressKey}`).toHex()
