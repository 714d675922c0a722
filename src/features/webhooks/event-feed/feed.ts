/**
 * @module Reads the event feed: all events of an account in one gap-free order, in limited batches, by primary key.
 * Checks where a reader may start. Events that it reads may not be durable yet; the caller waits until they are before
 * it returns them to a client.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { type EventOwner, type FeedEvent, toEventWire } from '#features/core/events/model.ts'
import {
  EVENT_TYPES,
  type EventGap,
  type EventType,
  listGaps,
  readLastSeq,
  toEventCode,
  toEventType,
} from '#features/core/events/record.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { parseQueryInteger } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { MiB } from '#platform/units.ts'

interface Row {
  seq: number
  type: number
  at: number
  data: string | null
  emailUuid: Uint8Array | null
  sandbox: number | null
  recipient: string | null
}

/** A page of rows between two numbers. The limits on seq bound the cost, even when few events have a requested type. */
const pageSql = (order: 'ASC' | 'DESC'): string =>
  `SELECT seq, type, at, data, emails.uuid AS emailUuid, sandbox, recipients.address AS recipient
   FROM events LEFT JOIN emails ON emails.id = events.email_id LEFT JOIN recipients ON recipients.id = events.recipient_id
   WHERE events.account_id = ? AND seq > ? AND seq <= ? AND (1 << type) & ? ORDER BY seq ${order} LIMIT ?`

const sql = prepareStatements((db) => ({
  first: db.prepare<{ seq: number }, [number]>('SELECT seq FROM events WHERE account_id = ? ORDER BY seq LIMIT 1'),
  after: db.prepare<{ seq: number }, [number, number]>(
    'SELECT seq FROM events WHERE account_id = ? AND seq > ? ORDER BY seq LIMIT 1',
  ),
  upTo: db.prepare<{ seq: number }, [number, number]>(
    'SELECT seq FROM events WHERE account_id = ? AND seq <= ? ORDER BY seq DESC LIMIT 1',
  ),
  page: db.prepare<Row, [number, number, number, number, number]>(pageSql('ASC')),
  pageBackwards: db.prepare<Row, [number, number, number, number, number]>(pageSql('DESC')),
}))

/** One bit per requested type, at the position of its code. */
export type TypeMask = number

export const ALL_TYPES: TypeMask = (1 << EVENT_TYPES.length) - 1

/** Maximum number of events that one call examines, so that a rare type costs no more than a frequent one. */
export const MAX_EXAMINED = 10_000
/** Maximum number of events that one batch examines before it yields: some milliseconds of work. */
const MAX_EXAMINED_PER_BATCH = 1000
const MAX_EVENTS_PER_BATCH = 100
/** Rows per query; the size limit is checked after each query. */
const ROWS_PER_QUERY = 20
/** A page ends early when the data of its events exceeds this length. */
const MAX_PAGE_LENGTH = 2 * MiB

/** The available range of an account's feed. */
export interface FeedRange {
  /** Number of the oldest retained event. When none is retained, the number that the next event will get. */
  readonly firstSeq: number
  /** Number of the newest event; 0 before the first event. */
  readonly lastSeq: number
  /** The ranges of numbers that no event has, because the data were restored. */
  readonly gaps: readonly EventGap[]
}

/** The range of recorded events; the newest may not be durable yet. */
export function readFeedRange(db: Database, accountId: number): FeedRange {
  const lastSeq = readLastSeq(db, accountId)
  return { firstSeq: sql(db).first.get(accountId)?.seq ?? lastSeq + 1, lastSeq, gaps: listGaps(db, accountId) }
}

export const ORDERS = ['oldest', 'newest'] as const
export type Order = (typeof ORDERS)[number]

/** Events with `after < seq <= upTo`. */
interface SeqRange {
  readonly after: number
  readonly upTo: number
}

export interface FeedRequest extends SeqRange {
  readonly types: TypeMask
  readonly limit: number
  /** The batch ends early when the data of its events exceeds this length. */
  readonly characters?: number
}

/**
 * The first events of the requested types in a range, or the last ones, newest first, with the length of their data and
 * what is left of the range to examine: a batch of some milliseconds, which may be empty although more events follow.
 */
