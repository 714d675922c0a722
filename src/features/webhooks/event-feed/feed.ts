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
export const MAX_PAGE_LENGTH = 2 * MiB

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

export interface FeedBatch {
  readonly events: readonly FeedEvent[]
  /** All events up to here were examined. */
  readonly nextAfter: number
  /** Length of the data of its events. */
  readonly characters: number
}

export interface FeedRequest {
  readonly after: number
  readonly upTo: number
  readonly types: TypeMask
  readonly limit: number
  /** The batch ends early when the data of its events exceeds this length. */
  readonly characters?: number
}

/**
 * The first events of the requested types with `after < seq <= upTo`: a batch of some milliseconds, which may be empty
 * although more events follow.
 */
export function readFeed(app: Pick<App, 'db' | 'keys'>, owner: EventOwner, query: FeedRequest): FeedBatch {
  const start = skipGap(app.db, owner.accountId, query.after, query.upTo)
  const range = { after: start, upTo: Math.min(query.upTo, start + MAX_EXAMINED_PER_BATCH) }
  const { after, ...batch } = readBatch(app, owner, { ...query, ...range }, 'forwards')
  return { ...batch, nextAfter: leaveGap(app.db, owner.accountId, after) }
}

/** Reads until a limit is reached. Returns the part of the range that is not examined yet. */
function readBatch(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  query: FeedRequest,
  direction: 'forwards' | 'backwards',
) {
  const { types, characters: maxCharacters = MAX_PAGE_LENGTH } = query
  const { page, pageBackwards } = sql(app.db)
  const statement = direction === 'forwards' ? page : pageBackwards
  const limit = Math.min(query.limit, MAX_EVENTS_PER_BATCH)
  const events: FeedEvent[] = []
  let { after, upTo } = query
  let characters = 0
  while (after < upTo && events.length < limit && characters < maxCharacters) {
    const max = Math.min(ROWS_PER_QUERY, limit - events.length)
    const rows = statement.all(owner.accountId, after, upTo, types, max)
    for (const row of rows) {
      events.push(toFeedWire(row, owner, app))
      characters += row.data?.length ?? 0
    }
    const last = rows.length === max ? rows.at(-1)?.seq : undefined
    if (direction === 'forwards') after = last ?? upTo
    else upTo = last === undefined ? after : last - 1
  }
  return { events, characters, after, upTo }
}

/** A position after which a reader may continue: never one that `parseAfter` rejects because of a gap. */
const leaveGap = (db: Database, accountId: number, position: number): number =>
  listGaps(db, accountId).find(({ afterSeq, untilSeq }) => position > afterSeq && position < untilSeq)?.untilSeq ??
  position

/** The position before the next event after a position, at most `upTo`: gaps are not searched. */
const skipGap = (db: Database, accountId: number, after: number, upTo: number): number =>
  Math.min(upTo, (sql(db).after.get(accountId, after)?.seq ?? upTo + 1) - 1)

/** The newest event up to a position; 0 if there is none. */
export const findNewestUpTo = (db: Database, accountId: number, upTo: number): number =>
  sql(db).upTo.get(accountId, upTo)?.seq ?? 0

/** The newest events with `after < seq <= upTo`, newest first: a batch of some milliseconds, like `readFeed`. */
export function readFeedBackwards(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  query: FeedRequest,
): Omit<FeedBatch, 'nextAfter'> & {
  /** All events from here on were examined. */
  readonly position: number
} {
  const newest = Math.max(query.after, findNewestUpTo(app.db, owner.accountId, query.upTo))
  const range = { after: Math.max(query.after, newest - MAX_EXAMINED_PER_BATCH), upTo: newest }
  const { upTo, ...batch } = readBatch(app, owner, { ...query, ...range }, 'backwards')
  return { ...batch, position: upTo + 1 }
}

const toFeedWire = (row: Row, owner: EventOwner, { keys }: Pick<App, 'keys'>): FeedEvent => {
  const emailId = row.emailUuid === null ? null : formatUuid(row.emailUuid)
  return {
    seq: row.seq,
    ...toEventWire({ ...row, type: toEventType(row.type), isSandbox: row.sandbox === 1 }, emailId, owner, keys),
  }
}

/** The largest accepted number: enough digits for any feed. */
export const MAX_SEQ = 999_999_999_999_999

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

/**
 * Parses a comma-separated list of types; a missing list means all types. Throws 422 `unknown_event`, which lists the
 * known types, for an unknown one.
 */
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

export interface ReadPage {
  /** The JSON text of each event. */
  readonly events: readonly string[]
  readonly nextAfter: number
  readonly firstSeq: number
  readonly lastSeq: number
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
  query: { readonly after: string | undefined; readonly types: TypeMask; readonly limit: number },
  awaitTurn: () => Promise<void>,
): Promise<ReadPage> {
  for (;;) {
    const range = readFeedRange(app.db, owner.accountId)
    const { firstSeq, lastSeq } = range
    const after = parseAfter('after', query.after, range)
    const start = skipGap(app.db, owner.accountId, after, lastSeq)
    const page = await readBatches(
      app,
      owner,
      { ...query, after: start, upTo: Math.min(lastSeq, start + MAX_EXAMINED) },
      awaitTurn,
    )
    // Nothing was examined although there were events: they were deleted before the first batch was read, so the feed
    // now starts later.
    if (page.nextAfter > after || after === lastSeq) return { ...page, firstSeq, lastSeq }
  }
}

async function readBatches(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  { after, upTo, types, limit }: FeedRequest,
  awaitTurn: () => Promise<void>,
): Promise<{ readonly events: string[]; readonly nextAfter: number }> {
  const events: string[] = []
  let position = after
  let characters = 0
  while (position < upTo && events.length < limit && characters < MAX_PAGE_LENGTH) {
    await awaitTurn()
    if (position < readFeedRange(app.db, owner.accountId).firstSeq - 1) break
    const remaining = { limit: limit - events.length, characters: MAX_PAGE_LENGTH - characters }
    const batch = readFeed(app, owner, { after: position, upTo, types, ...remaining })
    for (const event of batch.events) events.push(JSON.stringify(event))
    position = batch.nextAfter
    characters += batch.characters
  }
  return { events, nextAfter: position }
}
