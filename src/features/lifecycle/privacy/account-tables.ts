/**
 * @module Lists every table with rows of accounts, and how to find them. Only the deletion of an account uses this
 * list: it removes rows of tables that other features own. Children precede parents.
 * test/features/lifecycle/privacy/account-tables.test.ts compares the list with the schema: a new table belongs here or
 * among those without account data.
 */
import type { StoreName } from '#features/core/content-gc/garbage.ts'

export interface AccountTable {
  readonly table: string
  /** Condition on the rows of account ?1. */
  readonly where: string
  /** Columns with references into the content stores; deletion drops these references. */
  readonly refs?: Readonly<Partial<Record<StoreName, readonly string[]>>>
  /** The column with a JSON array of attachments that refer to the store `content`. */
  readonly attachments?: string
}

const OF_ACCOUNT = 'account_id = ?1'
const OF_WEBHOOKS = 'webhook_id IN (SELECT id FROM webhooks WHERE account_id = ?1)'
const OF_MAILBOXES = 'mailbox_id IN (SELECT id FROM agent_mailboxes WHERE account_id = ?1)'

/** Emails and contacts, possibly millions, are removed first with their dependent rows: see `account-rows.ts`. */
export const ACCOUNT_TABLES: readonly AccountTable[] = [
  { table: 'webhook_deliveries', where: OF_WEBHOOKS },
  { table: 'webhooks', where: OF_ACCOUNT },
  { table: 'inbound_secrets', where: OF_ACCOUNT },
  { table: 'inbound_routes', where: OF_ACCOUNT },
  { table: 'mailbox_threads', where: OF_MAILBOXES },
  { table: 'mailbox_contacts', where: OF_MAILBOXES },
  { table: 'mailbox_auto_replies', where: OF_MAILBOXES },
  { table: 'agent_mailboxes', where: OF_ACCOUNT },
  {
    table: 'inbound_emails',
    where: OF_ACCOUNT,
    refs: { content: ['headers_ref', 'text_ref', 'html_ref'], rawMail: ['raw_ref'] },
    attachments: 'attachments',
  },
  { table: 'received_reports', where: OF_ACCOUNT, refs: { content: ['content_ref'] } },
  { table: 'complaints', where: OF_ACCOUNT, refs: { rawMail: ['raw_ref'] } },
  { table: 'broadcast_recipients', where: 'broadcast_id IN (SELECT id FROM broadcasts WHERE account_id = ?1)' },
  { table: 'broadcasts', where: OF_ACCOUNT, refs: { content: ['html_ref', 'text_ref'] } },
  { table: 'newsletters', where: OF_ACCOUNT },
  { table: 'notices', where: OF_ACCOUNT },
  { table: 'contact_imports', where: OF_ACCOUNT },
  { table: 'signup_forms', where: OF_ACCOUNT },
  { table: 'contact_lists', where: OF_ACCOUNT },
  { table: 'dead_letters', where: OF_ACCOUNT },
  { table: 'idempotency_keys', where: OF_ACCOUNT },
  { table: 'batch_replies', where: OF_ACCOUNT },
  { table: 'suppressions', where: OF_ACCOUNT },
  { table: 'template_versions', where: 'template_id IN (SELECT id FROM templates WHERE account_id = ?1)' },
  { table: 'templates', where: OF_ACCOUNT },
  { table: 'dkim_keys', where: 'domain_id IN (SELECT id FROM domains WHERE account_id = ?1)' },
  { table: 'domains', where: OF_ACCOUNT },
  { table: 'streams', where: OF_ACCOUNT },
  { table: 'insights', where: OF_ACCOUNT },
  { table: 'abuse_findings', where: OF_ACCOUNT },
  { table: 'resumed_figures', where: OF_ACCOUNT },
  { table: 'wordings', where: OF_ACCOUNT },
  { table: 'stored_amounts', where: OF_ACCOUNT },
  { table: 'content_watch', where: OF_ACCOUNT },
  { table: 'held_accounts', where: OF_ACCOUNT },
  { table: 'queue_rules', where: OF_ACCOUNT },
  { table: 'erasure_emails', where: 'erasure_id IN (SELECT id FROM erasures WHERE account_id = ?1)' },
  { table: 'erasures', where: OF_ACCOUNT },
  { table: 'api_keys', where: OF_ACCOUNT },
  { table: 'invitations', where: OF_ACCOUNT },
  { table: 'sessions', where: OF_ACCOUNT },
  { table: 'members', where: OF_ACCOUNT },
  { table: 'events', where: OF_ACCOUNT },
  { table: 'event_sequences', where: OF_ACCOUNT },
  { table: 'event_gaps', where: OF_ACCOUNT },
  { table: 'daily_figures', where: OF_ACCOUNT },
  { table: 'counters', where: OF_ACCOUNT },
  { table: 'usage', where: OF_ACCOUNT },
  { table: 'usage_of_sub_accounts', where: OF_ACCOUNT },
]

/** Tables that `account-rows.ts` empties separately, before the others. */
export const LARGE_TABLES: readonly string[] = [
  'emails',
  'email_search',
  'recipients',
  'attempts',
  'opens',
  'click_marks',
  'link_clicks',
  'contacts',
  'confirmation_asks',
  'mailbox_messages',
  'mailbox_search',
]

/**
 * Tables that this list and `account-rows.ts` leave to the last steps: the operation, the deletion itself, the
 * account's emptied row, the erased log entries.
 */
export const LAST_TABLES: readonly string[] = [
  'operations',
  'account_deletions',
  'accounts',
  'audit_logs',
  'users',
  'password_resets',
  'known_networks',
]
