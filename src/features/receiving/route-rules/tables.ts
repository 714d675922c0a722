import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { accounts } from '#features/core/accounts/tables.ts'
import { describeTable, flag, time, uuid } from '#platform/db/columns.ts'

/** Destination of mail for addresses of an inbound domain. */
export const inboundRoutes = sqliteTable(
  'inbound_routes',
  {
    /** Ids are never reused: received mail refers to a route after its row is deleted. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: integer('account_id')
      .notNull()
      .references(() => accounts.id),
    domainId: integer('domain_id').notNull(),
    /** Local part in lower case, without `@`; `''` for catch_all. */
    pattern: text('pattern').notNull(),
    /** As the account wrote it. */
    givenPattern: text('given_pattern').notNull(),
    /** Index into MATCH_TYPES. */
    matchType: integer('match_type').notNull(),
    /** Lower values win. */
    priority: integer('priority').notNull(),
    webhookUrl: text('webhook_url'),
    /** JSON array of the addresses that its mail is forwarded to; null: none. */
    forwardTo: text('forward_to'),
    isActive: flag('is_active').notNull().default(true),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [
    index('inbound_routes_account').on(t.accountId),
    index('inbound_routes_domain').on(t.domainId, t.matchType, t.pattern),
  ],
)
describeTable(inboundRoutes, { account: 'account_id', personTexts: ['forward_to'] })