export function readFeed(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  query: FeedRequest,
  order: Order = 'oldest',
) {
  const { db } = app
  const { accountId } = owner
  const isForwards = order === 'oldest'
  const { types, characters: maxCharacters = MAX_PAGE_LENGTH } = query
  const statement = isForwards ? sql(db).page : sql(db).pageBackwards
  const limit = Math.min(query.limit, MAX_EVENTS_PER_BATCH)
  let after = isForwards ? skipGap(db, accountId, query.after, query.upTo) : query.after
  let upTo = isForwards ? query.upTo : Math.max(after, findNewestUpTo(db, accountId, query.upTo))
  if (isForwards) upTo = Math.min(upTo, after + MAX_EXAMINED_PER_BATCH)
  else after = Math.max(after, upTo - MAX_EXAMINED_PER_BATCH)
  const events: FeedEvent[] = []
  let characters = 0
  while (after < upTo && events.length < limit && characters < maxCharacters) {
    const max = Math.min(ROWS_PER_QUERY, limit - events.length)
    const rows = statement.all(accountId, after, upTo, types, max)
    for (const row of rows) {
      events.push(toFeedWire(row, owner, app))
      characters += row.data?.length ?? 0
    }
    const last = rows.length === max ? rows.at(-1)?.seq : undefined
    if (isForwards) after = last ?? upTo
    else upTo = last === undefined ? after : last - 1
  }
  const left = isForwards ? { after: leaveGap(db, accountId, after), upTo: query.upTo } : { after: query.after, upTo }
  return { events, characters, ...left }
}

/** A position after which a reader may continue: never one that `parseAfter` rejects because of a gap. */
const leaveGap = (db: Database, accountId: number, position: number): number =>
  listGaps(db, accountId).find(({ afterSeq, untilSeq }) => position > afterSeq && position < untilSeq)?.untilSeq ??
  position

/** The position before the next event after a position, at most `upTo`: gaps are not searched. */
const skipGap = (db: Database, accountId: number, after: number, upTo: number): number =>
  Math.min(upTo, (sql(db).after.get(accountId, after)?.seq ?? upTo + 1) - 1)

/** The newest event up to a position; 0 if there is none. */
const findNewestUpTo = (db: Database, accountId: number, upTo: number): number =>
  sql(db).upTo.get(accountId, upTo)?.seq ?? 0

const toFeedWire = (row: Row, owner: EventOwner, { keys }: Pick<App, 'keys'>): FeedEvent => {
  const emailId = row.emailUuid === null ? null : formatUuid(row.emailUuid)
  return {
    seq: row.seq,
    ...toEventWire({ ...row, type: toEventType(row.type), isSandbox: row.sandbox === 1 }, emailId, owner, keys),
  }
}

/** The largest accepted number: enough digits for any feed. */
const MAX_SEQ = 999_999_999_999_999

/** The value of `after` that stands for the newest event. */
export const LATEST = 'latest'

/**
 * The position after which a reader starts: the one in `text`, or, when it is missing, the one before the first
 * retained event. Throws 422 for an invalid number or a future event, 410 when events after the position were deleted,
 * or when the position is that of an event which a restored backup has lost.
 */
export function parseAfter(field: string, text: string | undefined, range: FeedRange): number {
  const { firstSeq, lastSeq } = range
  if (field === 'after' && text === LATEST) return lastSeq
  const after = parseQueryInteger(field, text, { fallback: firstSeq - 1, minimum: 0, maximum: MAX_SEQ })
  if (after > lastSeq)
    throw invalid(
      field,
      lastSeq === 0
        ? `There is no event ${after}; this account has no events yet, so read from 0.`
        : `There is no event ${after} yet; the last one is ${lastSeq}.`,
    )
  if (after < firstSeq - 1)
    throw new AppError(
      410,
      'events_not_kept',
      `The events after ${after} are no longer complete; read the feed from ${field}=${firstSeq - 1}.`,
      // The same fields as on a page.
      { facts: { next_after: firstSeq - 1, first_seq: firstSeq, last_seq: lastSeq } },
    )
  const gap = range.gaps.find(({ afterSeq, untilSeq }) => after > afterSeq && after < untilSeq)
  if (gap)
    throw new AppError(
      410,
      'events_not_kept',
      `The service was restored from a backup that has the events up to ${gap.afterSeq}; those from there to ${after}, which you may have read, are lost. Read the feed from ${field}=${gap.untilSeq}, and what you learnt from lost events from the API.`,
      { facts: { next_after: gap.untilSeq, first_seq: firstSeq, last_seq: lastSeq } },
    )
  return after
}

