/**
 * @module Names the lanes of the mail queue, and reads account, domain and kind from a name. Never routes and never
 * claims.
 *
 * A lane is the mail of one account to one domain, to the sandbox or to the simulator, so that no account waits behind
 * the mail of another. Its name is the account's row id, `:`, and the domain, `sandbox` or `simulator`; broadcast mail
 * has the prefix `bulk:`.
 */
import type { Config } from '#platform/config.ts'

/** Destination of mail that only the capture server receives. It has no dot, so no domain has this name. */
export const SANDBOX_LANE = 'sandbox'

/** Destination of mail to the simulator. It has no dot either. */
export const SIMULATOR_LANE = 'simulator'

/** The domain whose mail goes to the simulator, in lower case. */
export const simulatorDomain = ({ hostname }: Pick<Config, 'hostname'>): string => `sim.${hostname.toLowerCase()}`

/** All other names begin with a row id, so the prefix is unambiguous. Domains have no colon. */
const BULK_PREFIX = 'bulk:'

export interface LaneMail {
  readonly accountId: number
  /** The recipient's domain, in lower case. */
  readonly domain: string
  /** Whether the mail never leaves this machine. */
  readonly sandbox: boolean
  readonly simulatorDomain: string
  /** Whether the mail belongs to a broadcast. */
  readonly isBulk: boolean
}

/** The lane of a recipient: `7:example.com`, `7:sandbox`, `7:simulator`, `bulk:7:example.com`. */
export const laneOf = ({ accountId, domain, sandbox, isBulk, simulatorDomain }: LaneMail): string =>
  `${isBulk ? BULK_PREFIX : ''}${accountId}:${domain === simulatorDomain ? SIMULATOR_LANE : sandbox ? SANDBOX_LANE : domain}`

/** Whether the lane carries broadcast mail, which yields to other lanes. */
export const isBulkLane = (lane: string): boolean => lane.startsWith(BULK_PREFIX)

/** The destination of a lane: the recipients' domain, `SANDBOX_LANE` or `SIMULATOR_LANE`. */
export const domainOfLane = (lane: string): string => lane.slice(lane.lastIndexOf(':') + 1)

/** Row id of the lane's account. */
export const accountOfLane = (lane: string): number =>
  Number(lane.slice(isBulkLane(lane) ? BULK_PREFIX.length : 0, lane.lastIndexOf(':')))

/** A lane for display: `example.com (Acme)`, `example.com (broadcast of Acme)`. */
export const laneLabel = (lane: string, account: string | null): string =>
  `${domainOfLane(lane)} (${isBulkLane(lane) ? 'broadcast of ' : ''}${account ?? 'a deleted account'})`
