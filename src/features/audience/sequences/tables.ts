import { index, integer, real, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, time, uuid } from '#platform/db/columns.ts'

/** Emails that each person gets one after the other. A deleted one keeps its row until its people are deleted. */
export const sequences = sqliteTable(
  'sequences',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    /** `draft`, `active`, `paused` or `deleted`. */
    status: text('status').notNull(),
    /** Row id of the list whose new contacts enter; null: an event enters people. */
    listId: integer('list_id'),
    /** JSON of a `Definition`. */
    definition: text('definition').notNull(),
    createdAt: time('created_at').notNull(),
    /** Of each version another. */
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [index('sequences_account').on(t.accountId), index('sequences_list').on(t.listId)],
)
describeTable(sequences, { account: 'account_id' })

/** An address in a sequence. It stays for a year after its end, so that it does not enter again. */
export const sequencePeople = sqliteTable(
  'sequence_people',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull(),
    accountId: integer('account_id').notNull(),
    sequenceId: integer('sequence_id').notNull(),
    addressKey: text('address_key').notNull(),
    email: text('email').notNull(),
    /** Row id of the contact; null: the sequence has no list. */
    contactId: integer('contact_id'),
    /** JSON object; null: none. */
    variables: text('variables'),
    /** `active`, `finished` or `stopped`. */
    status: text('status').notNull(),
    /** Why it was stopped; of an active one, why the next step could not be sent yet. */
    reason: text('reason'),
    /** Id of the step that was sent last; 0: none. */
    place: real('place').notNull(),
    /** When that step was accepted, or the person entered: the delay of the next step counts from here. */
    sinceAt: time('since_at').notNull(),
    /** JSON: public ids of the emails, in order. */
    sent: text('sent').notNull(),
    createdAt: time('created_at').notNull(),
    endedAt: time('ended_at'),
  },
  (t) => [
    uniqueIndex('sequence_people_entry').on(t.sequenceId, t.addressKey),
    index('sequence_people_page').on(t.sequenceId),
    index('sequence_people_status').on(t.sequenceId, t.status),
    index('sequence_people_address').on(t.accountId, t.addressKey),
    index('sequence_people_ended').on(t.endedAt),
  ],
)
describeTable(sequencePeople, { account: 'account_id', kept: { since: 'ended_at', days: 365 }, group: 'contacts' })
