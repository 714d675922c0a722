/**
 * @module Pages of the feed, oldest or newest first, as the JSON of a response. Pages of one account are read one after
 * another: a hundred concurrent requests would otherwise all hold unfinished pages in memory. Batches of different
 * accounts take turns.
 */
import type { App } from '#features/core/app/app.ts'
import type { EventOwner } from '#features/core/events/model.ts'
import { invalid } from '#platform/errors.ts'
import { parseQueryInteger } from '#platform/http/schemas.ts'
import { SerialQueue } from '#platform/queue/serial-queue.ts'
import { createFairYield } from '#platform/time/clock.ts'
import {
  findNewestUpTo,
  MAX_EXAMINED,
  MAX_PAGE_LENGTH,
  MAX_SEQ,
  readFeedBackwards,
  readFeedRange,
  readPage,
  type TypeMask,
} from './feed.ts'

/** Orders of a page. */
export const ORDERS = ['oldest', 'newest'] as const
export type Order = (typeof ORDERS)[number]

export interface PageRequest {
  readonly order: Order
  /** Where to start, for the oldest first. */
  readonly after: string | undefined
  /** Where to start, for the newest first. */
  readonly before: string | undefined
  readonly types: TypeMask
  readonly limit: number
}

/** Parses the order of a query. Throws 422, also for a position that belongs to the other order. */
export function parseOrder(query: {
  readonly order?: string | undefined
  readonly after?: string | undefined
  readonly before?: string | undefined
}): Order {
  const order = ORDERS.find((name) => name === (query.order ?? 'oldest'))
  if (!order) throw invalid('order', `order must be one of ${ORDERS.join(', ')}.`)
  if (order === 'newest' && query.after !== undefined)
    throw invalid('after', 'after is for order=oldest; with order=newest continue with before.')
  if (order === 'oldest' && query.before !== undefined)
    throw invalid('before', 'before requires order=newest; with order=oldest continue with after.')
  return order
}

/** Returns the function that reads a page and resolves with its JSON text, built from the JSON of each event. */
export function createPageReader(app: Pick<App, 'db' | 'keys'>) {
  const awaitTurn = createFairYield()
  const queue = new SerialQueue<number>()
  return (owner: EventOwner, request: PageRequest): Promise<string> =>
    queue.run(owner.accountId, () =>
      request.order === 'newest'
        ? readNewest(app, owner, request, awaitTurn)
        : readOldest(app, owner, request, awaitTurn),
    )
}

async function readOldest(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  request: PageRequest,
  awaitTurn: () => Promise<void>,
): Promise<string> {
  const { events, nextAfter, firstSeq, lastSeq } = await readPage(app, owner, request, awaitTurn)
  return `{"data":[${events.join(',')}],"next_after":${nextAfter},"first_seq":${firstSeq},"last_seq":${lastSeq}}`
}

/** Events that are deleted while it reads are the oldest: the page then ends before them. */
async function readNewest(
  app: Pick<App, 'db' | 'keys'>,
  owner: EventOwner,
  { before, types, limit }: PageRequest,
  awaitTurn: () => Promise<void>,
): Promise<string> {
  const { firstSeq: oldestSeq, lastSeq } = readFeedRange(app.db, owner.accountId)
  const start = parseQueryInteger('before', before, { fallback: lastSeq + 1, minimum: 1, maximum: MAX_SEQ })
  const events: string[] = []
  let position = findNewestUpTo(app.db, owner.accountId, Math.min(start - 1, lastSeq)) + 1
  const floor = Math.max(oldestSeq, position - MAX_EXAMINED)
  for (let characters = 0; position > floor && events.length < limit && characters < MAX_PAGE_LENGTH; ) {
    await awaitTurn()
    const remaining = { limit: limit - events.length, characters: MAX_PAGE_LENGTH - characters }
    const batch = readFeedBackwards(app, owner, { after: floor - 1, upTo: position - 1, types, ...remaining })
    for (const event of batch.events) events.push(JSON.stringify(event))
    position = batch.position
    characters += batch.characters
  }
  const { firstSeq } = readFeedRange(app.db, owner.accountId)
  const nextBefore = position > firstSeq ? position : null
  return `{"data":[${events.join(',')}],"next_after":${lastSeq},"next_before":${nextBefore},"first_seq":${firstSeq},"last_seq":${lastSeq}}`
}
