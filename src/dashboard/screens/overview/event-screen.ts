/** @module The screen that an event leads to. */
import type { FeedEvent } from '#features/core/events/model.ts'

/** Path of the screen; undefined: the event has none. */
export function findEventScreen({
  email_id,
  raw_payload,
}: Pick<FeedEvent, 'email_id' | 'raw_payload'>): string | undefined {
  if (email_id !== null) return `/emails/${email_id}`
  const data = (raw_payload ?? {}) as Readonly<Record<string, string | undefined>>
  if (data['domain_id'] !== undefined) return `/domains/${data['domain_id']}`
  if (data['inbound_email_id'] !== undefined) return `/inbound/${data['inbound_email_id']}`
  return data['mailbox_id'] === undefined ? undefined : `/inbound/mailboxes/${data['mailbox_id']}`
}
