/** @module Routes of /v1/sequences: paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { errorResponses } from '#platform/http/access.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import * as model from './model.ts'
import * as store from './sequences.ts'

const reads = describeWith('contacts:read')
const writes = describeWith('contacts:write')

const tags = ['Sequences']
const params = Type.Object({ id: Type.String({ description: 'Id of the sequence.' }) })

const toBody = (sequence: store.Sequence) => dataBody(store.toSequenceWire(sequence))

export const sequenceRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/sequences', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { rows, total } = store.listSequences(app.db, actor.accountId, page)
        return pageById(rows, { ...page, total }, store.toSequenceWire)
      },
      {
        query: PageQuery,
        response: PageBody(model.SequenceRecord),
        detail: reads('List sequences', 'Newest first.'),
      },
    )
    .post('/', async ({ actor, body, status }) => status(201, toBody(await store.createSequence(app, actor, body))), {
      body: model.NewSequence,
      response: { 201: DataBody(model.SequenceRecord) },
      detail: writes(
        'Create a sequence',
        'Emails that each person gets one after the other. A draft, unless `status` is `active`: nobody enters a draft.',
        errorResponses({ 409: ['too_many_sequences', 'The account has 100 sequences.'] }),
      ),
    })
    .get('/:id', ({ actor, params }) => toBody(store.getSequence(app.db, actor.accountId, params.id)), {
      params,
      response: DataBody(model.SequenceRecord),
      detail: reads('Get a sequence'),
    })
    .put('/:id', async ({ actor, params, body }) => toBody(await store.changeSequence(app, actor, params.id, body)), {
      params,
      body: model.SequenceChange,
      response: DataBody(model.SequenceRecord),
      detail: writes(
        'Change a sequence',
        'Also activates and pauses it. A step is known by its template. People go on after the step that they got last: a removed step is skipped, one that is added before their place is not sent to them, and a changed delay counts from their last email. A changed trigger lets nobody enter again.',
      ),
    })
    .delete('/:id', ({ actor, params }) => store.deleteSequence(app, actor, params.id), {
      params,
      detail: writes('Delete a sequence', 'Its people get no further email; emails that were accepted stay.'),
    })
    .post(
      '/events',
      async ({ actor, body, status }) => status(202, dataBody(await store.recordEvent(app, actor, body))),
      {
        body: model.NewEvent,
        response: { 202: DataBody(model.EventResult) },
        detail: describeWith('emails:send', 'contacts:write')(
          'Record an event',
          'Its address enters the sequences whose `event` it is, unless it is or was in them, and stops in those whose `stop_event` it is. Repeating it changes nothing.',
          errorResponses({ 409: ['too_many_people', 'Too many people are active in a sequence.'] }),
        ),
      },
    )
    .get(
      '/:id/people',
      ({ actor, params, query }) => {
        const sequence = store.getSequence(app.db, actor.accountId, params.id)
        const page = parsePage(query)
        const { rows, total } = store.listPeople(app.db, sequence, page)
        return pageById(rows, { ...page, total }, (person) => store.toPersonWire(app.db, sequence, person))
      },
      {
        params,
        query: PageQuery,
        response: PageBody(model.PersonRecord),
        detail: reads('List the people of a sequence', 'Newest first.'),
      },
    )
