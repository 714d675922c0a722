/** @module An event in words, and the screen that it leads to. */
import type { FeedEvent } from '#features/core/events/model.ts'

const TEXTS: Readonly<Record<string, string>> = {
  queued: 'Accepted',
  scheduled: 'Scheduled',
  cancelled: 'Cancelled',
  sent: 'Sent',
  delivered: 'Delivered',
  deferred: 'Deferred',
  bounced: 'Bounced',
  failed: 'Failed',
  rejected: 'Rejected',
  opened: 'Opened',
  clicked: 'Clicked',
  complained: 'Marked as spam',
  unsubscribed: 'Unsubscribed',
  uncertain: 'Uncertain',
  'email.inbound': 'Received',
  'mailbox.message.received': 'Received in a mailbox',
  'account.auto_paused': 'Sending paused',
  'insights.generated': 'Insights ready',
  'domain.records_lost': 'A domain lost a record',
  'domain.records_restored': 'A domain has its records again',
  'domain.unverified': 'A domain may not send any more',
}

export interface EventText {
  readonly text: string
  /** Path of a screen. */
  readonly to?: string
}

export function describeEvent({ type, email_id, raw_payload }: FeedEvent): EventText {
  const text = TEXTS[type] ?? type
  if (email_id !== null) return { text, to: `/emails/${email_id}` }
  const { domain_id: domainId } = (raw_payload ?? {}) as { readonly domain_id?: string }
  return domainId === undefined ? { text } : { text, to: `/domains/${domainId}` }
}
