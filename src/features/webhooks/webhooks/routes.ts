/** @module Routes of /v1/webhooks: paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { dataBody, idKey, pageBody } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import { changeWebhook, createWebhook, deleteWebhook } from './change.ts'
import { BODY_SCOPES_NOTE } from './event-names.ts'
import { listDeliveries } from './history.ts'
import {
  CreatedWebhook,
  DeliveryQuery,
  DeliveryRecord,
  HISTORY_LIMIT_NOTE,
  NewWebhook,
  ReplayRange,
  ReplayResult,
  TestResult,
  toDeliveryWire,
  toReplayWire,
  toWebhookWire,
  WebhookChange,
  WebhookRecord,
} from './model.ts'
import { replayDelivery, replayRange } from './replay.ts'
import { MAX_TESTS, sendTestEvent } from './test-event.ts'
import { getWebhook, listWebhooks } from './webhooks.ts'

const tags = ['Webhooks']
const ID = Type.String({ description: 'Id of the webhook.' })
const params = Type.Object({ id: ID })

export const webhookRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/webhooks' })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { webhooks, total } = listWebhooks(app.db, actor.accountId, page)
        return pageBody(
          webhooks.map((webhook) => toWebhookWire(webhook, actor.accountUuid)),
          { ...page, total },
          idKey(webhooks),
        )
      },
      {
        query: PageQuery,
        response: PageBody(WebhookRecord),
        detail: { summary: 'List webhooks', description: 'Newest first.', tags, ...requires('webhooks:read') },
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => {
        const { webhook, secret } = await createWebhook(app, actor, body)
        return status(201, dataBody({ ...toWebhookWire(webhook, actor.accountUuid), secret }))
      },
      {
        body: NewWebhook,
        response: { 201: DataBody(CreatedWebhook) },
        detail: {
          summary: 'Create a webhook',
          description: `It gets events from now on. Only this response contains the signing secret. ${BODY_SCOPES_NOTE}`,
          tags,
          ...requires('webhooks:write'),
        },
      },
    )
    .get(
      '/:id',
      ({ actor, params }) => dataBody(toWebhookWire(getWebhook(app.db, actor.accountId, params.id), actor.accountUuid)),
      {
        params,
        response: DataBody(WebhookRecord),
        detail: { summary: 'Get a webhook', tags, ...requires('webhooks:read') },
      },
    )
    .put(
      '/:id',
      async ({ actor, params, body }) => {
        const { url, events, is_active: isActive } = body
        const changed = await changeWebhook(app, actor, params.id, { url, events, isActive })
        return dataBody(toWebhookWire(changed, actor.accountUuid))
      },
      {
        params,
        body: WebhookChange,
        response: DataBody(WebhookRecord),
        detail: {
          summary: 'Change a webhook',
          description: `Any change reactivates a webhook that failures deactivated. Events from the inactive time are not sent, but can be replayed. ${BODY_SCOPES_NOTE}`,
          tags,
          ...requires('webhooks:write'),
        },
      },
    )
    .delete(
      '/:id',
      async ({ actor, params, set }) => {
        await deleteWebhook(app, actor, params.id)
        set.status = 204
      },
      {
        params,
        detail: {
          summary: 'Delete a webhook',
          description: 'Nothing more is sent, and its history is deleted.',
          tags,
          ...requires('webhooks:write'),
        },
      },
    )
    .post(
      '/:id/test',
      async ({ actor, params }) => {
        const { payload } = await sendTestEvent(app, actor, params.id)
        return dataBody({
          message: 'The test event is queued; the deliveries of the webhook show its result.',
          payload,
        })
      },
      {
        params,
        response: DataBody(TestResult),
        detail: {
          summary: 'Send a test event',
          description: `At most ${MAX_TESTS} a minute. It is signed and stored in the history like any other, but neither retried nor counted as a failure.`,
          tags,
          ...requires('webhooks:write'),
        },
      },
    )
    .get(
      '/:id/deliveries',
      ({ actor, params, query }) => {
        const webhook = getWebhook(app.db, actor.accountId, params.id)
        const page = parsePage(query)
        const { deliveries, total } = listDeliveries(app.db, webhook, query, page)
        return pageBody(
          deliveries.map((delivery) => toDeliveryWire(delivery, webhook, app.keys)),
          { ...page, total },
        )
      },
      {
        params,
        query: DeliveryQuery,
        response: PageBody(DeliveryRecord),
        detail: {
          summary: 'List the deliveries of a webhook',
          description: `Newest first. ${HISTORY_LIMIT_NOTE}`,
          tags,
          ...requires('webhooks:read'),
        },
      },
    )
    .post(
      '/:id/deliveries/:delivery_id/replay',
      async ({ actor, params, status }) => {
        const delivery = await replayDelivery(app, actor, params.id, params.delivery_id)
        return status(202, dataBody(toDeliveryWire(delivery, getWebhook(app.db, actor.accountId, params.id), app.keys)))
      },
      {
        params: Type.Object({ id: ID, delivery_id: Type.String({ description: 'Id of the delivery.' }) }),
        response: { 202: DataBody(DeliveryRecord) },
        detail: {
          summary: 'Replay a delivery',
          description: `Creates a new delivery with the same body, due now. 409 while the webhook is inactive, or when it no longer subscribes to the event. ${BODY_SCOPES_NOTE}`,
          tags,
          ...requires('webhooks:write'),
        },
      },
    )
    .post(
      '/:id/replay',
      async ({ actor, params, body, status }) =>
        status(202, dataBody(toReplayWire(await replayRange(app, actor, params.id, body)))),
      {
        params,
        body: ReplayRange,
        response: { 202: DataBody(ReplayResult) },
        detail: {
          summary: 'Replay a range of events',
          description: `Creates a new delivery, due now, for every event in the range that the webhook subscribes to. 409 while the webhook is inactive. ${BODY_SCOPES_NOTE}`,
          tags,
          ...requires('webhooks:write'),
        },
      },
    )
