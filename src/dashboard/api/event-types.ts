/** @module The types of events that the stream names. */

/** The stream names each event by its type, and a browser passes named events only to listeners of that name. */
export const STREAMED_TYPES = [
  'queued',
  'scheduled',
  'cancelled',
  'sent',
  'delivered',
  'deferred',
  'bounced',
  'failed',
  'rejected',
  'opened',
  'clicked',
  'complained',
  'unsubscribed',
  'uncertain',
  'email.inbound',
  'mailbox.message.received',
  'account.auto_paused',
  'insights.generated',
  'domain.records_lost',
  'domain.records_restored',
  'domain.unverified',
]
