/** @module Routes of /v1/events: paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { FeedPage } from '#features/core/events/model.ts'
import { EVENT_TYPES } from '#features/core/events/record.ts'
import { invalid } from '#platform/errors.ts'
import { acceptsEventStream, EVENT_STREAM } from '#platform/http/event-stream.ts'
import { parseQueryInteger, QueryInteger } from '#platform/http/schemas.ts'
import { LATEST, parseAfter, parseTypes, readFeedRange } from './feed.ts'
import { createFirstReadNote } from './first-read.ts'
import { createPageReader, ORDERS, type PageRequest, parseOrder } from './pages.ts'
import { type FeedStreams, HEARTBEAT_MS, MAX_STREAMS_PER_ACCOUNT } from './stream.ts'

const MAX_PER_PAGE = 1000
const DEFAULT_PER_PAGE = 100

const FeedQuery = Type.Object({
  after: Type.Optional(
    Type.String({
      description: `Only events after the one with this \`seq\`; \`${LATEST}\`: only events that are recorded from now on; omitted: from the first retained event.`,
    }),
  ),
  order: Type.Optional(
    Type.String({
      description: `One of ${ORDERS.join(', ')}: which events come first. Default: oldest. A stream is always oldest first.`,
    }),
  ),
  before: QueryInteger({
    minimum: 1,
    description: 'With `order=newest`: only events before the one with this `seq`; omitted: from the newest event.',
  }),
  types: Type.Optional(
    Type.String({ description: `Only events of these types, a comma-separated list of ${EVENT_TYPES.join(', ')}.` }),
  ),
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
      Type.String({ description: 'For a stream: the id of the last event that the client has; overrides `after`.' }),
    ),
  },
  { additionalProperties: true },
)

/**
 * The plugin of /v1/events.
 * @param streams the open streams of all requests
 */
export const eventRoutes = (app: App, streams: FeedStreams) => {
  const readPage = createPageReader(app)
  const noteFirstRead = createFirstReadNote(app)

  /** Pages are built batch by batch as JSON text, so the framework does not serialise them. */
  const respondWithPage = async (actor: Actor, request: PageRequest): Promise<Response> => {
    const json = await readPage(actor, request)
    // Returns only durable events: after a crash, no client may know of an event that was lost.
    await app.commit.barrier()
    return new Response(json, { headers: { 'content-type': 'application/json;charset=utf-8' } })
  }

  return new Elysia({ prefix: '/v1/events' }).use(authenticated).get(
    '/',
    ({ actor, query, headers, request }) => {
      const types = parseTypes(emptyToUndefined(query.types))
      const [after, before] = [emptyToUndefined(query.after), emptyToUndefined(query.before)]
      const order = parseOrder({ order: emptyToUndefined(query.order), after, before })
      const limit = parseQueryInteger('limit', emptyToUndefined(query.limit), {
        fallback: DEFAULT_PER_PAGE,
        minimum: 1,
        maximum: MAX_PER_PAGE,
      })
      noteFirstRead(actor)
      if (request.method === 'GET' && acceptsEventStream(request.headers.get('accept'))) {
        if (order === 'newest') throw invalid('order', 'A stream is oldest first; request JSON, or leave order out.')
        const range = readFeedRange(app.db, actor.accountId)
        const lastEventId = headers['last-event-id']
        // The standard defines an empty id as none.
        const start = lastEventId ? parseAfter('Last-Event-ID', lastEventId, range) : parseAfter('after', after, range)
        return streams.open(request, actor, { after: start, types, sendsStart: !lastEventId && after === LATEST })
      }
      return respondWithPage(actor, { order, after, before, types, limit })
    },
    {
      query: FeedQuery,
      headers: StreamHeaders,
      response: FeedPage,
      detail: {
        summary: 'Read the event feed',
        description:
          'All events of the account in one gap-free order, oldest first. Continue with `after` = `next_after`. With `order=newest` the newest come first; continue with `before` = `next_before` until it is null. A request for deleted events is a 410, whose `next_after` is where the feed can be read from. With `Accept: text/event-stream` the response is a stream that continues with new events; with `after=latest` it has only those.',
        tags: ['Events'],
        [EVENT_STREAM]: `Server-sent events: \`id\` is the \`seq\`, \`event\` the type, \`data\` the event as JSON. The stream sends a comment after every ${HEARTBEAT_MS / 1000} seconds without events. An account can have at most ${MAX_STREAMS_PER_ACCOUNT} open streams.`,
        ...requires('emails:read'),
      },
    },
  )
}
