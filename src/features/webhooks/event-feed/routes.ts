/** @module Routes of /v1/events: paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { FeedPage } from '#features/core/events/model.ts'
import { EVENT_TYPES } from '#features/core/events/record.ts'
import { acceptsEventStream, EVENT_STREAM } from '#platform/http/event-stream.ts'
import { parseQueryInteger, QueryInteger } from '#platform/http/schemas.ts'
import { createPageReader, parseAfter, parseTypes, readFeedRange } from './feed.ts'
import { type FeedStreams, HEARTBEAT_MS, MAX_STREAMS_PER_ACCOUNT } from './stream.ts'

const MAX_PER_PAGE = 1000
const DEFAULT_PER_PAGE = 100

const FeedQuery = Type.Object({
  after: QueryInteger({
    minimum: 0,
    description: 'Only events after the one with this `seq`; omitted: from the first retained event.',
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

  /** Builds the JSON text batch by batch, so the framework does not serialise it. */
  const respondWithPage = async (actor: Actor, request: Parameters<typeof readPage>[1]): Promise<Response> => {
    const { events, nextAfter, firstSeq } = await readPage(actor, request)
    // Returns only durable events: after a crash, no client may know of an event that was lost.
    await app.commit.barrier()
    const json = `{"data":[${events.join(',')}],"next_after":${nextAfter},"first_seq":${firstSeq}}`
    return new Response(json, { headers: { 'content-type': 'application/json;charset=utf-8' } })
  }

  return new Elysia({ prefix: '/v1/events' }).use(authenticated).get(
    '/',
    ({ actor, query, headers, request }) => {
      const types = parseTypes(emptyToUndefined(query.types))
      const limit = parseQueryInteger('limit', emptyToUndefined(query.limit), {
        fallback: DEFAULT_PER_PAGE,
        minimum: 1,
        maximum: MAX_PER_PAGE,
      })
      if (request.method === 'GET' && acceptsEventStream(request.headers.get('accept'))) {
        const range = readFeedRange(app.db, actor.accountId)
        const lastEventId = headers['last-event-id']
        // As in the HTML Standard, an empty id means that there is none.
        const after = lastEventId
          ? parseAfter('Last-Event-ID', lastEventId, range)
          : parseAfter('after', emptyToUndefined(query.after), range)
        return streams.open(request, actor, { after, types })
      }
      return respondWithPage(actor, { after: emptyToUndefined(query.after), types, limit })
    },
    {
      query: FeedQuery,
      headers: StreamHeaders,
      response: FeedPage,
      detail: {
        summary: 'Read the event feed',
        description:
          'All events of the account in one gap-free order, oldest first. Continue with `after` = `next_after`. A request for deleted events gets a 410, whose `next_after` is the position to continue from. With `Accept: text/event-stream` the response is a stream that continues with new events.',
        tags: ['Events'],
        [EVENT_STREAM]: `Server-sent events: \`id\` is the \`seq\`, \`event\` the type, \`data\` the event as JSON. The stream sends a comment after every ${HEARTBEAT_MS / 1000} seconds without events. An account can have at most ${MAX_STREAMS_PER_ACCOUNT} open streams.`,
        ...requires('emails:read'),
      },
    },
  )
}
