import { integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { bytes, describeTable, time, ZERO } from '#platform/db/columns.ts'

/** Loads of the pixel of one recipient. */
export const opens = sqliteTable('opens', {
  recipientId: integer('recipient_id').primaryKey(),
  /** Loads by people, as far as known. */
  human: integer('human').notNull().default(ZERO),
  /** Loads by scanners, prefetchers and proxies. */
  machine: integer('machine').notNull().default(ZERO),
  /** `opened` events recorded, and the time of the last. */
  events: integer('events').notNull().default(ZERO),
  lastEventAt: time('last_event_at'),
})
describeTable(opens, { account: { except: 'account-rows.ts removes them with their email' }, group: 'logs' })

/** Clicks on one link of an email, by all of its recipients: the link statistics. */
export const linkClicks = sqliteTable(
  'link_clicks',
  {
    emailId: integer('email_id').notNull(),
    /** First 8 bytes of the URL's SHA-256. */
    urlHash: bytes('url_hash').notNull(),
    url: text('url').notNull(),
    human: integer('human').notNull().default(ZERO),
    machine: integer('machine').notNull().default(ZERO),
    /** Distinct UTC days with a human click, and the last of them in days since the epoch. */
    days: integer('days').notNull().default(ZERO),
    lastDay: integer('last_day'),
    lastClickedAt: time('last_clicked_at'),
  },
  (t) => [primaryKey({ columns: [t.emailId, t.urlHash] })],
)
describeTable(linkClicks, { account: { except: 'account-rows.ts removes them with their email' }, group: 'logs' })

/** `clicked` events of one recipient and link, for deduplication. */
export const clickMarks = sqliteTable(
  'click_marks',
  {
    recipientId: integer('recipient_id').notNull(),
    urlHash: bytes('url_hash').notNull(),
    events: integer('events').notNull(),
    lastEventAt: time('last_event_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.recipientId, t.urlHash] })],
)
describeTable(clickMarks, { account: { except: 'account-rows.ts removes them with their email' }, group: 'logs' })
