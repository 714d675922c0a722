import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { describeTable, time, ZERO } from '#platform/db/columns.ts'

/**
 * Events in one gap-free order per account. No foreign keys: events outlive the rows that they concern. The public id
 * is derived from account and sequence number (`deriveEventUuid`), not stored.
 */
export const events = sqliteTable(
  'events',
  {
    accountId: integer('account_id').notNull(),
    seq: integer('seq').notNull(),
    /** Index into EVENT_TYPES. */
    type: integer('type').notNull(),
    at: time('at').notNull(),
    emailId: integer('email_id'),
    recipientId: integer('recipient_id'),
    /** JSON object of the event's data; null when it has none. */
    data: text('data'),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.seq] }),
    index('events_email').on(t.emailId).where(sql`email_id is not null`),
  ],
)
describeTable(events, { account: 'account_id', group: 'events' })

/** The last assigned sequence number per account. */
export const eventSequences = sqliteTable('event_sequences', {
  accountId: integer('account_id').primaryKey(),
  lastSeq: integer('last_seq').notNull(),
})
describeTable(eventSequences, { account: 'account_id', group: 'events' })

/**
 * Numbers that no event of this database has, because a copy skipped them when it was fenced: the time after the copy
 * was made may have used them.
 */
export const eventGaps = sqliteTable(
  'event_gaps',
  {
    accountId: integer('account_id').notNull(),
    /** The last number before the gap. */
    afterSeq: integer('after_seq').notNull(),
    /** The last number of the gap; the next event gets a higher one. */
    untilSeq: integer('until_seq').notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.afterSeq] })],
)
describeTable(eventGaps, { account: 'account_id', group: 'events' })

/**
 * Totals by account, metric and hour, for lists and analytics that must not scan rows. `tassis check` recounts them.
 */
export const counters = sqliteTable(
  'counters',
  {
    accountId: integer('account_id').notNull(),
    metric: text('metric').notNull(),
    /** Hours since the epoch. */
    hour: integer('hour').notNull(),
    value: integer('value').notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.metric, t.hour] })],
)
describeTable(counters, { account: 'account_id', group: 'figures' })

/**
 * Daily statistics for analytics, by UTC day and recipient domain, without captured mail; domain `''` is the sum. They
 * stay when retention deletes emails and events.
 */
export const dailyFigures = sqliteTable(
  'daily_figures',
  {
    accountId: integer('account_id').notNull(),
    /** Days since the epoch. */
    day: integer('day').notNull(),
    /** A-labels; `''`: the sum of all domains. */
    domain: text('domain').notNull(),
    /** Recipients whose mail was accepted, on the day of acceptance, without suppressed and cancelled ones. */
    sent: integer('sent').notNull().default(ZERO),
    /** Recipients whose server accepted the mail. */
    delivered: integer('delivered').notNull().default(ZERO),
    bounced: integer('bounced').notNull().default(ZERO),
    /** Events `opened` and `clicked`. */
    opens: integer('opens').notNull().default(ZERO),
    clicks: integer('clicks').notNull().default(ZERO),
    /** Emails, on the day of their first open or click. */
    openedEmails: integer('opened_emails').notNull().default(ZERO),
    clickedEmails: integer('clicked_emails').notNull().default(ZERO),
    complaints: integer('complaints').notNull().default(ZERO),
    unsubscribes: integer('unsubscribes').notNull().default(ZERO),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.day, t.domain] }),
    // Sorts the domains of a day by `sent`: the list for a period is built from the busiest domains of each of its
    // days.
    index('daily_figures_by_sent').on(t.accountId, t.day, t.sent).where(sql`sent > 0 and domain <> ''`),
  ],
)
describeTable(dailyFigures, { account: 'account_id', group: 'figures' })

/** Single values of the installation, such as the newest time seen and the fingerprint of the master key. */
export const meta = sqliteTable('meta', {
  key: text('key').primaryKey(),
  value: text('value').notNull(),
})
describeTable(meta, { account: { except: 'values of the installation' } })
