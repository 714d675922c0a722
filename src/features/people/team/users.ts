/**
 * @module Users, their membership in the teams of accounts, and who they are at the identity provider: finds, creates and
 * removes them. A user without any membership is deleted, with everything that belongs to them. Only the files of this
 * folder write its tables. Every function that writes runs in the caller's transaction.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App, TeamRole } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { deleteApiKey } from '#features/setup/api-keys/keys.ts'
import { insertSql, prepareStatements, setSql, type Tx } from '#platform/db/open.ts'
import { type AppError, conflict, invalid } from '#platform/errors.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import type { identities, users } from './tables.ts'

export type User = Readonly<typeof users.$inferSelect>

export interface Member extends Pick<User, 'uuid' | 'email' | 'name' | 'totpEnabledAt' | 'lastLoginAt' | 'createdAt'> {
  readonly userId: number
  readonly role: TeamRole
}

/** An account that a user belongs to and may act in. */
export interface Membership {
  readonly accountId: number
  readonly uuid: UuidBytes
  readonly name: string
  readonly role: TeamRole
}

/** Limits how many are read, shown and removed at a time. */
export const MAX_MEMBERS = 500
const MAX_NAME_LENGTH = 200

const USER_COLUMNS = `id, uuid, email, name, password_hash AS passwordHash, totp_secret AS totpSecret, totp_enabled_at AS totpEnabledAt,
  totp_last_step AS totpLastStep, recovery_codes AS recoveryCodes, password_until AS passwordUntil, operator_at AS operatorAt, last_login_at AS lastLoginAt, created_at AS createdAt`

/** What a change may change. */
const CHANGEABLE =
  'email passwordHash totpSecret totpEnabledAt totpLastStep recoveryCodes passwordUntil operatorAt lastLoginAt'

const SELECT_MEMBER = `users.id AS userId, users.uuid, users.email, users.name, members.role, users.totp_enabled_at AS totpEnabledAt,
  users.last_login_at AS lastLoginAt, members.created_at AS createdAt FROM members JOIN users ON users.id = user_id`

const sql = prepareStatements((db) => ({
  byId: db.prepare<User, [number]>(`SELECT ${USER_COLUMNS} FROM users WHERE id = ?`),
  byUuid: db.prepare<User, [Uint8Array]>(`SELECT ${USER_COLUMNS} FROM users WHERE uuid = ?`),
  byEmail: db.prepare<User, [string]>(`SELECT ${USER_COLUMNS} FROM users WHERE email = ?`),
  all: db.prepare<User, []>(`SELECT ${USER_COLUMNS} FROM users ORDER BY id`),
  insert: db.prepare(insertSql('users', 'uuid email name passwordHash createdAt')),
  update: db.prepare(`UPDATE users SET ${setSql(CHANGEABLE)} WHERE id = $id`),
  members: db.prepare<Member, [number]>(
    `SELECT ${SELECT_MEMBER} WHERE members.account_id = ? ORDER BY members.created_at, users.id`,
  ),
  member: db.prepare<Member, [number, Uint8Array]>(
    `SELECT ${SELECT_MEMBER} WHERE members.account_id = ? AND users.uuid = ?`,
  ),
  countMembers: db.prepare<{ n: number }, [number]>('SELECT COUNT(*) AS n FROM members WHERE account_id = ?'),
  otherOwners: db.prepare<{ n: number }, [number, number]>(
    "SELECT COUNT(*) AS n FROM members WHERE account_id = ? AND role = 'owner' AND user_id <> ?",
  ),
  memberships: db.prepare<Membership, [number]>(
    `SELECT accounts.id AS accountId, accounts.uuid, accounts.name, members.role FROM members JOIN accounts ON accounts.id = account_id
     WHERE user_id = ? AND disabled_at IS NULL AND deleted_at IS NULL ORDER BY members.created_at, accounts.id LIMIT ${MAX_MEMBERS}`,
  ),
  findIdentity: db.prepare<{ userId: number }, [string, string]>(
    'SELECT user_id AS userId FROM identities WHERE issuer = ? AND subject = ?',
  ),
  hasIdentity: db.prepare<{ one: number }, [number, string]>(
    'SELECT 1 AS one FROM identities WHERE user_id = ? AND issuer = ? LIMIT 1',
  ),
  insertIdentity: db.prepare('INSERT INTO identities (issuer, subject, user_id, created_at) VALUES (?, ?, ?, ?)'),
  insertMember: db.prepare(
    'INSERT INTO members (account_id, user_id, role, is_provided, created_at) VALUES (?, ?, ?, ?, ?)',
  ),
  provided: db.prepare<Membership, [number]>(
    `SELECT accounts.id AS accountId, accounts.uuid, accounts.name, members.role FROM members JOIN accounts ON accounts.id = account_id
     WHERE user_id = ? AND is_provided = 1`,
  ),
  setRole: db.prepare('UPDATE members SET role = ?, is_provided = ? WHERE account_id = ? AND user_id = ?'),
  deleteMember: db.prepare('DELETE FROM members WHERE account_id = ? AND user_id = ?'),
  endSessionsIn: db.prepare('DELETE FROM sessions WHERE user_id = ? AND account_id = ?'),
  isMember: db.prepare<{ one: number }, [number]>('SELECT 1 AS one FROM members WHERE user_id = ? LIMIT 1'),
  deleteResets: db.prepare('DELETE FROM password_resets WHERE user_id = ?'),
  deleteUser: db.prepare('DELETE FROM users WHERE id = ?'),
  deleteInvitations: db.prepare('DELETE FROM invitations WHERE account_id = ?'),
  deleteInvitationsBy: db.prepare('DELETE FROM invitations WHERE account_id = ? AND invited_by = ?'),
  grants: db.prepare<{ keyUuid: Uint8Array; accountId: number }, [number, number | null]>(
    'SELECT key_uuid AS keyUuid, account_id AS accountId FROM oauth_grants WHERE user_id = ? AND account_id = coalesce(?, account_id)',
  ),
}))

