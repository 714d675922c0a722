import { sql } from 'drizzle-orm'
import { index, integer, real, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, time, uuid } from '#platform/db/columns.ts'

/** Emails that each person gets one after the other. */
export const sequences = sqliteTable(
  'sequences',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    /** Row id of the list whose new contacts enter; null: an event enters people. */
    listId: integer('list_id'),
    /** JSON of a `Definition`. */
    definition: text('definition').notNull(),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [index('sequences_account').on(t.accountId), index('sequences_list').on(t.listId)],
)
describeTable(sequences, { account: 'account_id' })

/**
 * An address in a sequence. It has a notice, whose time is that of its next step, until it ends; it stays for a year
 * after that, so that it does not enter again.
 */
export const sequencePeople = sqliteTable(
  'sequence_people',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull(),
    accountId: integer('account_id').notNull(),
    sequenceId: integer('sequence_id').notNull(),
    addressKey: text('address_key').notNull(),
    email: text('email').notNull(),
    /** JSON object; null: none. */
    variables: text('variables'),
    /** Id of the step that was sent last; 0: none. */
    place: real('place').notNull(),
    /** When that step was accepted, or the person entered: the delay of the next step counts from here. */
    sinceAt: time('since_at').notNull(),
    /** JSON: public ids of the emails, in order. */
    sent: text('sent').notNull(),
    /** Why it was stopped; null: it got all steps. Before its end, why the next step could not be sent yet. */
    reason: text('reason'),
    createdAt: time('created_at').notNull(),
    /** Null: it is active. */
    endedAt: time('ended_at'),
  },
  (t) => [
    uniqueIndex('sequence_people_entry').on(t.sequenceId, t.addressKey),
    index('sequence_people_page').on(t.sequenceId),
    index('sequence_people_active').on(t.sequenceId).where(sql`ended_at is null`),
    index('sequence_people_address').on(t.accountId, t.addressKey),
    index('sequence_people_ended').on(t.endedAt),
  ],
)
describeTable(sequencePeople, { account: 'account_id', kept: { since: 'ended_at', days: 365 }, group: 'contacts' })
