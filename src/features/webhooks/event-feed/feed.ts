/**
 * @module Reads the feed: every event of an account in one gap-free order, a bounded piece at a time, by primary key. Says where a reader may
 * begin. What it reads may be in a group that is not on disk yet: whoever tells it to a client waits for that first.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { type EventOwner, type FeedEvent, toEventWire } from '#features/core/events/model.ts'
import { EVENT_TYPES, type EventType, readLastSeq, toEventCode, toEventType } from '#features/core/events/record.ts'
import { createFairYield } from '#platform/clock.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { parseQueryInteger } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { SerialQueue } from '#platform/queue/serial-queue.ts'
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

const sql = prepareStatements((db) => ({
  first: db.prepare<{ seq: number }, [number]>('SELECT seq FROM events WHERE account_id = ? ORDER BY seq LIMIT 1'),
  // The bounds on seq are what it costs at most, however few are of a wanted type.
  page: db.prepare<Row, [number, number, number, number, number]>(
    `SELECT seq, type, at, data, emails.uuid AS emailUuid, sandbox, recipients.address AS recipient
     FROM events LEFT JOIN emails ON emails.id = events.email_id LEFT JOIN recipients ON recipients.id = events.recipient_id
     WHERE events.account_id = ? AND seq > ? AND seq <= ? AND (1 << type) & ? ORDER BY seq LIMIT ?`,
  ),
}))

/** A bit for each wanted type, at the position of its code. */
export type TypeMask = number

export const ALL_TYPES: TypeMask = (1 << EVENT_TYPES.length) - 1

/** Most events that one call looks at, so that a rare type costs no more than a frequent one. */
export const MAX_EXAMINED = 10_000
/** The same for what is done without letting others in between: some milliseconds. */
const MAX_EXAMINED_PER_BATCH = 1000
const MAX_EVENTS_PER_BATCH = 100
/** Read at once; after each the size is looked at. */
const ROWS_PER_QUERY = 20
/** A page ends early when what its events carry is larger. */
const MAX_PAGE_LENGTH = 2 * MiB

/** What of an account's feed there is. */
export interface FeedRange {
  /** The oldest event that is kept; the next one's number while there is none. */
  readonly firstSeq: number
  /** The newest; 0 before the first. */
  readonly lastSeq: number
}

/** Which events of an account the feed can tell, of those that were written; the newest may not be on disk yet. */
export function readFeedRange(db: Database, accountId: number): FeedRange {
  const lastSeq = readLastSeq(db, accountId)
  return { firstSeq: sql(db).first.get(accountId)?.seq ?? lastSeq + 1, lastSeq }
}

export interface FeedBatch {
  readonly events: readonly FeedEvent[]
  /** Everything up to here was looked at. */
  readonly nextAfter: number
  /** Of what the events carry. */
  readonly characters: number
}

/** Which part of a feed is read. */
export interface FeedRequest {
  readonly after: number
  readonly upTo: number
  readonly types: TypeMask
  /** Most events. */
  readonly limit: number
  /** It ends early when what its events carry is larger. */
  readonly characters?: number
}

/** The first events of the wanted types with `after < seq <= upTo`: a slice of some milliseconds, which may be none though more come later. */
export function readFeed(app: Pick<App, 'db' | 'keys'>, owner: EventOwner, query: FeedRequest): FeedBatch {
  const { after, upTo, types, characters: maxCharacters = MAX_PAGE_LENGTH } = query
  const limit = Math.min(query.limit, MAX_EVENTS_PER_BATCH)
  const end = Math.min(upTo, after + MAX_EXAMINED_PER_BATCH)
  const events: FeedEvent[] = []
  let position = after
  let characters = 0
  while (position < end && events.length < limit && characters < maxCharacters) {
    const max = Math.min(ROWS_PER_QUERY, limit - events.length)
    const rows = sql(app.db).page.all(owner.accountId, position, end, types, max)
    for (const row of rows) {
      events.push(toFeedWire(row, owner, app))
      characters += row.data?.length ?? 0
    }
    position = (rows.length === max ? rows.at(-1)?.seq : undefined) ?? end
  }
  return { events, nextAfter: position, characters }
}

const toFeedWire = (row: Row, owner: EventOwner, { keys }: Pick<App, 'keys'>): FeedEvent => {
  const emailId = row.emailUuid === null ? null : formatUuid(row.emailUuid)
  return {
    seq: row.seq,
    ...toEventWire({ ...row, type: toEventType(row.type), isSandbox: row.sandbox === 1 }, emailId, owner, keys),
  }
}

/** The largest number that a query may give: digits enough for any feed. */
const MAX_SEQ = 999_999_999_999_999

/**
 * Where a reader begins: after the event that `text` names, or before the first that is kept.
 * Throws 422 for what is no number and for an event that has not happened yet, 410 when events after it are no longer kept.
 */
export function parseAfter(field: string, text: string | undefined, { firstSeq, lastSeq }: FeedRange): number {
  const after = parseQueryInteger(field, text, { fallback: firstSeq - 1, minimum: 0, maximum: MAX_SEQ })
  if (after > lastSeq)
    throw invalid(
      field,
      lastSeq === 0
        ? `There is no event ${after}; this account has none yet, so read from 0.`
        : `There is no event ${after} yet; the last one is ${lastSeq}.`,
    )
  if (after < firstSeq - 1)
    throw new AppError(
      410,
      'events_not_kept',
      `The events after ${after} are no longer all kept; the feed can be read from ${field}=${firstSeq - 1} on.`,
      // As on a page.
      { facts: { next_after: firstSeq - 1, first_seq: firstSeq } },
    )
  return after
}

const isEventType = (name: string): name is EventType => (EVENT_TYPES as readonly string[]).includes(name)

/** The types that a comma list names; all when it is missing. Throws 422 `unknown_event`, which lists the known, for another. */
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

/** A page of the feed. */
export interface ReadPage {
  /** JSON of each. */
  readonly events: readonly string[]
  readonly nextAfter: number
  readonly firstSeq: number
}

/**
 * A page from the event on that `after` names: as many slices as it takes, each in its turn. Ends early when what comes next was removed meanwhile.
 * @param turn resolves when the next slice may be read
 * @throws as `parseAfter`
 */
export async function readPage(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  query: { readonly after: string | undefined; readonly types: TypeMask; readonly limit: number },
  awaitTurn: () => Promise<void>,
): Promise<ReadPage> {
  for (;;) {
    const { firstSeq, lastSeq } = readFeedRange(app.db, owner.accountId)
    const after = parseAfter('after', query.after, { firstSeq, lastSeq })
    const page = await readBatches(
      app,
      owner,
      { ...query, after, upTo: Math.min(lastSeq, after + MAX_EXAMINED) },
      awaitTurn,
    )
    // Nothing was looked at though there was something: it was removed before the first turn, and the feed begins elsewhere.
    if (page.nextAfter > after || after === lastSeq) return { ...page, firstSeq }
  }
}

/**
 * Reads pages as `readPage` does, those of one account one after the other: a hundred that are asked for together would all lie in memory unfinished.
 * Slices of different accounts take turns.
 */
export function createPageReader(app: Pick<App, 'db' | 'keys'>) {
  const awaitTurn = createFairYield()
  const queue = new SerialQueue<number>()
  return (owner: EventOwner, query: Parameters<typeof readPage>[2]): Promise<ReadPage> =>
    queue.run(owner.accountId, () => readPage(app, owner, query, awaitTurn))
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
