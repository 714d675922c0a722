/** @module Claims due mail to a destination, for all accounts, in tests that are not about delivery. */
import { domainOfLane, isBulkLane } from '#features/sending/queue/lanes.ts'
import { claimDue } from '#features/sending/queue/queue.ts'
import type { Tx } from '#platform/db/commit.ts'

/** Claims due mail of a lane, or of the ordinary lanes of a domain or `sandbox`. */
export function claimDueTo(tx: Tx, to: string, due: Parameters<typeof claimDue>[2]): ReturnType<typeof claimDue> {
  return tx.db
    .query<{ lane: string }, []>('SELECT DISTINCT lane FROM recipients WHERE next_at IS NOT NULL ORDER BY lane')
    .all()
    .filter(({ lane }) => lane === to || (!isBulkLane(lane) && domainOfLane(lane) === to))
    .flatMap(({ lane }) => claimDue(tx, lane, due))
}
