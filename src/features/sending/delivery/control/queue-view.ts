/** @module What waits for delivery, why and until when, for operators. Reads only. */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { describeRestored, isMailRestored, readFence } from '#features/core/fence/restored.ts'
import { accountOfLane, domainOfLane } from '#features/sending/queue/lanes.ts'
import {
  countOpen,
  findRetryTime,
  joinLanes,
  type OpenLane,
  QUEUE_START,
  type QueuePosition,
} from '#features/sending/queue/queue.ts'
import {
  describeHold,
  findEmailHold,
  findHold,
  hasProviderRules,
  type QueueRule,
} from '#features/sending/queue/queue-rules.ts'
import { statusName } from '#features/sending/queue/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { createPacedReader } from '#platform/queue/paced-reader.ts'
import { formatRelativeTime, truncate } from '#platform/text.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { findLaneProvider } from '../providers/lane-provider.ts'
import type { DeliveryScheduler } from '../schedule/scheduler.ts'
import { NO_SERVICE_REASON, NOT_DUE_REASON } from '../schedule/waits.ts'

interface RecipientRow {
  emailId: number
  uuid: Uint8Array
  account: string
  lane: string
  recipient: string
  status: number
  attempts: number
  nextAt: number
  lastError: string | null
}

const sql = prepareStatements((db) => ({
  // Reads one lane, so that the queue's index returns the earliest recipients without a sort.
  ofLane: db.prepare<RecipientRow, [string, number]>(
    `SELECT emails.id AS emailId, emails.uuid, accounts.name AS account, lane, address AS recipient, recipients.status, attempts, next_at AS nextAt, last_error AS lastError
     FROM recipients JOIN emails ON emails.id = email_id JOIN accounts ON accounts.id = account_id
     WHERE lane = ? AND next_at IS NOT NULL ORDER BY next_at LIMIT ?`,
  ),
}))

const MAX_ERROR_LENGTH = 120

/** Every lane with open mail, the earliest first. Reads the whole index of open mail, in batches. */
export async function readLanes({ db }: Pick<App, 'db'>): Promise<OpenLane[]> {
  const lanes: OpenLane[] = []
  for (let place: QueuePosition | undefined = QUEUE_START; place; await yieldToEventLoop()) {
    const counted = countOpen(db, place)
    joinLanes(lanes, counted.lanes)
    place = counted.place
  }
  return lanes.sort(compareLanes)
}

/** The order of lanes for display: the earliest first. */
export const compareLanes = (a: Pick<OpenLane, 'firstAt' | 'lane'>, b: Pick<OpenLane, 'firstAt' | 'lane'>): number =>
  a.firstAt - b.firstAt || (a.lane < b.lane ? -1 : a.lane > b.lane ? 1 : 0)

/** The reader of the lanes of an app; what it returns may be some seconds old. */
export const getLaneReader = perOwner((app: App) => createPacedReader(app.clock, seconds(1), () => readLanes(app)))

/** Lanes described in one tick of the event loop; this takes some 5 ms. */
const DESCRIBED_LANES = 100

/** How long to look up providers; the reasons of lanes are shown without them, too. */
const PROVIDER_LOOKUP_MS = seconds(2)
/** Lanes whose providers are looked up; the others show their next attempt. */
const MAX_LOOKED_UP = 100

/** The holds of providers by lane, also for lanes not routed yet. Looks up DNS only while a rule names a provider. */
export async function findProviderHolds(
  app: Pick<App, 'db' | 'clock' | 'config' | 'resolver'>,
  lanes: readonly string[],
): Promise<ReadonlyMap<string, QueueRule>> {
  const holds = new Map<string, QueueRule>()
  if (!hasProviderRules(app.db)) return holds
  const lookups = lanes.slice(0, MAX_LOOKED_UP).map(async (lane) => {
    const hold = findHold(app.db, lane, await findLaneProvider(app, lane))
    if (hold) holds.set(lane, hold)
  })
  const timedOut = Promise.withResolvers<void>()
  const timer = app.clock.after(PROVIDER_LOOKUP_MS, timedOut.resolve)
  await Promise.race([Promise.all(lookups), timedOut.promise])
  timer.cancel()
  return holds
}

