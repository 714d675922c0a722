import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { apiKeys } from '#features/setup/api-keys/tables.ts'
import { bytes, describeTable, flag, time, uuid } from '#platform/db/columns.ts'

/** Someone who signs in. */
export const users = sqliteTable('users', {
  /** Ids are never reused: the audit log contains them. */
  id: integer('id').primaryKey({ autoIncrement: true }),
  uuid: uuid('uuid').notNull().unique(),
  /** Lower case, domain in A-labels: the address the user signs in with. */
  email: text('email').notNull().unique(),
  name: text('name').notNull(),
  /** argon2id, in PHC format; null: not set yet. */
  passwordHash: text('password_hash'),
  /**
   * Secret of the second factor (RFC 6238), sealed with context `totp:{uuid}`; null: none. In use from `totpEnabledAt`
   * on.
   */
  totpSecret: bytes('totp_secret'),
  totpEnabledAt: time('totp_enabled_at'),
  /** The last time step whose code was accepted, so that each code is accepted only once. */
  totpLastStep: integer('totp_last_step'),
  /** JSON array of the hashes of unused recovery codes. */
  recoveryCodes: text('recovery_codes'),
  /** Until when the user may sign in with a password although the service allows none; null: not at all. */
  passwordUntil: time('password_until'),
  /** Since when the user is an operator of the whole service; null: not one. */
  operatorAt: time('operator_at'),
  lastLoginAt: time('last_login_at'),
  createdAt: time('created_at').notNull(),
})
describeTable(users, { account: { except: 'removed when they leave their last account' } })

/** The column of a row that belongs to a user, and is deleted with the user. */
const ofUser = () =>
  integer('user_id')
    .notNull()
    .references(() => users.id, { onDelete: 'cascade' })

/** Which user belongs to the team of which account. */
export const members = sqliteTable(
  'members',
  {
    accountId: ofAccount(),
    userId: ofUser(),
    role: text('role').notNull(),
    /** Whether the identity provider gave the role, which it then also changes and takes away. */
    isProvided: flag('is_provided').notNull().default(false),
    createdAt: time('created_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.userId] }), index('members_user').on(t.userId)],
)
describeTable(members, { account: 'account_id' })

/** An address that may join a team. */
export const invitations = sqliteTable(
  'invitations',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    email: text('email').notNull(),
    role: text('role').notNull(),
    /** SHA-256 of the token in the link. */
    tokenHash: bytes('token_hash').notNull().unique(),
    /** Public id of the inviter. */
    invitedBy: text('invited_by').notNull(),
    expiresAt: time('expires_at').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('invitations_account').on(t.accountId)],
)
describeTable(invitations, { account: 'account_id', kept: { since: 'expires_at', days: 0 } })

/** A link to set a user's password: requested by the user, or created by the operator. */
export const passwordResets = sqliteTable(
  'password_resets',
  {
    id: integer('id').primaryKey(),
    userId: ofUser(),
    tokenHash: bytes('token_hash').notNull().unique(),
    expiresAt: time('expires_at').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('password_resets_user').on(t.userId)],
)
describeTable(passwordResets, {
  account: { except: 'removed with their user' },
  kept: { since: 'expires_at', days: 0 },
})

/** A browser in which a user is signed in. */
export const sessions = sqliteTable(
  'sessions',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull().unique(),
    userId: ofUser(),
    /** The account in which the session acts. */
    accountId: integer('account_id').notNull(),
    /** SHA-256 of the token in the cookie. */
    tokenHash: bytes('token_hash').notNull().unique(),
    ipAddress: text('ip_address'),
    userAgent: text('user_agent'),
    /** When a second factor, a code or a passkey, was accepted in this session; null: never. */
    secondFactorAt: time('second_factor_at'),
    lastSeenAt: time('last_seen_at').notNull(),
    /** When the user last proved to be there in this session, as by typing the password; null: never. */
    passwordAt: time('password_at'),
    /** When it ends however much it is used; null: never. */
    endsAt: time('ends_at'),
    expiresAt: time('expires_at').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    index('sessions_user').on(t.userId),
    index('sessions_account').on(t.accountId),
    index('sessions_expiry').on(t.expiresAt),
  ],
)
describeTable(sessions, { account: 'account_id', kept: { since: 'expires_at', days: 0 } })

/** A network in which a user has been signed in: sign-in attempts from there are counted separately. */
export const knownNetworks = sqliteTable(
  'known_networks',
  {
    userId: ofUser(),
    /** As `networkOf` returns it. */
    network: text('network').notNull(),
    lastSeenAt: time('last_seen_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.network] }), index('known_networks_last_seen').on(t.lastSeenAt)],
)
describeTable(knownNetworks, {
  account: { except: 'removed with their user' },
  kept: { since: 'last_seen_at', days: 90 },
})

/** Who a user is at the identity provider. */
export const identities = sqliteTable(
  'identities',
  {
    issuer: text('issuer').notNull(),
    subject: text('subject').notNull(),
    userId: ofUser(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.issuer, t.subject] }), index('identities_user').on(t.userId)],
)
describeTable(identities, { account: { except: 'removed with their user' } })

/** A credential of WebAuthn with which a user signs in. */
export const passkeys = sqliteTable(
  'passkeys',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull().unique(),
    userId: ofUser(),
    name: text('name').notNull(),
    credentialId: bytes('credential_id').notNull().unique(),
    /** In COSE. */
    publicKey: bytes('public_key').notNull(),
    /** Signatures that the authenticator has counted; 0: it counts none. */
    counter: integer('counter').notNull(),
    /** JSON array: how browsers reach the authenticator. */
    transports: text('transports').notNull(),
    lastUsedAt: time('last_used_at'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('passkeys_user').on(t.userId)],
)
describeTable(passkeys, { account: { except: 'removed with their user' } })

/** What a user lets a program do by OAuth: tokens, which are sealed and not stored, that stand for an API key. */
export const oauthGrants = sqliteTable(
  'oauth_grants',
  {
    keyUuid: uuid('key_uuid')
      .primaryKey()
      .references(() => apiKeys.uuid, { onDelete: 'cascade' }),
    accountId: ofAccount(),
    userId: ofUser(),
    /** How often the tokens were renewed: refresh tokens say it, so that an old one is recognised. */
    generation: integer('generation').notNull().default(0),
    /** When the tokens were issued or renewed. */
    issuedAt: time('issued_at').notNull(),
  },
  (t) => [index('oauth_grants_user').on(t.userId), index('oauth_grants_account').on(t.accountId)],
)
describeTable(oauthGrants, { account: 'account_id' })
