import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { bytes, describeTable, flag, time, uuid, ZERO } from '#platform/db/columns.ts'

/** A mailbox for programs: one address of an inbound domain. */
export const agentMailboxes = sqliteTable(
  'agent_mailboxes',
  {
    /** Ids are never reused: events refer to a mailbox after its row is deleted. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    domainId: integer('domain_id').notNull(),
    /** Lower case. */
    localPart: text('local_part').notNull(),
    /** A-labels. */
    domain: text('domain').notNull(),
    displayName: text('display_name'),
    /** Counts received messages only. */
    messageCount: integer('message_count').notNull().default(ZERO),
    unreadCount: integer('unread_count').notNull().default(ZERO),
    /** Octets of the unread messages as received. */
    unreadBytes: integer('unread_bytes').notNull().default(ZERO),
    threadCount: integer('thread_count').notNull().default(ZERO),
    /** JSON of {enabled, rules}; null: never set. */
    autoResponder: text('auto_responder'),
    /** Whether replies are drafts until a person releases them. */
    drafts: flag('drafts').notNull().default(false),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    /** Set when the mailbox is deleted; the row is deleted with the last of its messages. */
    deletedAt: time('deleted_at'),
  },
  (t) => [
    // A mailbox belongs to a registration, not to a name: mail to a domain that another account has since verified must
    // not arrive here.
    uniqueIndex('agent_mailboxes_address').on(t.domainId, t.localPart).where(sql`deleted_at is null`),
    index('agent_mailboxes_account').on(t.accountId),
    // For the check of an account's unread mail at RCPT. Contains all columns of the query's condition, so that no row
    // is read.
    index('agent_mailboxes_unread')
      .on(t.accountId, t.deletedAt, t.unreadCount, t.unreadBytes)
      .where(sql`deleted_at is null and unread_count > 0`),
    // Entries are in row id order.
    index('agent_mailboxes_deleted').on(t.id).where(sql`deleted_at is not null`),
  ],
)
describeTable(agentMailboxes, { account: 'account_id' })

/** A message in a mailbox: received, or sent from it as a reply (`email_id`). */
export const mailboxMessages = sqliteTable(
  'mailbox_messages',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    mailboxId: integer('mailbox_id').notNull(),
    threadId: integer('thread_id').notNull(),
    /** The email that was sent; null: it was received. */
    emailId: integer('email_id'),
    /** With angle brackets; null: the message had none. */
    messageId: text('message_id'),
    inReplyTo: text('in_reply_to'),
    /** Separated by spaces. */
    references: text('references_header'),
    mailFrom: text('mail_from').notNull(),
    fromHeader: text('from_header').notNull(),
    /** Address of From, normalised; identifies the contact. */
    fromAddress: text('from_address').notNull(),
    toHeader: text('to_header'),
    ccHeader: text('cc_header'),
    replyTo: text('reply_to'),
    subject: text('subject').notNull(),
    textRef: integer('text_ref'),
    /** Text without quoted replies; null: nothing was quoted. */
    strippedRef: integer('stripped_ref'),
    htmlRef: integer('html_ref'),
    /** JSON: [{filename, content_type, size, content_id, disposition, ref}]. */
    attachments: text('attachments').notNull(),
    /** In the store of raw messages; null: it was sent. */
    rawRef: integer('raw_ref'),
    sizeBytes: integer('size_bytes').notNull(),
    sourceIp: text('source_ip'),
    /** HELO name and TLS of the client; null: no TLS, or it was sent. */
    helo: text('helo'),
    tls: text('tls'),
    /** JSON of all authentication results. */
    authentication: text('authentication'),
    /** JSON of `SpamVerdict`; null: not judged, or sent. */
    spam: text('spam'),
    /** JSON of {label, confidence}; null: not classified. */
    classification: text('classification'),
    /** Why the message could not be parsed and has only its header; null: it was parsed, or sent. */
    parseError: text('parse_error'),
    /** JSON array. */
    labels: text('labels').notNull(),
    readAt: time('read_at'),
    /** Set while a consumer holds the message. */
    leaseToken: bytes('lease_token'),
    leaseExpiresAt: time('lease_expires_at'),
    /** Set by an ack: no consumer gets the message again. The token stays, so that the same ack may be repeated. */
    ackedAt: time('acked_at'),
    /** When the SMTP session delivered it; null: it was sent. */
    receivedAt: time('received_at'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    // Each index contains the columns of its condition; otherwise SQLite would read each row to check the condition.
    index('mailbox_messages_mailbox').on(t.mailboxId, t.emailId, t.createdAt).where(sql`email_id is null`),
    index('mailbox_messages_unread')
      .on(t.mailboxId, t.emailId, t.readAt, t.createdAt)
      .where(sql`email_id is null and read_at is null`),
    index('mailbox_messages_read')
      .on(t.mailboxId, t.emailId, t.createdAt, t.readAt)
      .where(sql`email_id is null and read_at is not null`),
    index('mailbox_messages_next').on(t.mailboxId, t.leaseExpiresAt).where(sql`email_id is null and acked_at is null`),
    // The few rows that `tassis inbound` lists.
    index('mailbox_messages_unparsed').on(t.id).where(sql`parse_error is not null`),
    index('mailbox_messages_thread').on(t.threadId),
    index('mailbox_messages_message_id').on(t.mailboxId, t.messageId),
  ],
)
describeTable(mailboxMessages, {
  account: { except: 'account-rows.ts removes them, with their place in the search index' },
  content: ['text_ref', 'stripped_ref', 'html_ref'],
  attachments: 'attachments',
  rawMail: ['raw_ref'],
  group: 'inbound',
})

export const mailboxThreads = sqliteTable(
  'mailbox_threads',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    mailboxId: integer('mailbox_id').notNull(),
    subject: text('subject').notNull(),
    messageCount: integer('message_count').notNull().default(ZERO),
    lastMessageAt: time('last_message_at').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('mailbox_threads_mailbox').on(t.mailboxId, t.lastMessageAt)],
)
describeTable(mailboxThreads, { account: ['mailbox_id', 'agent_mailboxes'], group: 'inbound' })

/** Senders to a mailbox, stored because counting them would scan all messages. */
export const mailboxContacts = sqliteTable(
  'mailbox_contacts',
  {
    mailboxId: integer('mailbox_id').notNull(),
    /** Normalised. */
    address: text('address').notNull(),
    name: text('name'),
    /** Counts messages that are not deleted. */
    messageCount: integer('message_count').notNull(),
    /** Time of the latest message, even if deleted. */
    lastMessageAt: time('last_message_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.mailboxId, t.address] }),
    index('mailbox_contacts_time').on(t.mailboxId, t.lastMessageAt),
  ],
)
describeTable(mailboxContacts, { account: ['mailbox_id', 'agent_mailboxes'], group: 'inbound' })

/** When a mailbox last replied to an address automatically: at most once a day (RFC 3834 §2). */
export const mailboxAutoReplies = sqliteTable(
  'mailbox_auto_replies',
  {
    mailboxId: integer('mailbox_id').notNull(),
    /** Normalised. */
    address: text('address').notNull(),
    repliedAt: time('replied_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.mailboxId, t.address] }),
    // Counts the mailboxes that have replied to an address.
    index('mailbox_auto_replies_address').on(t.address, t.repliedAt),
  ],
)
describeTable(mailboxAutoReplies, { account: ['mailbox_id', 'agent_mailboxes'], group: 'inbound' })
