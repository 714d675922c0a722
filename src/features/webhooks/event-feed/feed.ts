/**
 * @module Reads the feed: every event of an account in one gap-free order, a bounded piece at a time, by primary key. Says where a reader may
 * begin. What it reads may be in a group that is not on disk yet: whoever tells it to a client waits for that first.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { type EventOwner, eventWire, type FeedEvent } from '#features/core/events/model.ts'
import { EVENT_TYPES, type EventType, eventCode, eventType, lastSeqOf } from '#features/core/events/record.ts'
import { createTurns } from '#platform/clock.ts'
import { prepared } from '#platform/db/open.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { queryInteger } from '#platform/http/schemas.ts'
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

const sql = prepared((db) => ({
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

export const EVERY_TYPE: TypeMask = (1 << EVENT_TYPES.length) - 1

/** Most events that one call looks at, so that a rare type costs no more than a frequent one. */
export const MOST_EXAMINED = 10_000
/** The same for what is done without letting others in between: some milliseconds. */
const EXAMINED_A_SLICE = 1000
const ROWS_A_SLICE = 100
/** Read at once; after each the size is looked at. */
const ROWS_AT_ONCE = 20
/** A page ends early when what its events carry is larger. */
const MOST_PAGE_CHARACTERS = 2 * MiB

/** What of an account's feed there is. */
export interface FeedRange {
  /** The oldest event that is kept; the next one's number while there is none. */
  readonly firstSeq: number
  /** The newest; 0 before the first. */
  readonly lastSeq: number
}

/** Which events of an account the feed can tell, of those that were written; the newest may not be on disk yet. */
export function feedRange(db: Database, accountId: number): FeedRange {
  const lastSeq = lastSeqOf(db, accountId)
  return { firstSeq: sql(db).first.get(accountId)?.seq ?? lastSeq + 1, lastSeq }
}

export interface FeedSlice {
  readonly events: readonly FeedEvent[]
  /** Everything up to here was looked at. */
  readonly nextAfter: number
  /** Of what the events carry. */
  readonly characters: number
}

/** Which part of a feed is read. */
export interface FeedWanted {
  readonly after: number
  readonly upTo: number
  readonly types: TypeMask
  /** Most events. */
  readonly limit: number
  /** It ends early when what its events carry is larger. */
  readonly characters?: number
}

/** The first events of the wanted types with `after < seq <= upTo`: a slice of some milliseconds, which may be none though more come later. */
export function readFeed(app: Pick<App, 'db' | 'keys'>, owner: EventOwner, wanted: FeedWanted): FeedSlice {
  const { after, upTo, types, characters: mostCharacters = MOST_PAGE_CHARACTERS } = wanted
  const limit = Math.min(wanted.limit, ROWS_A_SLICE)
  const end = Math.min(upTo, after + EXAMINED_A_SLICE)
  const events: FeedEvent[] = []
  let position = after
  let characters = 0
  while (position < end && events.length < limit && characters < mostCharacters) {
    const most = Math.min(ROWS_AT_ONCE, limit - events.length)
    const rows = sql(app.db).page.all(owner.accountId, position, end, types, most)
    for (const row of rows) {
      events.push(feedWire(row, owner, app))
      characters += row.data?.length ?? 0
    }
    position = (rows.length === most ? rows.at(-1)?.seq : undefined) ?? end
  }
  return { events, nextAfter: position, characters }
}

const feedWire = (row: Row, owner: EventOwner, { keys }: Pick<App, 'keys'>): FeedEvent => {
  const emailId = row.emailUuid === null ? null : formatUuid(row.emailUuid)
  return {
    seq: row.seq,
    ...eventWire({ ...row, type: eventType(row.type), isSandbox: row.sandbox === 1 }, emailId, owner, keys),
  }
}

/** The largest number that a query may give: digits enough for any feed. */
const LARGEST_SEQ = 999_999_999_999_999

/**
 * Where a reader begins: after the event that `text` names, or before the first that is kept.
 * Throws 422 for what is no number and for an event that has not happened yet, 410 when events after it are no longer kept.
 */
export function startOf(field: string, text: string | undefined, { firstSeq, lastSeq }: FeedRange): number {
  const after = queryInteger(field, text, { fallback: firstSeq - 1, minimum: 0, maximum: LARGEST_SEQ })
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
export function typesOf(text: string | undefined): TypeMask {
  if (text === undefined) return EVERY_TYPE
  let mask: TypeMask = 0
  for (const part of text.split(',')) {
    const name = part.trim()
    if (!isEventType(name))
      throw invalid(
        'types',
        `There is no event type "${name.slice(0, 60)}"; the types are ${EVENT_TYPES.join(', ')}.`,
        'unknown_event',
      )
    mask |= 1 << eventCode(name)
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
 * @throws as `startOf`
 */
export async function readPage(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  wanted: { readonly after: string | undefined; readonly types: TypeMask; readonly limit: number },
  turn: () => Promise<void>,
): Promise<ReadPage> {
  for (;;) {
    const { firstSeq, lastSeq } = feedRange(app.db, owner.accountId)
    const after = startOf('after', wanted.after, { firstSeq, lastSeq })
    const page = await readSlices(
      app,
      owner,
      { ...wanted, after, upTo: Math.min(lastSeq, after + MOST_EXAMINED) },
      turn,
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
  const turn = createTurns()
  const queue = new SerialQueue<number>()
  return (owner: EventOwner, wanted: Parameters<typeof readPage>[2]): Promise<ReadPage> =>
    queue.run(owner.accountId, () => readPage(app, owner, wanted, turn))
}

async function readSlices(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  { after, upTo, types, limit }: FeedWanted,
  turn: () => Promise<void>,
): Promise<{ readonly events: string[]; readonly nextAfter: number }> {
  const events: string[] = []
  let position = after
  let characters = 0
  while (position < upTo && events.length < limit && characters < MOST_PAGE_CHARACTERS) {
    await turn()
    if (position < feedRange(app.db, owner.accountId).firstSeq - 1) break
    const left = { limit: limit - events.length, characters: MOST_PAGE_CHARACTERS - characters }
    const slice = readFeed(app, owner, { after: position, upTo, types, ...left })
    for (const event of slice.events) events.push(JSON.stringify(event))
    position = slice.nextAfter
    characters += slice.characters
  }
  return { events, nextAfter: position }
}
