/** @module /v1/streams: paths, shapes and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { idKey, list, one } from '#platform/http/envelope.ts'
import { ListOf, One, PageQuery, pageOf } from '#platform/http/schemas.ts'
import { reputationOf } from './figures.ts'
import { NewStream, StreamChange, StreamDetail, StreamRecord, streamDetailWire, streamWire } from './model.ts'
import { changeStream, createStream, deleteStream, getStream, type HasOpenMail, listStreams } from './streams.ts'

const tags = ['Streams']
const params = Type.Object({ id: Type.String({ description: 'Id of the stream.' }) })

export const streamRoutes = (app: App, { hasOpenMail }: { readonly hasOpenMail: HasOpenMail }) =>
  new Elysia({ prefix: '/v1/streams' })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = pageOf(query)
        const { streams, total } = listStreams(app.db, actor.accountId, page)
        return list(
          streams.map((stream) => streamWire(stream, actor.accountUuid)),
          { ...page, total },
          idKey(streams),
        )
      },
      {
        query: PageQuery,
        response: ListOf(StreamRecord),
        detail: { summary: 'List streams', description: 'Newest first.', tags, ...requires('emails:read') },
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) =>
        status(201, one(streamWire(await createStream(app, actor, body), actor.accountUuid))),
      {
        body: NewStream,
        response: { 201: One(StreamRecord) },
        detail: { summary: 'Create a stream', tags, ...requires('emails:send') },
      },
    )
    .get(
      '/:id',
      ({ actor, params }) => {
        const stream = getStream(app.db, actor.accountId, params.id)
        const figures = reputationOf(app.db, { accountId: actor.accountId, id: stream.id }, app.clock.now())
        return one(streamDetailWire(stream, actor.accountUuid, figures))
      },
      {
        params,
        response: One(StreamDetail),
        detail: {
          summary: 'Get a stream',
          description: 'With its own reputation: what became of its mail over the last 30 days.',
          tags,
          ...requires('emails:read'),
        },
      },
    )
    .put(
      '/:id',
      async ({ actor, params, body }) =>
        one(streamWire(await changeStream(app, actor, params.id, body), actor.accountUuid)),
      {
        params,
        body: StreamChange,
        response: One(StreamRecord),
        detail: {
          summary: 'Change a stream',
          description: 'Fields that are left out keep their value. The slug of `transactional` cannot be changed.',
          tags,
          ...requires('emails:send'),
        },
      },
    )
    .delete(
      '/:id',
      async ({ actor, params, set }) => {
        await deleteStream(app, actor, params.id, hasOpenMail)
        set.status = 204
      },
      {
        params,
        detail: {
          summary: 'Delete a stream',
          description: 'Refused with 409 for `transactional`, and while mail of the stream is not final.',
          tags,
          ...requires('emails:send'),
        },
      },
    )
