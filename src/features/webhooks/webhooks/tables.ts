import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { bytes, describeTable, flag, time, uuid, ZERO } from '#platform/db/columns.ts'

export const webhooks = sqliteTable(
  'webhooks',
  {
    /** Ids are never reused: deliveries refer to a webhook after its row is deleted. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    url: text('url').notNull(),
    /** What its user calls it; null: nothing. */
    description: text('description'),
    /** JSON array of names in WEBHOOK_EVENTS. */
    events: text('events').notNull(),
    isActive: flag('is_active').notNull().default(true),
    /** Deactivated by consecutive failures, not by its user. */
    offByFailures: flag('off_by_failures').notNull().default(false),
    /** When owners were last mailed that failures deactivated it; null: never. */
    noticeSentAt: time('notice_sent_at'),
    /** Sealed with context `webhook:{uuid}`. */
    secret: bytes('secret').notNull(),
    /** When the secret was last replaced; null: never. */
    secretRotatedAt: time('secret_rotated_at'),
    /** The secret before that, sealed likewise, which also signs for a day; null: none, or the day has passed. */
    previousSecret: bytes('previous_secret'),
    /** Index into PAYLOAD_FORMATS. */
    format: integer('format').notNull().default(ZERO),
    /** Consecutive failed attempts, over all events. */
    failureCount: integer('failure_count').notNull().default(ZERO),
    /** When the first of the consecutive failed attempts was made; null: there is none. */
    failingSince: time('failing_since'),
    lastFailureAt: time('last_failure_at'),
    lastFailureReason: text('last_failure_reason'),
    lastSuccessAt: time('last_success_at'),
    /** All events of the account up to this sequence number have a delivery, or are not subscribed. */
    cursorSeq: integer('cursor_seq').notNull(),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    /** Set when the webhook is deleted; the row is removed after the last of its deliveries. */
    deletedAt: time('deleted_at'),
    /**
     * The inbound route whose mail it gets, signed with the account's inbound secret; null for a webhook that the
     * account created.
     */
    routeId: integer('route_id'),
  },
  (t) => [
    index('webhooks_account').on(t.accountId),
    uniqueIndex('webhooks_route').on(t.routeId).where(sql`route_id is not null and deleted_at is null`),
  ],
)
describeTable(webhooks, { account: 'account_id', group: 'webhooks' })

/** The secret that signs requests of an account's route webhooks. */
export const inboundSecrets = sqliteTable('inbound_secrets', {
  accountId: integer('account_id').primaryKey(),
  /** Sealed with context `inbound:{account uuid}`. */
  secret: bytes('secret').notNull(),
  /** The secret before the last rotation, sealed likewise; it also signs for a day after `updated_at`. */
  previousSecret: bytes('previous_secret'),
  createdAt: time('created_at').notNull(),
  updatedAt: time('updated_at').notNull(),
})
describeTable(inboundSecrets, { account: 'account_id' })

/**
 * One event for one webhook: its attempts, and the time of the next. Written with the outcome of the first attempt;
 * until then the webhook's cursor is before the event.
 */
export const webhookDeliveries = sqliteTable(
  'webhook_deliveries',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    webhookId: integer('webhook_id').notNull(),
    /** The event's position in the account's feed; null when it is not in the feed and `payload` has it. */
    seq: integer('seq'),
    event: text('event').notNull(),
    /** JSON of the body; null when it is built from the event. */
    payload: text('payload'),
    /** Index into DELIVERY_STATUSES. */
    status: integer('status').notNull(),
    attempts: integer('attempts').notNull(),
    /** Time of the next attempt; null when there is none. */
    nextAt: time('next_at'),
    attemptedAt: time('attempted_at'),
    durationMs: integer('duration_ms'),
    statusCode: integer('status_code'),
    /** The first 1 kB of the last response body, as text. */
    response: text('response'),
    error: text('error'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    index('webhook_deliveries_history').on(t.webhookId),
    index('webhook_deliveries_filter').on(t.webhookId, t.event, t.status),
    index('webhook_deliveries_seq').on(t.webhookId, t.seq).where(sql`seq is not null`),
    index('webhook_deliveries_due').on(t.webhookId, t.nextAt).where(sql`next_at is not null`),
  ],
)
describeTable(webhookDeliveries, { account: ['webhook_id', 'webhooks'], group: 'webhooks' })
