import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { bytes, describeTable, time, uuid } from '#platform/db/columns.ts'

export const apiKeys = sqliteTable(
  'api_keys',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    name: text('name').notNull(),
    /** SHA-256 of the key; the key itself is never stored. */
    hash: bytes('hash').notNull().unique(),
    /** First 16 characters, so that users recognise the key. */
    keyPrefix: text('key_prefix').notNull(),
    /** JSON array of scope names. */
    scopes: text('scopes').notNull(),
    /** The key is refused from then on; null: it does not expire. */
    expiresAt: time('expires_at'),
    /** JSON of ApiKeyLimits; null: none. */
    limits: text('limits'),
    lastUsedAt: time('last_used_at'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('api_keys_account').on(t.accountId)],
)
describeTable(apiKeys, { account: 'account_id' })

/** Keys that were revoked lately, so that the account sees in its logs which program still uses one. */
export const revokedApiKeys = sqliteTable(
  'revoked_api_keys',
  {
    hash: bytes('hash').primaryKey(),
    uuid: uuid('uuid').notNull(),
    accountId: ofAccount(),
    name: text('name').notNull(),
    revokedAt: time('revoked_at').notNull(),
  },
  (t) => [
    index('revoked_api_keys_uuid').on(t.uuid),
    index('revoked_api_keys_account').on(t.accountId),
    index('revoked_api_keys_revoked_at').on(t.revokedAt),
  ],
)
describeTable(revokedApiKeys, { account: 'account_id', kept: { since: 'revoked_at', days: 90 } })
