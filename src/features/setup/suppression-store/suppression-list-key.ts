/**
 * @module The form in which an address stands on the suppression list: its key, or, once the person behind it was erased, a keyed hash of it, so that it
 * stays suppressed although nobody can read it. An address has one form at a time.
 */
import type { Database } from 'bun:sqlite'
import { hmacSha256 } from '#platform/crypto.ts'
import { prepareStatements } from '#platform/db/open.ts'

/** Stands where an erased person's address stood; `.invalid` is nobody's (RFC 2606 §2). */
export const ERASED_ADDRESS = 'erased@erased.invalid'

/** No address begins like this: a colon in a local part needs quotes. */
const ERASED_PREFIX = 'erased:'
const ERASED_KEY = /^erased:[0-9a-f]{64}$/

const sql = prepareStatements((db) => ({
  // Ends of a range in the index: a semicolon is what follows the colon.
  anyErased: db.prepare<{ id: number }, [number]>(
    "SELECT id FROM suppressions WHERE account_id = ? AND address >= 'erased:' AND address < 'erased;' LIMIT 1",
  ),
  isListed: db.prepare<{ id: number }, [number, string]>(
    'SELECT id FROM suppressions WHERE account_id = ? AND address = ? LIMIT 1',
  ),
}))

/** What is remembered of a database. */
interface ErasureState {
  readonly hashKey: Uint8Array
  /** Whether an account may have an erased address on its list: false is exact, true may be too much. Look-ups of the others cost no hash. */
  readonly hasErased: Map<number, boolean>
}

const stateByDatabase = new WeakMap<Database, ErasureState>()

/** Gives the key for the hashes of a database, which look-ups need: 32 bytes that never change. */
export const setErasedKey = (db: Database, hashKey: Uint8Array): void =>
  void stateByDatabase.set(db, { hashKey, hasErased: new Map() })

function getErasureState(db: Database): ErasureState {
  const found = stateByDatabase.get(db)
  if (!found) throw new Error('the database has no key for erased addresses')
  return found
}

/** Whether a text is the form of an erased address. */
export const isErasedKey = (text: string): boolean => ERASED_KEY.test(text)

/** The form that an address of an account has on the list, or would have. @param addressKey as `normaliseAddress` gives it */
export function suppressionListKey(db: Database, accountId: number, addressKey: string): string {
  if (!canHaveErased(db, accountId)) return addressKey
  const form = toErasedKey(db, accountId, addressKey)
  return sql(db).isListed.get(accountId, form) ? form : addressKey
}

/** The form of an address whose rows are about to be erased: from now on it is looked for. */
export function prepareErasedKey(db: Database, accountId: number, addressKey: string): string {
  recordErased(db, accountId)
  return toErasedKey(db, accountId, addressKey)
}

/** Says that an account has an erased address on its list. */
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

/** The form of an address that is erased. @param addressKey as `normaliseAddress` gives it */
export const toErasedKey = (db: Database, accountId: number, addressKey: string): string =>
  ERASED_PREFIX + hmacSha256(getErasureState(db).hashKey, `${accountId} ${addressKey}`).toHex()
