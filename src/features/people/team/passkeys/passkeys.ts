/** @module The passkeys of users, as they are stored, and where browsers have them. */
import type { Database } from 'bun:sqlite'
import { isIP } from 'node:net'
import { insertSql, prepareStatements, type Tx } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Millis } from '#platform/units.ts'
import type { passkeys } from '../tables.ts'

export type Passkey = Readonly<typeof passkeys.$inferSelect>

export const MAX_PASSKEYS = 20

const COLUMNS = `id, uuid, user_id AS userId, name, credential_id AS credentialId, public_key AS publicKey, counter, transports,
  last_used_at AS lastUsedAt, created_at AS createdAt`

const sql = prepareStatements((db) => ({
  list: db.prepare<Passkey, [number]>(
    `SELECT ${COLUMNS} FROM passkeys WHERE user_id = ? ORDER BY id LIMIT ${MAX_PASSKEYS}`,
  ),
  find: db.prepare<Passkey, [Uint8Array]>(`SELECT ${COLUMNS} FROM passkeys WHERE credential_id = ?`),
  insert: db.prepare<{ id: number }, [Omit<Passkey, 'id'>]>(
    `${insertSql('passkeys', 'uuid userId name credentialId publicKey counter transports lastUsedAt createdAt')} RETURNING id`,
  ),
  use: db.prepare(
    'UPDATE passkeys SET counter = ?1, last_used_at = ?2 WHERE id = ?3 AND (counter < ?1 OR counter + ?1 = 0)',
  ),
  delete: db.prepare('DELETE FROM passkeys WHERE user_id = ? AND uuid = ?'),
  deleteAll: db.prepare('DELETE FROM passkeys WHERE user_id = ?'),
}))

/** Oldest first. */
export const listPasskeys = (db: Database, userId: number): Passkey[] => sql(db).list.all(userId)

export const findPasskey = (db: Database, credentialId: Uint8Array): Passkey | undefined =>
  sql(db).find.get(credentialId) ?? undefined

export function insertPasskey(tx: Tx, passkey: Omit<Passkey, 'id' | 'lastUsedAt'>): Passkey {
  const stored = { ...passkey, lastUsedAt: null }
  const row = sql(tx.db).insert.get(stored)
  if (!row) throw new Error('the passkey was not stored')
  return { ...stored, ...row }
}

/** Stores that it was used; false when its counter did not grow: there is a copy of it. */
export const recordPasskeyUse = (tx: Tx, { id }: Passkey, counter: number, now: Millis): boolean =>
  sql(tx.db).use.run(counter, now, id).changes === 1

/** Whether the user had it. */
export const deletePasskey = (tx: Tx, userId: number, uuid: UuidBytes): boolean =>
  sql(tx.db).delete.run(userId, uuid).changes === 1

export const deletePasskeys = (tx: Tx, userId: number): void => void sql(tx.db).deleteAll.run(userId)

/**
 * For which host and origin passkeys are; undefined where browsers have none: under an IP address, and without TLS except
 * on this machine.
 */
export function findRelyingParty({ publicUrl }: Pick<Config, 'publicUrl'>) {
  const { hostname: id, origin, protocol } = new URL(publicUrl)
  const isOwnMachine = id === 'localhost' || id.endsWith('.localhost')
  const isUsable = isIP(id.replace(/^\[|\]$/g, '')) === 0 && (protocol === 'https:' || isOwnMachine)
  return isUsable ? { id, origin } : undefined
}
