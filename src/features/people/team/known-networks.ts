/**
 * @module The networks in which users have been signed in, also after they signed out. Attempts to sign in from there
 * have separate limits and a separate queue (attempts.ts, passwords.ts), so that an attack from elsewhere cannot lock a
 * known user out.
 */
import type { Database } from 'bun:sqlite'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { networkOf } from '#platform/net/network.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'

/** As `tables.ts` states it. */
const RETENTION_MS = days(90)
/** Beyond this, the network seen longest ago is deleted. */
const MAX_NETWORKS_PER_USER = 50

const sql = prepareStatements((db) => ({
  find: db.prepare<{ one: number }, [string, string, number]>(
    `SELECT 1 AS one FROM users JOIN known_networks ON user_id = users.id WHERE email = ? AND network = ? AND last_seen_at > ?`,
  ),
  record: db.prepare<{ userId: number }, [string, number, number]>(
    `INSERT INTO known_networks (user_id, network, last_seen_at) SELECT user_id, ?, ? FROM sessions WHERE id = ?
     ON CONFLICT (user_id, network) DO UPDATE SET last_seen_at = excluded.last_seen_at RETURNING user_id AS userId`,
  ),
  crowded: db.prepare(
    `DELETE FROM known_networks WHERE user_id = ?1 AND network NOT IN
     (SELECT network FROM known_networks WHERE user_id = ?1 ORDER BY last_seen_at DESC LIMIT ${MAX_NETWORKS_PER_USER})`,
  ),
}))

/** Whether the user with this address, in any spelling, has been signed in from the network of an IP address. */
export const isKnownNetwork = (db: Database, email: string, ipAddress: string, now: Millis): boolean =>
  sql(db).find.get(normaliseAddress(email), networkOf(ipAddress), now - RETENTION_MS) !== null

export function recordNetwork(tx: Tx, sessionId: number, ipAddress: string, now: Millis): void {
  const recorded = ipAddress === '' ? null : sql(tx.db).record.get(networkOf(ipAddress), now, sessionId)
  if (recorded) sql(tx.db).crowded.run(recorded.userId)
}
