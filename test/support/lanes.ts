/** @module Claims for tests that are no delivery: of the mail to a destination, whichever accounts it is of. */
import { domainOfLane, isBulkLane } from '#features/sending/queue/lanes.ts'
import { claimDue } from '#features/sending/queue/queue.ts'
import type { Tx } from '#platform/db/commit.ts'

/** Claims what is due in a lane, or in the ordinary lanes that lead to a domain or to `sandbox`. */
export function claimDueTo(tx: Tx, to: string, due: Parameters<typeof claimDue>[2]): ReturnType<typeof claimDue> {
  return tx.db
    .query<{ lane: string }, []>('SELECT DISTINCT lane FROM recipients WHERE next_at IS NOT NULL ORDER BY lane')
    .all()
    .filter(({ lane }) => lane === to || (!isBulkLane(lane) && domainOfLane(lane) === to))
    .flatMap(({ lane }) => claimDue(tx, lane, due))
}