const isEventType = (name: string): name is EventType => (EVENT_TYPES as readonly string[]).includes(name)

/** Parses a comma-separated list of types; missing: all. Throws 422 `unknown_event`, which lists them. */
export function parseTypes(text: string | undefined): TypeMask {
  if (text === undefined) return ALL_TYPES
  let mask: TypeMask = 0
  for (const part of text.split(',')) {
    const name = part.trim()
    if (!isEventType(name))
      throw invalid(
        'types',
        `There is no event type "${name.slice(0, 60)}"; the types are ${EVENT_TYPES.join(', ')}.`,
        'unknown_event',
      )
    mask |= 1 << toEventCode(name)
  }
  return mask
}

export interface PageRequest {
  /** Where to start, for the oldest first. */
  readonly after?: string | undefined
  /** Where to start, for the newest first. */
  readonly before?: string | undefined
  readonly types: TypeMask
  readonly limit: number
}

/**
 * Reads a page that starts after the event that `after` names: as many batches as needed, each in its turn. The page
 * ends early when events that it has not reached are deleted during the read.
 * @param awaitTurn resolves when the next batch may be read
 * @throws like `parseAfter`
 */
export async function readPage(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  query: PageRequest,
  awaitTurn: () => Promise<void>,
) {
  for (;;) {
    const range = readFeedRange(app.db, owner.accountId)
    const { lastSeq } = range
    const after = parseAfter('after', query.after, range)
    const start = skipGap(app.db, owner.accountId, after, lastSeq)
    const wanted = { ...query, after: start, upTo: Math.min(lastSeq, start + MAX_EXAMINED) }
    const { events, after: nextAfter } = await readBatches(app, owner, wanted, 'oldest', awaitTurn)
    // Nothing was examined although there were events: they were deleted before the first batch was read, so the feed
    // now starts later.
    if (nextAfter > after || after === lastSeq) return { ...range, events, nextAfter }
  }
}

/** The same, newest first, from before the event that `before` names; null: there are no earlier events. */
export async function readNewestPage(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  { before, ...query }: PageRequest,
  awaitTurn: () => Promise<void>,
) {
  const { firstSeq, lastSeq } = readFeedRange(app.db, owner.accountId)
  const start = parseQueryInteger('before', before, { fallback: lastSeq + 1, minimum: 1, maximum: MAX_SEQ })
  const newest = findNewestUpTo(app.db, owner.accountId, Math.min(start - 1, lastSeq))
  const wanted = { ...query, after: Math.max(firstSeq - 1, newest - MAX_EXAMINED), upTo: newest }
  const { events, upTo } = await readBatches(app, owner, wanted, 'newest', awaitTurn)
  // Events that were deleted during the read are the oldest.
  const range = { ...readFeedRange(app.db, owner.accountId), lastSeq }
  return { ...range, events, nextBefore: upTo + 1 > range.firstSeq ? upTo + 1 : null }
}

/** The JSON of events: reads a range until it is examined, the page is full, or events not reached yet are deleted. */
async function readBatches(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  { after, upTo, types, limit }: FeedRequest,
  order: Order,
  awaitTurn: () => Promise<void>,
) {
  const events: string[] = []
  let left = { after, upTo }
  for (let characters = 0; left.after < left.upTo && events.length < limit && characters < MAX_PAGE_LENGTH; ) {
    await awaitTurn()
    if (order === 'oldest' && left.after < readFeedRange(app.db, owner.accountId).firstSeq - 1) break
    const remaining = { types, limit: limit - events.length, characters: MAX_PAGE_LENGTH - characters }
    const batch = readFeed(app, owner, { ...left, ...remaining }, order)
    for (const event of batch.events) events.push(JSON.stringify(event))
    left = batch
    characters += batch.characters
  }
  return { ...left, events }
}
