/** @module The screen that an event leads to. */
import type { FeedEvent } from '#features/core/events/model.ts'

/** Path of the screen; undefined: the event has none. */
export function findEventScreen({
  email_id,
  raw_payload,
}: Pick<FeedEvent, 'email_id' | 'raw_payload'>): string | undefined {
  if (email_id !== null) return `/emails/${email_id}`
  const { domain_id: domainId } = (raw_payload ?? {}) as { readonly domain_id?: string }
  return domainId === undefined ? undefined : `/domains/${domainId}`
}
