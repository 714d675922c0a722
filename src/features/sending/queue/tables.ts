import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { bytes, describeTable, flag, time, uuid, ZERO } from '#platform/db/columns.ts'

/** An accepted email. Its id grows with created_at. The Message-ID is derived: `<{uuid}@{domain of From}>`. */
export const emails = sqliteTable(
  'emails',
  {
    // Never reused, even if the newest row is deleted: VERP addresses and events refer to it permanently.
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    domainId: integer('domain_id').notNull(),
    streamId: integer('stream_id').notNull(),
    operationId: integer('operation_id'),
    /** Row id of the template, if any. */
    templateId: integer('template_id'),
    /** Row id of the broadcast, if any: subject and bodies are then template sources, rendered per recipient. */
    broadcastId: integer('broadcast_id'),
    /** The contact list to which the email was sent, if any. */
    listId: integer('list_id'),
    /** Index into STATUSES, as in recipients. */
    status: integer('status').notNull(),
    sandbox: flag('sandbox').notNull(),
    transactional: flag('transactional').notNull(),
    /** Code of a `TrackingChoice`; null: the account's default. */
    trackingOverride: integer('tracking_override'),
    /**
     * Code of the parts that are tracked, declared as a flag, which it once was. Decided at acceptance, so that every
     * attempt sends the same message.
     */
    tracked: flag('tracked').notNull().default(false),
    /** Header form, validated: `Name <a@b>`. */
    from: text('from_address').notNull(),
    subject: text('subject').notNull(),
    /** References into the content store. */
    htmlRef: integer('html_ref'),
    textRef: integer('text_ref'),
    /** JSON: [{filename, content_type, size, ref}]. */
    attachments: text('attachments'),
    /** JSON of a `DraftExtra`: the rarely set fields. */
    extra: text('extra'),
    recipientCount: integer('recipient_count').notNull(),
    /** Decoded size of bodies and attachments, for the memory budget. */
    sizeBytes: integer('size_bytes').notNull(),
    /** The month, in the form of `usage.month`, whose quota counted the email; null if none did. */
    quotaMonth: integer('quota_month'),
    scheduledAt: time('scheduled_at'),
    deliveredAt: time('delivered_at'),
    /** Flags of what recipients did with it, as in ENGAGEMENTS. */
    engagement: integer('engagement').notNull().default(ZERO),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [
    index('emails_by_time').on(t.accountId, t.createdAt),
    index('emails_by_status').on(t.accountId, t.status, t.createdAt),
    index('emails_of_operation').on(t.operationId, t.status).where(sql`operation_id is not null`),
    // Rarely written: when an email is first opened, clicked or complained about.
    index('emails_opened').on(t.accountId, t.createdAt).where(sql`engagement & 1 <> 0`),
    index('emails_clicked').on(t.accountId, t.createdAt).where(sql`engagement & 2 <> 0`),
    index('emails_complained').on(t.accountId, t.createdAt).where(sql`engagement & 4 <> 0`),
    // By age; 9 is the code of `draft`.
    index('emails_drafts').on(t.createdAt).where(sql`status = 9`),
  ],
)
describeTable(emails, {
  account: { except: 'account-rows.ts removes them, with all that is of an email' },
  content: ['html_ref', 'text_ref'],
  attachments: 'attachments',
  group: 'logs',
})

/**
 * One address of an email: the unit of delivery. While it is open, `next_at` is its due time, and the partial index
 * over it is the mail queue: claims use lane and time, never a table scan.
 */
export const recipients = sqliteTable(
  'recipients',
  {
    // Never reused, even if the newest row is deleted: VERP addresses and events refer to it permanently.
    id: integer('id').primaryKey({ autoIncrement: true }),
    emailId: integer('email_id')
      .notNull()
      .references(() => emails.id),
    /** Index into RECIPIENT_KINDS: to, cc, bcc. */
    kind: integer('kind').notNull(),
    address: text('address').notNull(),
    /** Header form, if it has more than the address. */
    mailbox: text('mailbox'),
    status: integer('status').notNull(),
    /**
     * The recipient's lane, from `laneOf`: account and domain, or `sandbox`; with the prefix `bulk:` for broadcasts.
     * Null once the recipient is final.
     */
    lane: text('lane'),
    /** When the recipient is due; while it is claimed, when it is due again after a crash. Null once it is final. */
    nextAt: time('next_at'),
    attempts: integer('attempts').notNull().default(0),
    /**
     * When the recipient was put back into the queue, from the dead letters or after a hold: expiry starts here. Null:
     * expiry starts at the time for which the email was scheduled, or else at its acceptance.
     */
    retryFrom: time('retry_from'),
    /**
     * Start of the DATA phase. Set while this phase is in progress, and after it if the message was accepted or the
     * outcome is unknown.
     */
    deliveryStartedAt: time('delivery_started_at'),
    deliveredAt: time('delivered_at'),
    /** Whether the capture server took it, so that it was not sent: in the sandbox, or in delivery mode `capture`. */
    isCaptured: flag('is_captured').notNull().default(false),
    smtpResponse: text('smtp_response'),
    /** Why the last attempt failed, as a sentence. */
    lastError: text('last_error'),
    /** When a `deferred` event said that the recipient waits for its provider, without an attempt. */
    waitNotedAt: time('wait_noted_at'),
    sendingIp: text('sending_ip'),
    bounceType: text('bounce_type'),
    bounceCategory: text('bounce_category'),
    /** When the recipient ends as expired if it is still open then. Null: it expires by age and attempts. */
    expiresAt: time('expires_at'),
  },
  (t) => [
    index('recipients_email').on(t.emailId),
    index('recipients_due').on(t.lane, t.nextAt).where(sql`next_at is not null`),
    index('recipients_expiring').on(t.expiresAt).where(sql`expires_at is not null and next_at is not null`),
  ],
)
describeTable(recipients, { account: { except: 'account-rows.ts removes them with their email' }, group: 'logs' })

/**
 * An attempt that did not end as `sent`; the newest of each recipient. The attempt that did is in the event
 * `delivered`.
 */
export const attempts = sqliteTable(
  'attempts',
  {
    id: integer('id').primaryKey(),
    emailId: integer('email_id').notNull(),
    recipientId: integer('recipient_id').notNull(),
    /** From 1; begins again when a dead letter is retried. */
    number: integer('number').notNull(),
    /** Code of the event type: deferred, bounced, failed or uncertain. */
    type: integer('type').notNull(),
    at: time('at').notNull(),
    /** JSON: the data of its event. */
    data: text('data').notNull(),
    /** Commands and replies; null: there was no session, or newer attempts replaced it. */
    dialogue: text('dialogue'),
  },
  (t) => [index('attempts_recipient').on(t.emailId, t.recipientId)],
)
describeTable(attempts, { account: { except: 'account-rows.ts removes them with their email' }, group: 'logs' })

/** An idempotency key of a single send or a batch item. It is stored as long as its email. */
export const idempotencyKeys = sqliteTable(
  'idempotency_keys',
  {
    accountId: integer('account_id').notNull(),
    /** First 16 bytes of the key's SHA-256. */
    keyHash: bytes('key_hash').notNull(),
    emailId: integer('email_id').notNull(),
    /** First 16 bytes of the SHA-256 of the canonical request. */
    bodyHash: bytes('body_hash').notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.keyHash] })],
)
describeTable(idempotencyKeys, { account: 'account_id', group: 'logs' })

/**
 * What operators have decided for mail in the queue and for mail to come: to hold it, to send it to another host, or
 * from which pool of outgoing addresses. A rule applies to the mail that matches every column that is not null.
 */
export const queueRules = sqliteTable(
  'queue_rules',
  {
    id: integer('id').primaryKey(),
    /** `hold`, `redirect` or `pool`. */
    kind: text('kind').notNull(),
    accountId: integer('account_id'),
    /** The recipients' domain in A-labels, or `sandbox`. */
    domain: text('domain'),
    /** The name of an entry of `providers.toml`, or the MX hosts of a site without an entry. */
    provider: text('provider'),
    emailId: integer('email_id'),
    /** Where redirected mail goes, or the name of the pool; null for a hold. */
    target: text('target'),
    /** Why, in the operator's words; may be empty. */
    reason: text('reason').notNull(),
    /** `cli`, or the public id of the user. */
    createdBy: text('created_by').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    index('queue_rules_domain').on(t.domain),
    index('queue_rules_account').on(t.accountId),
    index('queue_rules_email').on(t.emailId),
    index('queue_rules_provider').on(t.provider),
  ],
)
describeTable(queueRules, { account: 'account_id' })