/**
 * Why the mail of each lane waits.
 * @param scheduler undefined when this process delivers no mail
 */
export async function describeLanes(
  app: Pick<App, 'db' | 'clock' | 'config' | 'resolver'>,
  scheduler: DeliveryScheduler | undefined,
  lanes: readonly OpenLane[],
): Promise<string[]> {
  const now = app.clock.now()
  const notDue = lanes.filter(({ firstAt }) => firstAt > now).map(({ lane }) => lane)
  const holds = await findProviderHolds(app, notDue)
  const reasons: string[] = []
  for (const lane of lanes) {
    if (reasons.length > 0 && reasons.length % DESCRIBED_LANES === 0) await yieldToEventLoop()
    reasons.push(describeWait(app, scheduler, lane, holds.get(lane.lane)))
  }
  return reasons
}

/** If the lane is not due yet, the reason is that of its earliest recipient. */
function describeWait(
  { db, clock }: Pick<App, 'db' | 'clock'>,
  scheduler: DeliveryScheduler | undefined,
  { lane, firstAt }: OpenLane,
  providerHold: QueueRule | undefined,
): string {
  const now = clock.now()
  const reason = scheduler?.describeWait(lane, firstAt) ?? (firstAt > now ? NOT_DUE_REASON : NO_SERVICE_REASON)
  if (reason !== NOT_DUE_REASON) return reason
  const [first] = sql(db).ofLane.all(lane, 1)
  if (!first) return NOT_DUE_REASON
  const stop = findStop(db, lane, first.emailId, providerHold)
  if (stop) return stop.reason
  if (statusName(first.status) === 'scheduled') return 'scheduled'
  const next = `next attempt ${formatRelativeTime(findRetryTime(db, lane, first.nextAt), now)}`
  return first.lastError === null
    ? next
    : `deferred: ${truncate(first.lastError, MAX_ERROR_LENGTH).replace(/\.$/, '')}, ${next}`
}

/** What an operator must end before the next attempt: the fence of restored data, or a hold. */
export interface Stop {
  readonly waitsFor: 'fence' | 'hold'
  readonly reason: string
}

/**
 * What stops an email in a lane.
 * @param providerHold the lane's entry of `findProviderHolds`
 */
export function findStop(
  db: Database,
  lane: string,
  emailId: number,
  providerHold: QueueRule | undefined,
): Stop | undefined {
  const fence = readFence(db)
  const mail = { emailId, accountId: accountOfLane(lane), domain: domainOfLane(lane) }
  if (fence && isMailRestored(fence, mail)) return { waitsFor: 'fence', reason: describeRestored(fence) }
  const hold = findEmailHold(db, emailId) ?? findHold(db, lane) ?? providerHold
  return hold && { waitsFor: 'hold', reason: describeHold(hold) }
}

/**
 * The earliest recipients of a lane.
 * @param providerHold the lane's entry of `findProviderHolds`
 */
export function listLaneRecipients(db: Database, lane: string, limit: number, providerHold: QueueRule | undefined) {
  return sql(db)
    .ofLane.all(lane, limit)
    .map((row) => {
      const stop = findStop(db, row.lane, row.emailId, providerHold)
      return {
        email_id: formatUuid(row.uuid),
        account: row.account,
        lane: row.lane,
        recipient: row.recipient,
        status: statusName(row.status),
        attempts: row.attempts,
        next_at: isoTime(findRetryTime(db, row.lane, row.nextAt)),
        waits_for: stop?.waitsFor ?? null,
        last_error: stop?.waitsFor === 'fence' ? stop.reason : row.lastError,
      }
    })
}
