/** @module The schema migrations, embedded in the executable. Append only: never edit a released migration. */
import type { Migration } from '#platform/db/migrate.ts'
import initial from '../../migrations/0000_initial.sql' with { type: 'text' }
import eventsTold from '../../migrations/0001_events_told.sql' with { type: 'text' }
import mailComesIn from '../../migrations/0002_mail_comes_in.sql' with { type: 'text' }
import listsAndTemplates from '../../migrations/0003_lists_and_templates.sql' with { type: 'text' }
import lifeOfAccounts from '../../migrations/0004_life_of_accounts.sql' with { type: 'text' }
import shares from '../../migrations/0005_shares.sql' with { type: 'text' }
import storedAmounts from '../../migrations/0006_stored_amounts.sql' with { type: 'text' }
import unreadBytes from '../../migrations/0007_unread_bytes.sql' with { type: 'text' }
import unparsedMessages from '../../migrations/0008_unparsed_messages.sql' with { type: 'text' }
import lostRecords from '../../migrations/0009_lost_records.sql' with { type: 'text' }
import emailsCanBeSearched from '../../migrations/0010_emails_can_be_searched.sql' with { type: 'text' }
import emailDomainsCanBeSearched from '../../migrations/0011_email_domains_can_be_searched.sql' with { type: 'text' }
import dashboard from '../../migrations/0012_dashboard.sql' with { type: 'text' }
import delivery from '../../migrations/0013_delivery.sql' with { type: 'text' }
import streamPools from '../../migrations/0014_stream_pools.sql' with { type: 'text' }
import waysIn from '../../migrations/0015_ways_in.sql' with { type: 'text' }
import keys from '../../migrations/0016_keys.sql' with { type: 'text' }
import fence from '../../migrations/0017_fence.sql' with { type: 'text' }
import words from '../../migrations/0018_words.sql' with { type: 'text' }
import keyNotices from '../../migrations/0019_key_notices.sql' with { type: 'text' }
import wording from '../../migrations/0020_wording.sql' with { type: 'text' }

/** This migration reads every stored email. */
export const SEARCH_INDEX_MIGRATION = '0010_emails_can_be_searched'

export const migrations: readonly Migration[] = [
  { name: '0000_initial', sql: initial },
  { name: '0001_events_told', sql: eventsTold },
  { name: '0002_mail_comes_in', sql: mailComesIn },
  { name: '0003_lists_and_templates', sql: listsAndTemplates },
  { name: '0004_life_of_accounts', sql: lifeOfAccounts },
  { name: '0005_shares', sql: shares },
  { name: '0006_stored_amounts', sql: storedAmounts },
  { name: '0007_unread_bytes', sql: unreadBytes },
  { name: '0008_unparsed_messages', sql: unparsedMessages },
  { name: '0009_lost_records', sql: lostRecords },
  { name: SEARCH_INDEX_MIGRATION, sql: emailsCanBeSearched },
  { name: '0011_email_domains_can_be_searched', sql: emailDomainsCanBeSearched },
  { name: '0012_dashboard', sql: dashboard },
  { name: '0013_delivery', sql: delivery },
  { name: '0014_stream_pools', sql: streamPools },
  { name: '0015_ways_in', sql: waysIn },
  { name: '0016_keys', sql: keys },
  { name: '0017_fence', sql: fence },
  { name: '0018_words', sql: words },
  { name: '0019_key_notices', sql: keyNotices },
  { name: '0020_wording', sql: wording },
]
