/** @module What receivers hold against our addresses or set-up: for `tassis providers` and the operator's routes. */
import { adviseOnAttempt } from '#features/sending/delivery/control/explain.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { RunningDelivery } from '../create.ts'
import type { DeliveryAlert } from './model.ts'

/** The newest reply first; empty while nothing is delivered. */
export const listAlerts = (delivery: RunningDelivery | undefined): DeliveryAlert[] =>
  (delivery?.scheduler.alerts.list() ?? []).map(
    ({ rule, category, provider, source, reply, firstAt, lastAt, count }) => ({
      provider,
      source: source ?? null,
      rule,
      category,
      reply,
      count,
      first_at: isoTime(firstAt),
      last_at: isoTime(lastAt),
      advice: adviseOnAttempt({ type: 'deferred', data: { bounce_category: category } }).text,
    }),
  )
