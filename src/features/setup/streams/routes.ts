/** @module Routes of /v1/streams. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith, orSupport } from '#features/core/app/http.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import { NewStream, StreamChange, StreamDetail, StreamRecord, toStreamDetailWire, toStreamWire } from './model.ts'
import { readReputation } from './reputation.ts'
import { changeStream, createStream, deleteStream, getStream, type HasOpenMail, listStreams } from './streams.ts'

const tags = ['Streams']
const reads = describeWith('emails:read')
const writes = describeWith('emails:send')
const params = Type.Object({ id: Type.String({ description: 'Id of the stream.' }) })

export const streamRoutes = (app: App, { hasOpenMail }: { readonly hasOpenMail: HasOpenMail }) =>
  new Elysia({ prefix: '/v1/streams', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { streams, total } = listStreams(app.db, actor.accountId, page)
        return pageById(streams, { ...page, total }, (stream) => toStreamWire(stream, actor.accountUuid))
      },
      {
        query: PageQuery,
        response: PageBody(StreamRecord),
        detail: { ...reads('List streams', 'Newest first.'), ...orSupport },
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) =>
        status(201, dataBody(toStreamWire(await createStream(app, actor, body), actor.accountUuid))),
      {
        body: NewStream,
        response: { 201: DataBody(StreamRecord) },
        detail: writes('Create a stream'),
      },
    )
    .get(
      '/:id',
      ({ actor, params }) => {
        const stream = getStream(app.db, actor.accountId, params.id)
        const reputation = readReputation(app.db, { accountId: actor.accountId, id: stream.id }, app.clock.now())
        return dataBody(toStreamDetailWire(stream, actor.accountUuid, reputation))
      },
      {
        params,
        response: DataBody(StreamDetail),
        detail: reads('Get a stream', 'With its own reputation: the outcomes of its mail over the last 30 days.'),
      },
    )
    .put(
      '/:id',
      async ({ actor, params, body }) =>
        dataBody(toStreamWire(await changeStream(app, actor, params.id, body), actor.accountUuid)),
      {
        params,
        body: StreamChange,
        response: DataBody(StreamRecord),
        detail: writes(
          'Change a stream',
          'Omitted fields keep their value. The slug of `transactional` cannot be changed.',
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteStream(app, actor, params.id, hasOpenMail), {
      params,
      detail: writes(
        'Delete a stream',
        'Fails with 409 for `transactional`, and while mail of the stream is not final.',
      ),
    })
