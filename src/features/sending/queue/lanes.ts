/**
 * @module Names the lanes of the mail queue, and reads account, domain and kind from a name. Never routes and never
 * claims.
 *
 * A lane is the mail of one account to one domain, to the sandbox or to the simulator, so that no account waits behind
 * the mail of another. Its name is the account's row id, `:`, and the domain, `sandbox` or `simulator`; mail of streams with
 * another priority than normal has the prefix `high:` or `low:`, broadcast mail the prefix `bulk:`. Mail of a stream with
 * a pool of outgoing addresses has the stream's row id before the domain, so that it waits for its own addresses only.
 * So the class and the stream of mail are fixed at acceptance, and the queue reads them from the name.
 */
import type { StreamPriority } from '#features/setup/streams/streams.ts'
import type { Config } from '#platform/settings/config.ts'

/** Destination of mail that only the capture server receives. It has no dot, so no domain has this name. */
export const SANDBOX_LANE = 'sandbox'

/** Destination of mail to the simulator. It has no dot either. */
export const SIMULATOR_LANE = 'simulator'

/** The domain whose mail goes to the simulator, in lower case. */
export const simulatorDomain = ({ hostname }: Pick<Config, 'hostname'>): string => `sim.${hostname.toLowerCase()}`

/** Which lanes of an account go first: its own lanes in this order, and bulk after the ordinary lanes of all accounts. */
export type LaneClass = StreamPriority | 'bulk'

const CLASS_ORDER: readonly LaneClass[] = ['high', 'normal', 'low', 'bulk']

/** Other names begin with a row id, so the prefixes are unambiguous. Domains have no colon. */
export const LANE_PREFIXES: Readonly<Record<LaneClass, string>> = {
  high: 'high:',
  normal: '',
  low: 'low:',
  bulk: 'bulk:',
}

export interface LaneMail {
  readonly accountId: number
  /** The recipient's domain, in lower case. */
  readonly domain: string
  /** Whether the mail never leaves this machine. */
  readonly sandbox: boolean
  readonly simulatorDomain: string
  readonly laneClass: LaneClass
  /** Row id of its stream; undefined unless the stream has a pool of outgoing addresses. */
  readonly streamId?: number | undefined
}

/**
 * The lane of a recipient: `7:example.com`, `7:sandbox`, `7:simulator`, `high:7:example.com`, `bulk:7:example.com`,
 * `7:12:example.com` with a stream. Mail that never leaves this machine needs no address.
 */
export function laneOf({ accountId, domain, sandbox, laneClass, simulatorDomain, streamId }: LaneMail): string {
  const ofAccount = `${LANE_PREFIXES[laneClass]}${accountId}:`
  if (domain === simulatorDomain) return ofAccount + SIMULATOR_LANE
  if (sandbox) return ofAccount + SANDBOX_LANE
  return `${ofAccount}${streamId === undefined ? '' : `${streamId}:`}${domain}`
}

/** Whether the lane carries broadcast mail, which yields to other lanes. */
export const isBulkLane = (lane: string): boolean => lane.startsWith(LANE_PREFIXES.bulk)

/** Rank of the lane among those of its account: lower ones go first. */
export const rankOfLane = (lane: string): number => rankOfClass(classOfLane(lane))

export const rankOfClass = (laneClass: LaneClass): number => CLASS_ORDER.indexOf(laneClass)

export const classOfLane = (lane: string): LaneClass =>
  CLASS_ORDER.find((name) => LANE_PREFIXES[name] !== '' && lane.startsWith(LANE_PREFIXES[name])) ?? 'normal'

/** The destination of a lane: the recipients' domain, `SANDBOX_LANE` or `SIMULATOR_LANE`. */
export const domainOfLane = (lane: string): string => lane.slice(lane.lastIndexOf(':') + 1)

export const accountOfLane = (lane: string): number => {
  const start = startOfAccount(lane)
  return Number(lane.slice(start, lane.indexOf(':', start)))
}

/** Row id of the lane's stream; undefined unless that had a pool of outgoing addresses when the mail was accepted. */
export const streamOfLane = (lane: string): number | undefined => {
  const start = lane.indexOf(':', startOfAccount(lane)) + 1
  const end = lane.lastIndexOf(':')
  return end > start ? Number(lane.slice(start, end)) : undefined
}

const startOfAccount = (lane: string): number => LANE_PREFIXES[classOfLane(lane)].length

/** What the names of an account's lanes begin with, in the order of the names. */
export const toLanePrefixes = (accountId: number): readonly string[] =>
  Object.values(LANE_PREFIXES)
    .map((prefix) => `${prefix}${accountId}:`)
    .sort()

/**
 * A lane for display: `example.com (Acme)`, `example.com (high priority of Acme)`, `example.com (broadcast of Acme)`,
 * `example.com (Acme, stream with a pool)`.
 */
export const laneLabel = (lane: string, account: string | null): string =>
  `${domainOfLane(lane)} (${LABELS[classOfLane(lane)]}${account ?? 'a deleted account'}${streamOfLane(lane) === undefined ? '' : ', stream with a pool'})`

const LABELS: Readonly<Record<LaneClass, string>> = {
  high: 'high priority of ',
  normal: '',
  low: 'low priority of ',
  bulk: 'broadcast of ',
}
