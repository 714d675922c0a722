/** @module Routes of /v1/webhooks: paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { PASSWORD_REQUIRED, requireRecentPassword } from '#features/people/team/credentials.ts'
import { errorResponses, sessionOnly } from '#platform/http/access.ts'
import { dataBody, pageBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage, Text } from '#platform/http/schemas.ts'
import type { Millis } from '#platform/units.ts'
import { BODY_SCOPES_NOTE } from '../event-names.ts'
import { changeWebhook, createWebhook, deleteWebhook } from '../manage/change.ts'
import { revealSecret, rotateSecret } from '../manage/secrets.ts'
import { getWebhook, listWebhooks } from '../manage/webhooks.ts'
import { listDeliveries, readDeliveryRequest, readEventPayload } from './history.ts'
import * as model from './model.ts'
import { countReplay, MAX_TESTS, parseTime, replayDelivery, replayRange, sendTestEvent } from './replay.ts'

const tags = ['Webhooks']
const reads = describeWith('webhooks:read')
const readsPayloads = describeWith('webhooks:read', 'emails:read')
const writes = describeWith('webhooks:write')
const ID = Text('Id of the webhook.')
const params = Type.Object({ id: ID })
const deliveryParams = Type.Object({ id: ID, delivery_id: Text('Id of the delivery.') })

/** What a webhook would get, for programs that read the feed. */
export const webhookPayloadRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/webhook-payloads', tags }).use(authenticated).get(
    '/:id',
    async ({ actor, params, query }) => {
      const found = readEventPayload(app, actor, params.id, query.format)
      // The event may not be on disk yet.
      await app.commit.barrier()
      return dataBody(found)
    },
    {
      params: Type.Object({ id: Text('The `seq` of the event in the event feed.') }),
      query: model.PayloadQuery,
      response: DataBody(model.EventPayload),
      detail: readsPayloads(
        'Get the payload of an event',
        `What a webhook would get for an event of the feed, for programs that read the feed and hand events on. ${BODY_SCOPES_NOTE}`,
      ),
    },
  )

