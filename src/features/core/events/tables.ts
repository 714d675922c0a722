import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { time, ZERO } from '#platform/db/columns.ts'

/**
 * What happened, in one gap-free order an account. No foreign keys: events outlive what they tell of. The public id is derived from account and
 * sequence (`deriveEventUuid`), not stored.
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
    /** JSON object of what the type carries; null when it carries nothing. */
    data: text('data'),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.seq] }),
    index('events_email').on(t.emailId).where(sql`email_id is not null`),
  ],
)

/** The last sequence number given out, an account. */
export const eventSequences = sqliteTable('event_sequences', {
  accountId: integer('account_id').primaryKey(),
  lastSeq: integer('last_seq').notNull(),
})

/** Totals by account, metric and hour: what lists and analytics report without scanning. `tassis check` recounts them. */
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

/**
 * What analytics show, by UTC day and domain of the recipient, of mail that is not only captured; domain `''` is the sum of all. Kept when emails and
 * events go by age.
 */
export const dailyFigures = sqliteTable(
  'daily_figures',
  {
    accountId: integer('account_id').notNull(),
    /** Days since the epoch. Below 0: a whole month of one domain, by `toMonthKey`, so that a year need not be read day by day. */
    day: integer('day').notNull(),
    /** A-labels; `''`: the sum of all. */
    domain: text('domain').notNull(),
    /** Recipients that delivery was begun for, on the day of acceptance; suppressed and cancelled ones are taken out again. */
    sent: integer('sent').notNull().default(ZERO),
    /** Recipients whose receiver took it. */
    delivered: integer('delivered').notNull().default(ZERO),
    bounced: integer('bounced').notNull().default(ZERO),
    /** Events `opened` and `clicked`. */
    opens: integer('opens').notNull().default(ZERO),
    clicks: integer('clicks').notNull().default(ZERO),
    /** Emails, on the day of their first open and click. */
    openedEmails: integer('opened_emails').notNull().default(ZERO),
    clickedEmails: integer('clicked_emails').notNull().default(ZERO),
    complaints: integer('complaints').notNull().default(ZERO),
    unsubscribes: integer('unsubscribes').notNull().default(ZERO),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.day, t.domain] }),
    // The busiest domains of a day first: the list of a period is made from the beginnings of its days.
    index('daily_figures_by_sent').on(t.accountId, t.day, t.sent).where(sql`sent > 0 and domain <> ''`),
  ],
)

/** Single values of the installation: the newest time seen, the master key's fingerprint. */
export const meta = sqliteTable('meta', {
  key: text('key').primaryKey(),
  value: text('value').notNull(),
})
