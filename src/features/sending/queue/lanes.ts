/**
 * @module Names the lanes of the mail queue, and reads account, domain and kind from a name. Never routes and never
 * claims.
 *
 * A lane is the mail of one account to one domain or to the sandbox, so that no account waits behind the mail of
 * another. Its name is the account's row id, `:`, and the domain or `sandbox`; broadcast mail has the prefix `bulk:`.
 */

/** Destination of mail that only the capture server receives. It has no dot, so no domain has this name. */
export const SANDBOX_LANE = 'sandbox'

/** All other names begin with a row id, so the prefix is unambiguous. Domains have no colon. */
const BULK_PREFIX = 'bulk:'

export interface LaneMail {
  readonly accountId: number
  /** The recipient's domain, in lower case. */
  readonly domain: string
  /** Whether only the capture server receives the mail. */
  readonly sandbox: boolean
  /** Whether the mail belongs to a broadcast. */
  readonly isBulk: boolean
}

/** The lane of a recipient: `7:example.com`, `7:sandbox`, `bulk:7:example.com`. */
export const laneOf = ({ accountId, domain, sandbox, isBulk }: LaneMail): string =>
  `${isBulk ? BULK_PREFIX : ''}${accountId}:${sandbox ? SANDBOX_LANE : domain}`

/** Whether the lane carries broadcast mail, which yields to other lanes. */
export const isBulkLane = (lane: string): boolean => lane.startsWith(BULK_PREFIX)

/** The destination of a lane: the recipients' domain, or `SANDBOX_LANE`. */
export const domainOfLane = (lane: string): string => lane.slice(lane.lastIndexOf(':') + 1)

/** Row id of the lane's account. */
export const accountOfLane = (lane: string): number =>
  Number(lane.slice(isBulkLane(lane) ? BULK_PREFIX.length : 0, lane.lastIndexOf(':')))

/** What the names of an account's lanes begin with, in the order of the names. */
export const toLanePrefixes = (accountId: number): readonly [string, string] => [
  `${accountId}:`,
  `${BULK_PREFIX}${accountId}:`,
]

/** A lane for display: `example.com (Acme)`, `example.com (broadcast of Acme)`. */
export const laneLabel = (lane: string, account: string | null): string =>
  `${domainOfLane(lane)} (${isBulkLane(lane) ? 'broadcast of ' : ''}${account ?? 'a deleted account'})`
