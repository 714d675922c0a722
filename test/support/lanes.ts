/** @module The lanes with open mail, and claims of due mail to a destination, for all accounts. */
import type { App } from '#features/core/app/app.ts'
import type { DeliveryScheduler } from '#features/sending/delivery/schedule/scheduler.ts'
import { domainOfLane, isBulkLane } from '#features/sending/queue/lanes.ts'
import { claimDue, countOpen, QUEUE_START } from '#features/sending/queue/queue.ts'
import type { Tx } from '#platform/db/open.ts'

/** Claims due mail of a lane, or of the ordinary lanes of a domain or `sandbox`. */
export function claimDueTo(tx: Tx, to: string, due: Parameters<typeof claimDue>[2]): ReturnType<typeof claimDue> {
  return tx.db
    .query<{ lane: string }, []>('SELECT DISTINCT lane FROM recipients WHERE next_at IS NOT NULL ORDER BY lane')
    .all()
    .filter(({ lane }) => lane === to || (!isBulkLane(lane) && domainOfLane(lane) === to))
    .flatMap(({ lane }) => claimDue(tx, lane, due))
}

interface Delivering {
  readonly app: Pick<App, 'db'>
  readonly delivery: { readonly scheduler: Pick<DeliveryScheduler, 'describeWait'> } | undefined
}

/** Every lane with open mail, and why its due mail waits; none while nothing delivers. */
export function laneStates({ app, delivery }: Delivering) {
  const { lanes } = countOpen(app.db, QUEUE_START, Number.MAX_SAFE_INTEGER)
  return !delivery
    ? []
    : lanes.map(({ lane, firstAt, waiting }) => ({
        lane,
        waiting,
        reason: delivery.scheduler.describeWait(lane, firstAt),
      }))
}
