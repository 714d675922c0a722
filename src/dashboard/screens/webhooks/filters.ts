/** @module The filters of the deliveries of a webhook, as in the URL and in `/v1`. */
import { keep, readKnown, type Search } from '../../parts/search.ts'
import type { Tone } from '../../parts/tone.ts'
import { type DeliveryQuery, EVENT_NAMES, TEST_EVENT } from './events.ts'

type DeliveryStatus = NonNullable<DeliveryQuery['status']>
type DeliveryEvent = NonNullable<DeliveryQuery['event']>

export interface DeliveryFilters {
  readonly status?: DeliveryStatus
  readonly event?: DeliveryEvent
}

export const DELIVERY_STATES: Readonly<Record<DeliveryStatus, { readonly word: string; readonly tone: Tone }>> = {
  pending: { word: 'Pending', tone: 'waiting' },
  delivered: { word: 'Delivered', tone: 'good' },
  undeliverable: { word: 'Undeliverable', tone: 'bad' },
}

export const DELIVERY_STATUSES = Object.keys(DELIVERY_STATES) as readonly DeliveryStatus[]

export const DELIVERY_EVENTS: readonly DeliveryEvent[] = [...EVENT_NAMES, TEST_EVENT]

export function parseDeliveryFilters(search: Search): DeliveryFilters {
  return {
    ...keep('status', readKnown(DELIVERY_STATUSES, search['status'])),
    ...keep('event', readKnown(DELIVERY_EVENTS, search['event'])),
  }
}