/** An address as users' addresses are stored; throws 422 when it is invalid. */
export function parseUserEmail(text: string): string {
  const mailbox = parseMailbox(text)
  if (mailbox.kind === 'invalid') throw invalid('email', `email: ${mailbox.reason}`)
  return normaliseAddress(mailbox.address)
}

export const findUser = (db: Database, id: number): User | undefined => sql(db).byId.get(id) ?? undefined

export const findUserByUuid = (db: Database, uuid: UuidBytes): User | undefined => sql(db).byUuid.get(uuid) ?? undefined

/** @param email in any spelling */
export const findUserByEmail = (db: Database, email: string): User | undefined =>
  sql(db).byEmail.get(normaliseAddress(email)) ?? undefined

export const listUsers = (db: Database): User[] => sql(db).all.all()

/** The team of an account, at most MAX_MEMBERS, oldest membership first. */
export const listMembers = (db: Database, accountId: number): Member[] => sql(db).members.all(accountId)

/** Addresses of the owners of an account; empty for an account that only the operator manages. */
export const listOwnerEmails = (db: Database, accountId: number): string[] =>
  listMembers(db, accountId)
    .filter(({ role }) => role === 'owner')
    .map(({ email }) => email)

export const findMember = (db: Database, accountId: number, uuid: UuidBytes): Member | undefined =>
  sql(db).member.get(accountId, uuid) ?? undefined

/** The accounts in which a user may act, oldest membership first: disabled and deleted ones are left out. */
export const listMemberships = (db: Database, userId: number): Membership[] => sql(db).memberships.all(userId)

/** Memberships that the identity provider gave, also in disabled accounts. */
export const listProvidedMemberships = (db: Database, userId: number): Membership[] => sql(db).provided.all(userId)

export const hasOtherOwner = (db: Database, accountId: number, userId: number): boolean =>
  (sql(db).otherOwners.get(accountId, userId)?.n ?? 0) > 0

export const toUserActor = (
  user: Pick<User, 'uuid'>,
  { accountId, uuid, role }: Pick<Membership, 'accountId' | 'uuid' | 'role'>,
  ipAddress?: string,
): Actor => ({
  accountId,
  accountUuid: formatUuid(uuid),
  type: 'user',
  id: formatUuid(user.uuid),
  scopes: new Set(),
  role,
  ...(ipAddress !== undefined && { ipAddress }),
})

/** The provided name, truncated to what is stored; else the part of the address before the @. */
export const userName = (name: string | null | undefined, email: string): string =>
  name?.trim().slice(0, MAX_NAME_LENGTH) || (email.split('@')[0] ?? email).slice(0, MAX_NAME_LENGTH)

export interface NewUser {
  /** Default: a new one. */
  readonly uuid?: UuidBytes
  /** As `parseUserEmail` returns it. */
  readonly email: string
  readonly name?: string | null | undefined
  /** As `hashPassword` returns it; null: the user sets one with a link. */
  readonly passwordHash: string | null
  readonly role: TeamRole
  /** Whether the identity provider gives the role; default: it does not. */
  readonly isProvided?: boolean
}

/**
 * Creates a user who belongs to the team of the actor's account, with the audit rows of both. Throws 409 `user_exists`
 * when the address belongs to a user already. The caller checks (`requireStrongPassword`) and hashes (`hashPassword`)
 * the password first, outside the transaction.
 */
export function createUserWithPassword(app: App, tx: Tx, actor: Actor, input: NewUser): User {
  const { email, passwordHash, role } = input
  if (findUserByEmail(tx.db, email))
    throw conflict('user_exists', 'A user with this address already exists; invite that user to the team instead.')
  const uuid = input.uuid ?? newUuid()
  const now = app.eventTime()
  sql(tx.db).insert.run({ uuid, email, name: userName(input.name, email), passwordHash, createdAt: now })
  const user = findUserByUuid(tx.db, uuid)
  if (!user) throw new Error('the user was not stored')
  auditChange(app, tx, actor, 'user.created', uuid, { email })
  addMember(app, tx, actor, user, role, input.isProvided)
  return user
}

