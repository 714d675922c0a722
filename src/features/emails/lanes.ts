/**
 * @module Names of the lanes of the mail queue, and what they say: the domain that mail goes to, and whether it waits behind all others. Never
 * routes and never claims.
 *
 * lane: a recipient's domain; for mail of broadcasts `bulk:`, the account's row id, `:` and the domain, so that no account waits behind the broadcast
 * of another; or the sandbox.
 */

/** Lane of mail that only the capture server receives. No domain has this name: it has no dot. */
export const SANDBOX_LANE = 'sandbox'

/** No domain has a colon. */
const BULK_PREFIX = 'bulk:'

export interface LaneMail {
  readonly accountId: number
  /** The recipient's domain, in lower case. */
  readonly domain: string
  /** Whether only the capture server receives it. */
  readonly sandbox: boolean
  /** Whether it is of a broadcast. */
  readonly isBulk: boolean
}

/** The lane in which a recipient waits. A sandbox email of a broadcast waits in the account's bulk lane of the sandbox. */
export function laneOf({ accountId, domain, sandbox, isBulk }: LaneMail): string {
  const destination = sandbox ? SANDBOX_LANE : domain
  return isBulk ? `${BULK_PREFIX}${accountId}:${destination}` : destination
}

/** Whether the lane's mail gives way to that of the lanes that are not bulk. */
export const isBulkLane = (lane: string): boolean => lane.startsWith(BULK_PREFIX)

/** Where a lane's mail goes: the recipients' domain, or `SANDBOX_LANE`. */
export const domainOfLane = (lane: string): string => (isBulkLane(lane) ? lane.slice(lane.lastIndexOf(':') + 1) : lane)

/** Row id of the account whose broadcasts wait in a bulk lane; undefined for lanes that all accounts share. */
export const accountOfLane = (lane: string): number | undefined =>
  isBulkLane(lane) ? Number(lane.slice(BULK_PREFIX.length, lane.lastIndexOf(':'))) : undefined

/** A lane for people: `example.com (broadcast of Acme)`. */
export const laneLabel = (lane: string, account: string | null): string =>
  isBulkLane(lane) ? `${domainOfLane(lane)} (broadcast of ${account ?? 'a deleted account'})` : lane
