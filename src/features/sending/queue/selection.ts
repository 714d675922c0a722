/**
 * @module Finds the open mail that an operator selects by account, domain or email. Reads a limited number of index
 * entries at a time, in the order of the queue, so that a caller can continue after a place. Never changes anything.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { accountOfLane, domainOfLane, toLanePrefixes } from './lanes.ts'
import type { QueuePosition } from './queue.ts'

/** Selects the mail that matches every field that is given. */
export interface MailSelector {
  /** Row id of the account. */
  readonly accountId?: number | undefined
  /** The recipients' domain in A-labels, or `sandbox`. */
  readonly domain?: string | undefined
  /** The name of the provider of the recipients' domain; the caller looks up the providers of lanes. */
  readonly provider?: string | undefined
  /** Row id of the email. */
  readonly emailId?: number | undefined
}

/** The providers of lanes; undefined: the lane has none. */
export type LaneProviders = ReadonlyMap<string, string | undefined>

/** An open recipient that is selected. */
export interface SelectedRecipient extends QueuePosition {
  readonly emailId: number
  /** Index into STATUSES. */
  readonly status: number
}

/** Lanes examined at once, whether they match or not; this takes some 2 ms. */
const MAX_EXAMINED_LANES = 500
/** After every domain of a lane: names of domains have no character above it. */
const LAST_DOMAIN = '\u007f'

const COLUMNS = 'id, email_id AS emailId, lane, next_at AS nextAt, status'

const sql = prepareStatements((db) => ({
  ofEmail: db.prepare<SelectedRecipient, [number]>(
    `SELECT ${COLUMNS} FROM recipients WHERE email_id = ? AND next_at IS NOT NULL`,
  ),
  ofLane: db.prepare<SelectedRecipient, [string, number, number, number]>(
    `SELECT ${COLUMNS} FROM recipients INDEXED BY recipients_due
     WHERE next_at IS NOT NULL AND lane = ? AND (next_at, id) > (?, ?) ORDER BY next_at, id LIMIT ?`,
  ),
  laneBetween: db.prepare<SelectedLane, [string, string]>(
    `SELECT lane, next_at AS firstAt FROM recipients INDEXED BY recipients_due
     WHERE next_at IS NOT NULL AND lane > ? AND lane < ? ORDER BY lane, next_at LIMIT 1`,
  ),
}))

/** A lane with open mail that is selected. */
export interface SelectedLane {
  readonly lane: string
  /** The earliest due time of its recipients. */
  readonly firstAt: Millis
}

/** Whether a selector without an email selects the mail of a lane, whatever its provider. */
const isLaneSelected = ({ accountId, domain }: MailSelector, lane: string): boolean =>
  (accountId === undefined || accountOfLane(lane) === accountId) &&
  (domain === undefined || domainOfLane(lane) === domain)

/** The first lane after another one; of an account, only its own lanes are examined. */
function findLaneAfter(db: Database, { accountId }: MailSelector, after: string): SelectedLane | undefined {
  const prefixes = accountId === undefined ? [''] : toLanePrefixes(accountId)
  for (const prefix of prefixes) {
    const found = sql(db).laneBetween.get(after > prefix ? after : prefix, `${prefix}${LAST_DOMAIN}`)
    if (found) return found
  }
  return undefined
}

/**
 * Examines some lanes after another one; returns up to `limit` that a selector without an email selects, whatever their
 * provider. `next` is the lane after which to continue; undefined at the end.
 */
export function listSelectedLanes(
  db: Database,
  selector: MailSelector,
  after: string,
  limit = MAX_EXAMINED_LANES,
): { lanes: SelectedLane[]; next: string | undefined } {
  const lanes: SelectedLane[] = []
  let at = after
  for (let examined = 0; examined < MAX_EXAMINED_LANES && lanes.length < limit; examined++) {
    const found = findLaneAfter(db, selector, at)
    if (!found) return { lanes, next: undefined }
    if (isLaneSelected(selector, found.lane)) lanes.push(found)
    at = found.lane
  }
  return { lanes, next: at }
}

/**
 * Reads up to `limit` selected recipients after a place, and examines a limited number of lanes, so it may return none
 * although there are more. `place` is where to continue; undefined at the end. All recipients of an email are read at
 * once.
 * @param providers of the next lanes, if the selector names a provider: reading ends at the first lane that it lacks
 */
export function readSelected(
  db: Database,
  selector: MailSelector,
  after: QueuePosition,
  limit: number,
  providers?: LaneProviders,
): { recipients: SelectedRecipient[]; place: QueuePosition | undefined } {
  if (selector.emailId !== undefined) {
    const found = sql(db).ofEmail.all(selector.emailId)
    return { recipients: found.filter(({ lane }) => isLaneSelected(selector, lane)), place: undefined }
  }
  const recipients: SelectedRecipient[] = []
  let at = after
  for (let examined = 0; examined < MAX_EXAMINED_LANES; examined++) {
    const isSelected = at.lane !== '' && isLaneSelected(selector, at.lane)
    if (isSelected && providers && !providers.has(at.lane)) return { recipients, place: at }
    if (isSelected && (!providers || providers.get(at.lane) === selector.provider)) {
      recipients.push(...sql(db).ofLane.all(at.lane, at.nextAt, at.id, limit - recipients.length))
      const last = recipients.at(-1)
      if (last && recipients.length >= limit)
        return { recipients, place: { lane: last.lane, nextAt: last.nextAt, id: last.id } }
    }
    const next = findLaneAfter(db, selector, at.lane)
    if (!next) return { recipients, place: undefined }
    at = { lane: next.lane, nextAt: 0, id: 0 }
  }
  return { recipients, place: at }
}
