/**
 * @module Every table that has rows of accounts, and how they are found: the deletion of an account goes through this list, so it is the one place besides
 * their owners that removes rows of all of them. Children come before parents. test/features/lifecycle/privacy/account-tables.test.ts compares it with the schema: a
 * new table belongs here or among those that have nothing of an account.
 */
import type { StoreName } from '#features/core/content-gc/garbage.ts'

export interface AccountTable {
  readonly table: string
  /** Which rows are of the account ?1. */
  readonly where: string
  /** Columns with references into the content stores, which are let go of. */
  readonly refs?: Readonly<Partial<Record<StoreName, readonly string[]>>>
  /** The column with a JSON array of attachments with references into the store `content`. */
  readonly attachments?: string
}

const OWN = 'account_id = ?1'
const ofWebhooks = 'webhook_id IN (SELECT id FROM webhooks WHERE account_id = ?1)'
const ofMailboxes = 'mailbox_id IN (SELECT id FROM agent_mailboxes WHERE account_id = ?1)'

/** Emails and contacts, of which there may be millions, go first, together with what hangs on them: see `account-rows.ts`. */
export const ACCOUNT_TABLES: readonly AccountTable[] = [
  { table: 'webhook_deliveries', where: ofWebhooks },
  { table: 'webhooks', where: OWN },
  { table: 'inbound_secrets', where: OWN },
  { table: 'inbound_routes', where: OWN },
  { table: 'mailbox_threads', where: ofMailboxes },
  { table: 'mailbox_contacts', where: ofMailboxes },
  { table: 'mailbox_auto_replies', where: ofMailboxes },
  { table: 'agent_mailboxes', where: OWN },
  {
    table: 'inbound_emails',
    where: OWN,
    refs: { content: ['headers_ref', 'text_ref', 'html_ref'], rawMail: ['raw_ref'] },
    attachments: 'attachments',
  },
  { table: 'received_reports', where: OWN, refs: { content: ['content_ref'] } },
  { table: 'complaints', where: OWN, refs: { rawMail: ['raw_ref'] } },
  { table: 'broadcast_recipients', where: 'broadcast_id IN (SELECT id FROM broadcasts WHERE account_id = ?1)' },
  { table: 'broadcasts', where: OWN, refs: { content: ['html_ref', 'text_ref'] } },
  { table: 'newsletters', where: OWN },
  { table: 'contact_mails', where: OWN },
  { table: 'contact_imports', where: OWN },
  { table: 'signup_forms', where: OWN },
  { table: 'contact_lists', where: OWN },
  { table: 'dead_letters', where: OWN },
  { table: 'idempotency_keys', where: OWN },
  { table: 'batch_replies', where: OWN },
  { table: 'suppressions', where: OWN },
  { table: 'templates', where: OWN },
  { table: 'domains', where: OWN },
  { table: 'streams', where: OWN },
  { table: 'insights', where: OWN },
  { table: 'abuse_findings', where: OWN },
  { table: 'pause_notices', where: OWN },
  { table: 'resumed_figures', where: OWN },
  { table: 'stored_amounts', where: OWN },
  { table: 'content_watch', where: OWN },
  { table: 'held_accounts', where: OWN },
  { table: 'erasure_emails', where: 'erasure_id IN (SELECT id FROM erasures WHERE account_id = ?1)' },
  { table: 'erasures', where: OWN },
  { table: 'api_keys', where: OWN },
  { table: 'invitations', where: OWN },
  { table: 'sessions', where: OWN },
  { table: 'members', where: OWN },
  { table: 'events', where: OWN },
  { table: 'event_sequences', where: OWN },
  { table: 'daily_figures', where: OWN },
  { table: 'counters', where: OWN },
  { table: 'usage', where: OWN },
  { table: 'usage_of_sub_accounts', where: OWN },
]

/** Tables that `account-rows.ts` empties by itself, before the others. */
export const WITH_MANY_ROWS: readonly string[] = [
  'emails',
  'email_search',
  'recipients',
  'opens',
  'click_marks',
  'link_clicks',
  'contacts',
  'confirmation_asks',
  'mailbox_messages',
  'mailbox_search',
]

/** Tables of which the end of the deletion decides: the operation and the deletion itself, the account's empty row, the erased entries of the log. */
export const AT_THE_END: readonly string[] = [
  'operations',
  'account_deletions',
  'accounts',
  'audit_logs',
  'users',
  'password_resets',
  'known_networks',
]
