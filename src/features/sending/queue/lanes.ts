/**
 * @module Names the lanes of the mail queue, and reads account, domain and kind from a name. Never routes and never
 * claims.
 *
 * A lane is an account's mail to one domain or to the sandbox, so that nobody waits behind the mail of another account:
 * the account's row id, `:` and the domain; mail of broadcasts has `bulk:` before it.
 */

/** Destination of mail that only the capture server receives. No domain has this name: it has no dot. */
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

/** The lane in which a recipient waits: `7:example.com`, `7:sandbox`, `bulk:7:example.com`. */
export const laneOf = ({ accountId, domain, sandbox, isBulk }: LaneMail): string =>
  `${isBulk ? BULK_PREFIX : ''}${accountId}:${sandbox ? SANDBOX_LANE : domain}`

/** Whether the lane's mail gives way to that of the lanes that are not bulk. */
export const isBulkLane = (lane: string): boolean => lane.startsWith(BULK_PREFIX)

/** Where a lane's mail goes: the recipients' domain, or `SANDBOX_LANE`. */
export const domainOfLane = (lane: string): string => lane.slice(lane.lastIndexOf(':') + 1)

/** Row id of the account whose mail waits in a lane. */
export const accountOfLane = (lane: string): number =>
  Number(lane.slice(isBulkLane(lane) ? BULK_PREFIX.length : 0, lane.lastIndexOf(':')))

/** A lane for people: `example.com (Acme)`, `example.com (broadcast of Acme)`. */
export const laneLabel = (lane: string, account: string | null): string =>
  `${domainOfLane(lane)} (${isBulkLane(lane) ? 'broadcast of ' : ''}${account ?? 'a deleted account'})`
