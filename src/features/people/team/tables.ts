import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { accounts } from '#features/core/accounts/tables.ts'
import { bytes, time, uuid } from '#platform/db/columns.ts'

/** Somebody who signs in. */
export const users = sqliteTable('users', {
  /** Never given twice: the audit log names it. */
  id: integer('id').primaryKey({ autoIncrement: true }),
  uuid: uuid('uuid').notNull().unique(),
  /** Lower case, domain in A-labels: what a user signs in with. */
  email: text('email').notNull().unique(),
  name: text('name').notNull(),
  /** argon2id, in PHC format; null: none is set yet. */
  passwordHash: text('password_hash'),
  /** Secret of the second factor (RFC 6238), sealed with context `totp:{uuid}`; null: none. In use from `totpEnabledAt` on. */
  totpSecret: bytes('totp_secret'),
  totpEnabledAt: time('totp_enabled_at'),
  /** The last time step that a code was taken for: none is taken twice. */
  totpLastStep: integer('totp_last_step'),
  /** JSON array of the hashes of recovery codes that are left. */
  recoveryCodes: text('recovery_codes'),
  lastLoginAt: time('last_login_at'),
  createdAt: time('created_at').notNull(),
  updatedAt: time('updated_at').notNull(),
})

/** Who belongs to the team of which account. */
export const members = sqliteTable(
  'members',
  {
    accountId: integer('account_id')
      .notNull()
      .references(() => accounts.id),
    userId: integer('user_id')
      .notNull()
      .references(() => users.id),
    role: text('role').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.userId] }), index('members_user').on(t.userId)],
)

/** An address that may join a team. */
export const invitations = sqliteTable(
  'invitations',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull().unique(),
    accountId: integer('account_id')
      .notNull()
      .references(() => accounts.id),
    email: text('email').notNull(),
    role: text('role').notNull(),
    /** SHA-256 of what the link has. */
    tokenHash: bytes('token_hash').notNull().unique(),
    /** Public id of who invited. */
    invitedBy: text('invited_by').notNull(),
    expiresAt: time('expires_at').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('invitations_account').on(t.accountId)],
)

/** A link that lets a user set a password: asked for by who forgot it, or given by the operator. */
export const passwordResets = sqliteTable(
  'password_resets',
  {
    id: integer('id').primaryKey(),
    userId: integer('user_id')
      .notNull()
      .references(() => users.id),
    tokenHash: bytes('token_hash').notNull().unique(),
    expiresAt: time('expires_at').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('password_resets_user').on(t.userId)],
)

/** A browser in which a user is signed in. */
export const sessions = sqliteTable(
  'sessions',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull().unique(),
    userId: integer('user_id')
      .notNull()
      .references(() => users.id),
    /** The account that the user looks at. */
    accountId: integer('account_id').notNull(),
    /** SHA-256 of what the cookie has. */
    tokenHash: bytes('token_hash').notNull().unique(),
    ipAddress: text('ip_address'),
    userAgent: text('user_agent'),
    lastSeenAt: time('last_seen_at').notNull(),
    expiresAt: time('expires_at').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    index('sessions_user').on(t.userId),
    index('sessions_account').on(t.accountId),
    index('sessions_expiry').on(t.expiresAt),
  ],
)

/**
 * A network in which a user has been signed in: attempts to sign in from there are not counted with those of others.
 */
export const knownNetworks = sqliteTable(
  'known_networks',
  {
    userId: integer('user_id')
      .notNull()
      .references(() => users.id),
    /** As `networkOf` gives it. */
    network: text('network').notNull(),
    lastSeenAt: time('last_seen_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.network] }), index('known_networks_last_seen').on(t.lastSeenAt)],
)
