/**
 * @module The form in which an address stands on the suppression list: its key, or, once the person behind it was erased, a keyed hash of it, so that it
 * stays suppressed although nobody can read it. An address has one form at a time.
 */
import type { Database } from 'bun:sqlite'
import { hmacSha256 } from '#platform/crypto.ts'
import { prepared } from '#platform/db/open.ts'

/** Stands where an erased person's address stood; `.invalid` is nobody's (RFC 2606 §2). */
export const ERASED_ADDRESS = 'erased@erased.invalid'

/** No address begins like this: a colon in a local part needs quotes. */
const PREFIX = 'erased:'
const FORM = /^erased:[0-9a-f]{64}$/

const sql = prepared((db) => ({
  // Ends of a range in the index: a semicolon is what follows the colon.
  anyErased: db.prepare<{ id: number }, [number]>(
    "SELECT id FROM suppressions WHERE account_id = ? AND address >= 'erased:' AND address < 'erased;' LIMIT 1",
  ),
  isListed: db.prepare<{ id: number }, [number, string]>(
    'SELECT id FROM suppressions WHERE account_id = ? AND address = ? LIMIT 1',
  ),
}))

/** What is remembered of a database. */
interface Known {
  readonly hashKey: Uint8Array
  /** Whether an account may have an erased address on its list: false is exact, true may be too much. Look-ups of the others cost no hash. */
  readonly hasErased: Map<number, boolean>
}

const knownOf = new WeakMap<Database, Known>()

/** Gives the key for the hashes of a database, which look-ups need: 32 bytes that never change. */
export const setErasedKey = (db: Database, hashKey: Uint8Array): void =>
  void knownOf.set(db, { hashKey, hasErased: new Map() })

function known(db: Database): Known {
  const found = knownOf.get(db)
  if (!found) throw new Error('the database has no key for erased addresses')
  return found
}

/** Whether a text is the form of an erased address. */
export const isErasedForm = (text: string): boolean => FORM.test(text)

/** The form that an address of an account has on the list, or would have. @param addressKey as `normaliseAddress` gives it */
export function listedForm(db: Database, accountId: number, addressKey: string): string {
  if (!mayHaveErased(db, accountId)) return addressKey
  const form = erasedForm(db, accountId, addressKey)
  return sql(db).isListed.get(accountId, form) ? form : addressKey
}

/** The form of an address whose rows are about to be erased: from now on it is looked for. */
export function eraseListed(db: Database, accountId: number, addressKey: string): string {
  noteErased(db, accountId)
  return erasedForm(db, accountId, addressKey)
}

/** Says that an account has an erased address on its list. */
export const noteErased = (db: Database, accountId: number): void => void known(db).hasErased.set(accountId, true)

function mayHaveErased(db: Database, accountId: number): boolean {
  const { hasErased } = known(db)
  const remembered = hasErased.get(accountId)
  if (remembered !== undefined) return remembered
  const found = sql(db).anyErased.get(accountId) !== null
  hasErased.set(accountId, found)
  return found
}

/** The form of an address that is erased. @param addressKey as `normaliseAddress` gives it */
export const erasedForm = (db: Database, accountId: number, addressKey: string): string =>
  PREFIX + hmacSha256(known(db).hashKey, `${accountId} ${addressKey}`).toHex()
