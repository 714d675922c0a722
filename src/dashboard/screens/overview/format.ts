/** @module The screen that an event leads to. */
import type { AnalyticsTimeseries, Event } from '#client/api.ts'
import { toEventData } from '../../parts/format.ts'
import type { Target } from '../../parts/target.ts'

export function findEventScreen(event: Pick<Event, 'email_id' | 'raw_payload'>): Target | undefined {
  if (event.email_id !== null) return { to: '/emails/$id', params: { id: event.email_id } }
  const data = toEventData(event)
  if (data['domain_id'] !== undefined) return { to: '/domains/$id', params: { id: String(data['domain_id']) } }
  if (data['inbound_email_id'] !== undefined)
    return { to: '/inbound/$id', params: { id: String(data['inbound_email_id']) } }
  return data['mailbox_id'] === undefined
    ? undefined
    : { to: '/inbound/mailboxes/$id', params: { id: String(data['mailbox_id']) } }
}

const HOURS = 24

export const SHOWN_METRICS = ['sent', 'delivered', 'bounced', 'opens', 'clicks', 'complaints'] as const
export type ShownMetric = (typeof SHOWN_METRICS)[number]
type Counts = Readonly<Record<ShownMetric, number>>

/** @param points one for each hour, oldest first, up to the current hour */
export const sumHours = (
  points: readonly AnalyticsTimeseries[],
): { readonly now: Counts; readonly before: Counts } => ({
  now: sum(points.slice(-HOURS)),
  before: sum(points.slice(-2 * HOURS, -HOURS)),
})

const sum = (points: readonly AnalyticsTimeseries[]): Counts =>
  Object.fromEntries(
    SHOWN_METRICS.map((metric) => [metric, points.reduce((total, point) => total + (point[metric] ?? 0), 0)]),
  ) as Record<ShownMetric, number>
