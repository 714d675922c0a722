/** @module Who users are at the identity provider: an issuer and its name for them, which never changes. */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { identities } from './tables.ts'
import type { User } from './users.ts'

const sql = prepareStatements((db) => ({
  find: db.prepare<{ userId: number }, [string, string]>(
    'SELECT user_id AS userId FROM identities WHERE issuer = ? AND subject = ?',
  ),
  has: db.prepare<{ one: number }, [number, string]>(
    'SELECT 1 AS one FROM identities WHERE user_id = ? AND issuer = ? LIMIT 1',
  ),
  insert: db.prepare('INSERT INTO identities (issuer, subject, user_id, created_at) VALUES (?, ?, ?, ?)'),
}))

/** Row id of the user. */
export const findIdentity = (db: Database, issuer: string, subject: string): number | undefined =>
  sql(db).find.get(issuer, subject)?.userId

/** Whether the identity provider knows the user. */
export const hasIdentity = ({ db, config }: Pick<App, 'db' | 'config'>, { id }: Pick<User, 'id'>): boolean =>
  config.oidcIssuer !== '' && sql(db).has.get(id, config.oidcIssuer) !== null

/** Whether the identity provider alone lets the user in, so that what it takes away is taken away here. */
export const isOnlyProvided = (app: Pick<App, 'db' | 'config'>, user: Pick<User, 'id' | 'passwordHash'>): boolean =>
  user.passwordHash === null && hasIdentity(app, user)

export const insertIdentity = (
  tx: Tx,
  { issuer, subject, userId }: Omit<typeof identities.$inferSelect, 'createdAt'>,
  now: Millis,
): void => void sql(tx.db).insert.run(issuer, subject, userId, now)
