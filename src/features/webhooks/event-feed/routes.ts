/**
 * @module Routes of /v1/events, and the pages of the feed, oldest or newest first, as the JSON of a response. Pages of
 * one account are read one after another: a hundred concurrent requests would otherwise all hold unfinished pages in
 * memory. Batches of different accounts take turns. An account's first read is noted: a step of setting up that only
 * the service can see.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getAccount } from '#features/core/accounts/accounts.ts'
import { recordEventsRead } from '#features/core/accounts/rows.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { type EventOwner, FeedPage } from '#features/core/events/model.ts'
import { EVENT_TYPES } from '#features/core/events/record.ts'
import { invalid } from '#platform/errors.ts'
import { describeRoute } from '#platform/http/access.ts'
import { acceptsEventStream, EVENT_STREAM } from '#platform/http/event-stream.ts'
import { parseQueryInteger, QueryInteger, Text } from '#platform/http/schemas.ts'
import { SerialQueue } from '#platform/queue/serial-queue.ts'
import { createFairYield } from '#platform/time/clock.ts'
import * as feed from './feed.ts'
import { type FeedStreams, HEARTBEAT_MS, MAX_STREAMS_PER_ACCOUNT } from './stream.ts'

/** Parses the order of a query. Throws 422, also for a position that belongs to the other order. */
function parseOrder(query: {
  readonly order?: string | undefined
  readonly after?: string | undefined
  readonly before?: string | undefined
}): feed.Order {
  const order = feed.ORDERS.find((name) => name === (query.order ?? 'oldest'))
  if (!order) throw invalid('order', `order must be one of ${feed.ORDERS.join(', ')}.`)
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
  const read = async (owner: EventOwner, order: feed.Order, request: feed.PageRequest): Promise<string> => {
    if (order === 'newest') {
      const { events, nextBefore, firstSeq, lastSeq } = await feed.readNewestPage(app, owner, request, awaitTurn)
      return `{"data":[${events.join(',')}],"next_after":${lastSeq},"next_before":${nextBefore},"first_seq":${firstSeq},"last_seq":${lastSeq}}`
    }
    const { events, nextAfter, firstSeq, lastSeq } = await feed.readPage(app, owner, request, awaitTurn)
    return `{"data":[${events.join(',')}],"next_after":${nextAfter},"first_seq":${firstSeq},"last_seq":${lastSeq}}`
  }
  return (owner: EventOwner, order: feed.Order, request: feed.PageRequest): Promise<string> =>
    queue.run(owner.accountId, () => read(owner, order, request))
}

/** Stores when an API key of an account first read the feed; people who only look do not count. */
function noteFirstRead(app: App, { accountId, type }: Actor): void {
  if (type !== 'api_key' || getAccount(app.config, app.db, accountId).eventsReadAt !== null) return
  app.commit
    .writeFromReserve((tx) => recordEventsRead(tx, accountId, app.clock.now()))
    .catch((error: unknown) => app.log.warn({ err: error }, 'the first use of the event feed was not stored'))
}

const MAX_PER_PAGE = 1000
const DEFAULT_PER_PAGE = 100

const FeedQuery = Type.Object({
  after: Type.Optional(
    Text(
      `Only events after the one with this \`seq\`; \`${feed.LATEST}\`: only events that are recorded from now on; omitted: from the first retained event.`,
    ),
  ),
  order: Type.Optional(
    Text(
      `One of ${feed.ORDERS.join(', ')}: which events come first. Default: oldest. A stream is always oldest first.`,
    ),
  ),
  before: QueryInteger({
    minimum: 1,
    description: 'With `order=newest`: only events before the one with this `seq`; omitted: from the newest event.',
  }),
  types: Type.Optional(Text(`Only events of these types, a comma-separated list of ${EVENT_TYPES.join(', ')}.`)),
  limit: QueryInteger({
    minimum: 1,
    maximum: MAX_PER_PAGE,
    default: DEFAULT_PER_PAGE,
    description: 'Maximum number of events in the response. Ignored for a stream.',
  }),
})

/** Forms and templates send empty query values; an empty value counts as unset. */
const emptyToUndefined = (text: string | undefined): string | undefined => (text === '' ? undefined : text)

const StreamHeaders = Type.Object(
  {
    'last-event-id': Type.Optional(
      Text('For a stream: the id of the last event that the client has; overrides `after`.'),
    ),
  },
  { additionalProperties: true },
)

/** The plugin of /v1/events. */
export const eventRoutes = (app: App, streams: FeedStreams) => {
  const readJson = createPageReader(app)

  /** Pages are built batch by batch as JSON text, so the framework does not serialise them. */
  const respondWithPage = async (actor: Actor, order: feed.Order, request: feed.PageRequest): Promise<Response> => {
    const json = await readJson(actor, order, request)
    // Returns only durable events: after a crash, no client may know of an event that was lost.
    await app.commit.barrier()
    return new Response(json, { headers: { 'content-type': 'application/json;charset=utf-8' } })
  }

  return new Elysia({ prefix: '/v1/events', tags: ['Events'] }).use(authenticated).get(
    '/',
    ({ actor, query, headers, request }) => {
      const types = feed.parseTypes(emptyToUndefined(query.types))
      const [after, before] = [emptyToUndefined(query.after), emptyToUndefined(query.before)]
      const order = parseOrder({ order: emptyToUndefined(query.order), after, before })
      const limit = parseQueryInteger('limit', emptyToUndefined(query.limit), {
        fallback: DEFAULT_PER_PAGE,
        minimum: 1,
        maximum: MAX_PER_PAGE,
      })
      noteFirstRead(app, actor)
      if (request.method === 'GET' && acceptsEventStream(request.headers.get('accept'))) {
        if (order === 'newest') throw invalid('order', 'A stream is oldest first; request JSON, or leave order out.')
        const range = feed.readFeedRange(app.db, actor.accountId)
        const lastEventId = headers['last-event-id']
        // The standard defines an empty id as none.
        const start = lastEventId
          ? feed.parseAfter('Last-Event-ID', lastEventId, range)
          : feed.parseAfter('after', after, range)
        return streams.open(request, actor, { after: start, types, sendsStart: !lastEventId && after === feed.LATEST })
      }
      return respondWithPage(actor, order, { after, before, types, limit })
    },
    {
      query: FeedQuery,
      headers: StreamHeaders,
      response: FeedPage,
      detail: describeRoute(
        'Read the event feed',
        requires('emails:read'),
        'All events of the account in one gap-free order, oldest first. Continue with `after` = `next_after`. With `order=newest` the newest come first; continue with `before` = `next_before` until it is null. A request for deleted events is a 410, whose `next_after` is where the feed can be read from. With `Accept: text/event-stream` the response is a stream that continues with new events; with `after=latest` it has only those.',
        {
          [EVENT_STREAM]: `Server-sent events: \`id\` is the \`seq\`, \`event\` the type, \`data\` the event as JSON. The stream sends a comment after every ${HEARTBEAT_MS / 1000} seconds without events. An account can have at most ${MAX_STREAMS_PER_ACCOUNT} open streams.`,
        },
      ),
    },
  )
}
