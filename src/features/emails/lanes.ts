/**
 * @module Names of the lanes of the mail queue, and what they say: the domain that mail goes to, and whether it waits behind all others. Never
 * routes and never claims.
 *
 * lane: a recipient's domain; `bulk:` and the domain for mail of broadcasts; or the sandbox.
 */

/** Lane of mail that only the capture server receives. No domain has this name: it has no dot. */
export const SANDBOX_LANE = 'sandbox'

/** Begins the name of a bulk lane. No domain has a colon. */
export const BULK_PREFIX = 'bulk:'

export interface LaneMail {
  /** The recipient's domain, in lower case. */
  readonly domain: string
  /** Whether only the capture server receives it. */
  readonly sandbox: boolean
  /** Whether it is of a broadcast. */
  readonly isBulk: boolean
}

/** The lane in which a recipient waits. A sandbox email of a broadcast waits in the bulk lane of the sandbox. */
export function laneOf({ domain, sandbox, isBulk }: LaneMail): string {
  const destination = sandbox ? SANDBOX_LANE : domain
  return isBulk ? BULK_PREFIX + destination : destination
}

/** Whether the lane's mail gives way to that of the lanes that are not bulk. */
export const isBulkLane = (lane: string): boolean => lane.startsWith(BULK_PREFIX)

/** Where a lane's mail goes: the recipients' domain, or `SANDBOX_LANE`. */
export const domainOfLane = (lane: string): string => (isBulkLane(lane) ? lane.slice(BULK_PREFIX.length) : lane)

/** A lane for people: `example.com (broadcast)`. */
export const laneLabel = (lane: string): string => (isBulkLane(lane) ? `${domainOfLane(lane)} (broadcast)` : lane)