export const isTeamFull = (db: Database, accountId: number): boolean =>
  (sql(db).countMembers.get(accountId)?.n ?? 0) >= MAX_MEMBERS

export const alreadyMember = (): AppError =>
  conflict('already_member', 'This user already belongs to the team; change the role with PATCH /v1/team/members/{id}.')

/**
 * Adds a user to the team of the actor's account. Throws 409 when the user already belongs to it, or the team is full.
 */
export function addMember(app: App, tx: Tx, actor: Actor, user: User, role: TeamRole, isProvided = false): void {
  if (findMember(tx.db, actor.accountId, user.uuid)) throw alreadyMember()
  if (isTeamFull(tx.db, actor.accountId))
    throw conflict('too_many_members', `A team can have at most ${MAX_MEMBERS} members; remove one first.`)
  sql(tx.db).insertMember.run(actor.accountId, user.id, role, isProvided ? 1 : 0, app.eventTime())
  auditChange(app, tx, actor, 'member.added', user.uuid, { role }, 'user')
}

/**
 * Changes a role; the member's invitations become invalid, since they were made with the rights of the old role.
 * @param isProvided whether the identity provider gives the new role
 */
export function setMemberRole(
  tx: Tx,
  accountId: number,
  { userId, uuid }: Pick<Member, 'userId' | 'uuid'>,
  role: TeamRole,
  isProvided = false,
): void {
  sql(tx.db).setRole.run(role, isProvided ? 1 : 0, accountId, userId)
  sql(tx.db).deleteInvitationsBy.run(accountId, formatUuid(uuid))
}

/**
 * Ends a membership, the sessions that act in the account, what the member let programs do in it, and the invitations
 * that the member made. A user who belongs to no account any more is deleted.
 */
export function deleteMembership(tx: Tx, accountId: number, { userId, uuid }: Pick<Member, 'userId' | 'uuid'>): void {
  sql(tx.db).deleteMember.run(accountId, userId)
  sql(tx.db).deleteInvitationsBy.run(accountId, formatUuid(uuid))
  sql(tx.db).endSessionsIn.run(userId, accountId)
  endUserGrants(tx, userId, accountId)
  deleteUserWithoutTeam(tx, userId)
}

/** Ends what a user let programs do, in one account or in all. The caller announces the changed access. */
export function endUserGrants(tx: Tx, userId: number, inAccount: number | null = null) {
  const grants = sql(tx.db).grants.all(userId, inAccount)
  for (const { accountId, keyUuid } of grants) deleteApiKey(tx, accountId, keyUuid)
  return grants
}

function deleteUserWithoutTeam(tx: Tx, userId: number): void {
  if (!sql(tx.db).isMember.get(userId)) sql(tx.db).deleteUser.run(userId)
}

/**
 * Removes the team of an account that is being deleted: invitations, members with their sessions, and users who belong
 * to no other account.
 */
export function removeTeam(tx: Tx, accountId: number): void {
  sql(tx.db).deleteInvitations.run(accountId)
  for (const member of listMembers(tx.db, accountId)) deleteMembership(tx, accountId, member)
}

/** Changes a user. With another password, or none, every link that could set one becomes invalid. */
export function changeUser(
  tx: Tx,
  id: number,
  change: Partial<Omit<User, 'id' | 'uuid' | 'name' | 'createdAt'>>,
): void {
  const user = findUser(tx.db, id)
  if (user) sql(tx.db).update.run({ ...user, ...change })
  if (change.passwordHash !== undefined) sql(tx.db).deleteResets.run(id)
}

/** What a user without a second factor has. */
export const NO_TOTP = { totpSecret: null, totpEnabledAt: null, totpLastStep: null, recoveryCodes: null } as const

/** Row id of the user whom an identity provider, the issuer, has under this name, which never changes. */
export const findIdentity = (db: Database, issuer: string, subject: string): number | undefined =>
  sql(db).findIdentity.get(issuer, subject)?.userId

/** Whether the identity provider knows the user. */
export const hasIdentity = ({ db, config }: Pick<App, 'db' | 'config'>, { id }: Pick<User, 'id'>): boolean =>
  config.oidcIssuer !== '' && sql(db).hasIdentity.get(id, config.oidcIssuer) !== null

/** Whether the identity provider alone lets the user in, so that what it takes away is taken away here. */
export const isOnlyProvided = (app: Pick<App, 'db' | 'config'>, user: Pick<User, 'id' | 'passwordHash'>): boolean =>
  user.passwordHash === null && hasIdentity(app, user)

export const insertIdentity = (
  tx: Tx,
  { issuer, subject, userId }: Omit<typeof identities.$inferSelect, 'createdAt'>,
  now: Millis,
): void => void sql(tx.db).insertIdentity.run(issuer, subject, userId, now)
