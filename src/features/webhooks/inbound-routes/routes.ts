/** @module /v1/inbound-routes: paths, shapes and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { listDeliveries } from '#features/webhooks/webhooks/history.ts'
import { HISTORY_BOUND, ReplayResult, replayWire } from '#features/webhooks/webhooks/model.ts'
import { replayDelivery, replayRange } from '#features/webhooks/webhooks/replay.ts'
import { findRouteWebhook } from '#features/webhooks/webhooks/webhooks.ts'
import { idKey, list, one } from '#platform/http/envelope.ts'
import { refuses } from '#platform/http/refusals.ts'
import { ListOf, One, PageQuery, pageOf } from '#platform/http/schemas.ts'
import {
  changeRoute,
  createRoute,
  deleteRoute,
  getRoute,
  getRouteWebhook,
  listRoutes,
  MOST_ROUTES,
} from './inbound-routes.ts'
import {
  NewRoute,
  newRouteOf,
  RouteChangeBody,
  RouteDelivery,
  RouteDeliveryQuery,
  RouteRecord,
  RouteReplayRange,
  routeChangeOf,
  routeDeliveryWire,
  routeWire,
} from './model.ts'

const tags = ['Inbound routes']
const ID = Type.String({ description: 'Id of the route.' })
const params = Type.Object({ id: ID })
const SAME_ROUTE = 'The domain has a route with this pattern and match_type'
const URL_SCOPE = 'With a `webhook_url` it also needs the scope `inbound:read`, because received mail is posted there.'
const NOTHING_POSTED = 'The route has no webhook_url, or is not active.'

export const inboundRouteRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/inbound-routes' })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = pageOf(query)
        const { routes, total } = listRoutes(app.db, actor.accountId, page)
        return list(
          routes.map((route) => routeWire(route, actor.accountUuid)),
          { ...page, total },
          idKey(routes),
        )
      },
      {
        query: PageQuery,
        response: ListOf(RouteRecord),
        detail: { summary: 'List inbound routes', description: 'Newest first.', tags, ...requires('inbound:read') },
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) =>
        status(201, one(routeWire(await createRoute(app, actor, newRouteOf(body)), actor.accountUuid))),
      {
        body: NewRoute,
        response: { 201: One(RouteRecord) },
        detail: {
          summary: 'Create an inbound route',
          description: `The domain need not be verified yet. 409 when it has a route with the same pattern and match_type; an account has at most ${MOST_ROUTES} routes. ${URL_SCOPE}`,
          tags,
          ...refuses({ 409: ['inbound_route_exists', `${SAME_ROUTE}, or the account has ${MOST_ROUTES} routes.`] }),
          ...requires('inbound:write'),
        },
      },
    )
    .get(
      '/:id',
      ({ actor, params }) => one(routeWire(getRoute(app.db, actor.accountId, params.id), actor.accountUuid)),
      {
        params,
        response: One(RouteRecord),
        detail: { summary: 'Get an inbound route', tags, ...requires('inbound:read') },
      },
    )
    .put(
      '/:id',
      async ({ actor, params, body }) =>
        one(routeWire(await changeRoute(app, actor, params.id, routeChangeOf(body)), actor.accountUuid)),
      {
        params,
        body: RouteChangeBody,
        response: One(RouteRecord),
        detail: {
          summary: 'Change an inbound route',
          description: `Fields that are left out keep their value. Any change switches on a webhook that failures have switched off. What came while it was off is not posted, but can be replayed. ${URL_SCOPE}`,
          tags,
          ...refuses({ 409: ['inbound_route_exists', `${SAME_ROUTE}.`] }),
          ...requires('inbound:write'),
        },
      },
    )
    .delete(
      '/:id',
      async ({ actor, params, set }) => {
        await deleteRoute(app, actor, params.id)
        set.status = 204
      },
      {
        params,
        detail: {
          summary: 'Delete an inbound route',
          description: 'Mail that it got is kept; nothing more is posted, and its deliveries go with it.',
          tags,
          ...requires('inbound:write'),
        },
      },
    )
    .get(
      '/:id/deliveries',
      ({ actor, params, query }) => {
        const webhook = findRouteWebhook(app.db, getRoute(app.db, actor.accountId, params.id).id)
        const page = pageOf(query)
        if (!webhook) return list([], { ...page, total: 0 })
        const { deliveries, total } = listDeliveries(app.db, webhook, { status: query.status }, page)
        return list(
          deliveries.map((delivery) => routeDeliveryWire(delivery, webhook, app.keys)),
          { ...page, total },
        )
      },
      {
        params,
        query: RouteDeliveryQuery,
        response: ListOf(RouteDelivery),
        detail: {
          summary: 'List the deliveries of an inbound route',
          description: `What was posted to its webhook_url, newest first. ${HISTORY_BOUND}`,
          tags,
          ...requires('inbound:read'),
        },
      },
    )
    .post(
      '/:id/deliveries/:delivery_id/replay',
      async ({ actor, params, status }) => {
        const delivery = await replayDelivery(app, actor, params.id, params.delivery_id, getRouteWebhook)
        const webhook = getRouteWebhook(app.db, actor.accountId, params.id)
        return status(202, one(routeDeliveryWire(delivery, webhook, app.keys)))
      },
      {
        params: Type.Object({ id: ID, delivery_id: Type.String({ description: 'Id of the delivery.' }) }),
        response: { 202: One(RouteDelivery) },
        detail: {
          summary: 'Replay a delivery of an inbound route',
          description: 'Makes a new delivery with the same body, due now. 409 while nothing is posted.',
          tags,
          ...refuses({ 409: ['webhook_inactive', NOTHING_POSTED] }),
          ...requires('inbound:write', 'inbound:read'),
        },
      },
    )
    .post(
      '/:id/replay',
      async ({ actor, params, body, status }) =>
        status(202, one(replayWire(await replayRange(app, actor, params.id, body, getRouteWebhook)))),
      {
        params,
        body: RouteReplayRange,
        response: { 202: One(ReplayResult) },
        detail: {
          summary: 'Replay the mail of an inbound route',
          description:
            'Makes a new delivery of every message of the route among the events of the range, due now. 409 while nothing is posted.',
          tags,
          ...refuses({ 409: ['webhook_inactive', NOTHING_POSTED] }),
          ...requires('inbound:write', 'inbound:read'),
        },
      },
    )