export const webhookRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/webhooks', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { rows, total } = listWebhooks(app.db, actor.accountId, page)
        return pageById(rows, { ...page, total }, (row) => model.toWebhookWire(row, actor.accountUuid))
      },
      {
        query: PageQuery,
        response: PageBody(model.WebhookRecord),
        detail: reads('List webhooks', 'Newest first.'),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => {
        const { webhook, secret } = await createWebhook(app, actor, body)
        return status(201, dataBody({ ...model.toWebhookWire(webhook, actor.accountUuid), secret }))
      },
      {
        body: model.NewWebhook,
        response: { 201: DataBody(model.CreatedWebhook) },
        detail: writes(
          'Create a webhook',
          `It gets events from now on. Only this response contains the signing secret. ${BODY_SCOPES_NOTE}`,
        ),
      },
    )
    .get(
      '/:id',
      ({ actor, params }) =>
        dataBody(model.toWebhookWire(getWebhook(app.db, actor.accountId, params.id), actor.accountUuid)),
      {
        params,
        response: DataBody(model.WebhookRecord),
        detail: reads('Get a webhook'),
      },
    )
    .put(
      '/:id',
      async ({ actor, params, body }) => {
        const { url, events, description, format, is_active: isActive, updated_at: seen } = body
        const expectedUpdatedAt = parseSeen(seen)
        const change = { url, events, description, format, isActive, expectedUpdatedAt }
        const changed = await changeWebhook(app, actor, params.id, change)
        return dataBody(model.toWebhookWire(changed, actor.accountUuid))
      },
      {
        params,
        body: model.WebhookChange,
        response: DataBody(model.WebhookRecord),
        detail: writes(
          'Change a webhook',
          `Any change reactivates a webhook that failures deactivated. Events from the inactive time are not sent, but can be replayed. ${BODY_SCOPES_NOTE}`,
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteWebhook(app, actor, params.id), {
      params,
      detail: writes('Delete a webhook', 'Nothing more is sent, and its history is deleted.'),
    })
    .post('/:id/test', async ({ actor, params }) => dataBody(await sendTestEvent(app, actor, params.id)), {
      params,
      response: DataBody(model.TestResult),
      detail: writes(
        'Send a test event',
        `At most ${MAX_TESTS} a minute. It is signed and stored in the history like any other, but neither retried nor counted as a failure.`,
      ),
    })
    .get(
      '/:id/deliveries',
      ({ actor, params, query }) => {
        const webhook = getWebhook(app.db, actor.accountId, params.id)
        const page = parsePage(query)
        const { rows, total } = listDeliveries(app.db, webhook, query, page)
        const deliveries = rows.map((row) => model.toDeliveryWire(row, webhook, app.keys))
        return pageBody(deliveries, { ...page, total })
      },
      {
        params,
        query: model.DeliveryQuery,
        response: PageBody(model.DeliveryRecord),
        detail: reads('List the deliveries of a webhook', `Newest first. ${model.HISTORY_LIMIT_NOTE}`),
      },
    )
    .get(
      '/:id/deliveries/:delivery_id',
      ({ actor, params }) =>
        dataBody(model.toDeliveryDetail(readDeliveryRequest(app, actor, params.id, params.delivery_id), app.keys)),
      {
        params: deliveryParams,
        response: DataBody(model.DeliveryDetail),
        detail: readsPayloads(
          'Get a delivery with its payload',
          `Shows what is posted, and the response. It is kept like the list. ${BODY_SCOPES_NOTE}`,
        ),
      },
    )
    .post(
      '/:id/deliveries/:delivery_id/replay',
      async ({ actor, params, status }) => {
        const delivery = await replayDelivery(app, actor, params.id, params.delivery_id)
        return status(
          202,
          dataBody(model.toDeliveryWire(delivery, getWebhook(app.db, actor.accountId, params.id), app.keys)),
        )
      },
      {
        params: deliveryParams,
        response: { 202: DataBody(model.DeliveryRecord) },
        detail: writes(
          'Replay a delivery',
          `Creates a new delivery with the same body, due now. 409 while the webhook is inactive, or when it no longer subscribes to the event. ${BODY_SCOPES_NOTE}`,
        ),
      },
    )
    .post(
      '/:id/replay',
      async ({ actor, params, body, status }) => status(202, dataBody(await replayRange(app, actor, params.id, body))),
      {
        params,
        body: model.ReplayRange,
        response: { 202: DataBody(model.ReplayResult) },
        detail: writes(
          'Replay a range of events',
          `Creates a new delivery, due now, for every event in the range that the webhook subscribes to. 409 while the webhook is inactive. ${BODY_SCOPES_NOTE}`,
        ),
      },
    )
    .post(
      '/:id/replay/count',
      async ({ actor, params, body }) => dataBody(await countReplay(app, actor, params.id, body)),
      {
        params,
        body: model.ReplayRange,
        response: DataBody(model.ReplayCount),
        detail: reads(
          'Count a range of events',
          'What a replay of the range would queue; nothing is queued. Also for an inactive webhook, as if it were activated now.',
        ),
      },
    )
    .post(
      '/:id/secret/reveal',
      async ({ actor, params }) => {
        requireRecentPassword(app, actor)
        return dataBody({ secret: await revealSecret(app, actor, params.id) })
      },
      {
        params,
        response: DataBody(model.SecretResult),
        detail: writes('Show the signing secret', 'For signed-in users only. The audit log records it.', {
          ...sessionOnly,
          ...errorResponses({ 403: PASSWORD_REQUIRED }),
        }),
      },
    )
    .post(
      '/:id/secret/rotate',
      async ({ actor, params, body }) => {
        requireRecentPassword(app, actor)
        const secret = await rotateSecret(app, actor, params.id, parseSeen(body.updated_at))
        return dataBody({ secret })
      },
      {
        params,
        body: model.SecretRotation,
        response: DataBody(model.SecretResult),
        detail: writes(
          'Replace the signing secret',
          'For signed-in users only. The new secret signs every later attempt, including retries. In the header webhook-signature, the old one also signs for a day, so that receivers have time to change.',
          { ...sessionOnly, ...errorResponses({ 403: PASSWORD_REQUIRED }) },
        ),
      },
    )

/** The version of a webhook that a user saw. */
const parseSeen = (updatedAt: string | undefined): Millis | undefined =>
  updatedAt === undefined ? undefined : parseTime('updated_at', updatedAt)
