/** @module The filters of the deliveries of a webhook, as in the URL and in `/v1`. */
import type { DeliveryStatus } from '#features/webhooks/webhooks/event-names.ts'
import { keep, readKnown, type Search } from '../../parts/search.ts'
import type { Tone } from '../../parts/tone.ts'
import { EVENT_NAMES, TEST_EVENT } from './events.ts'

export interface DeliveryFilters {
  readonly status?: string
  readonly event?: string
}

/** What each status means for the reader. */
export const DELIVERY_STATES: Readonly<Record<DeliveryStatus, { readonly word: string; readonly tone: Tone }>> = {
  pending: { word: 'Pending', tone: 'waiting' },
  delivered: { word: 'Delivered', tone: 'good' },
  undeliverable: { word: 'Undeliverable', tone: 'bad' },
}

/** Events of deliveries. */
export const DELIVERY_EVENTS: readonly string[] = [...EVENT_NAMES, TEST_EVENT]

/** Reads the filters of a URL; what is not a filter is left out. */
export function parseDeliveryFilters(search: Search): DeliveryFilters {
  return {
    ...keep('status', readKnown(Object.keys(DELIVERY_STATES), search['status'])),
    ...keep('event', readKnown(DELIVERY_EVENTS, search['event'])),
  }
}
