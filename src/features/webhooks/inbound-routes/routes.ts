/**
 * @module Routes of /v1/inbound-routes: paths, schemas and one call each, and the deliveries of one inbound email. Also
 * /v1/operator/webhooks: the webhooks of all accounts, those of inbound routes included.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findFilteredAccountId, getAccount } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery } from '#features/core/accounts/model.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import { PASSWORD_REQUIRED, requireRecentPassword } from '#features/people/team/credentials.ts'
import { getInbound } from '#features/receiving/inbound/api/inbound-emails.ts'
import { getDelivery, listDeliveries } from '#features/webhooks/webhooks/history/history.ts'
import * as history from '#features/webhooks/webhooks/history/model.ts'
import { toWebhookWire, WebhookRecord } from '#features/webhooks/webhooks/history/model.ts'
import {
  countReplay,
  MAX_TESTS,
  replayDelivery,
  replayRange,
  sendTestEvent,
} from '#features/webhooks/webhooks/history/replay.ts'
import { revealInboundSecret, rotateInboundSecret } from '#features/webhooks/webhooks/manage/secrets.ts'
import {
  findRouteWebhook,
  findWebhook,
  listWebhooksOfAll,
  type Webhook,
} from '#features/webhooks/webhooks/manage/webhooks.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { errorResponses, sessionOnly } from '#platform/http/access.ts'
import { dataBody, pageBody, pageById } from '#platform/http/envelope.ts'
import {
  DataBody,
  notFoundById,
  type Page,
  PageBody,
  PageQuery,
  parsePage,
  Text,
  TextOrNull,
} from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import * as routes from './inbound-routes.ts'
import { findRouteById, formatRouteLabel } from './inbound-routes.ts'
import * as model from './model.ts'

const reads = describeWith('inbound:read')
const writes = describeWith('inbound:write')
const replays = describeWith('inbound:write', 'inbound:read')
const ID = Text('Id of the route.')
const params = Type.Object({ id: ID })
const SAME_ROUTE_NOTE = 'The domain has a route with this pattern and match_type'
const URL_SCOPE_NOTE =
  'With a `webhook_url` it also needs the scope `inbound:read`, because received mail is posted there.'
const NOTHING_POSTED_NOTE = 'The route has no webhook_url, or is not active.'

/** The deliveries of an inbound email, which belong to its route. */
export const inboundDeliveryRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/inbound', tags: ['Inbound'] })
    .use(authenticated)
    .get(
      '/:id/deliveries',
      ({ actor, params, query }) => listEmailDeliveries(app, actor.accountId, params.id ?? '', parsePage(query)),
      {
        params: Type.Object({ id: TextOrNull('Id of the inbound email.') }),
        query: PageQuery,
        response: PageBody(model.RouteDelivery),
        detail: reads(
          'List the deliveries of an inbound email',
          'To the webhook_url of its route: the first, and one for each replay, newest first. Empty when no route matched, or the route has no webhook_url or was deleted.',
        ),
      },
    )

export const inboundRouteRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/inbound-routes', tags: ['Inbound routes'] })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { rows, total } = routes.listRoutes(app.db, actor.accountId, page)
        return pageById(rows, { ...page, total }, (row) => model.toRouteWire(row, actor.accountUuid))
      },
      {
        query: PageQuery,
        response: PageBody(model.RouteRecord),
        detail: reads('List inbound routes', 'Newest first.'),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) =>
        status(
          201,
          dataBody(
            model.toRouteWire(await routes.createRoute(app, actor, model.toRouteInput(body)), actor.accountUuid),
          ),
        ),
      {
        body: model.NewRoute,
        response: { 201: DataBody(model.RouteRecord) },
        detail: writes(
          'Create an inbound route',
          `The domain need not be verified yet. 409 when the domain has a route with the same pattern and match_type; an account has at most ${routes.MAX_ROUTES} routes. ${URL_SCOPE_NOTE}`,
          errorResponses({
            409: ['inbound_route_exists', `${SAME_ROUTE_NOTE}, or the account has ${routes.MAX_ROUTES} routes.`],
          }),
        ),
      },
    )
    .get('/match', ({ actor, query }) => dataBody(routes.matchAddress(app, actor.accountId, query.address)), {
      query: model.MatchQuery,
      response: DataBody(model.AddressMatchRecord),
      detail: describeWith('inbound:read', 'mailboxes:read')(
        'Test an address against the routes',
        'What would happen now to mail for an address: a mailbox comes first, then the routes of the domain.',
      ),
    })
    .post(
      '/secret/reveal',
      async ({ actor }) => {
        requireRecentPassword(app, actor)
        return dataBody({ secret: await revealInboundSecret(app, actor) })
      },
      {
        response: DataBody(history.SecretResult),
        detail: writes(
          'Show the signing secret of inbound routes',
          'One secret signs the requests to the URLs of all routes; it is created when there is none. For signed-in users only. The audit log records it.',
          { ...sessionOnly, ...errorResponses({ 403: PASSWORD_REQUIRED }) },
        ),
      },
    )
    .post(
      '/secret/rotate',
      async ({ actor }) => {
        requireRecentPassword(app, actor)
        return dataBody({ secret: await rotateInboundSecret(app, actor) })
      },
      {
        response: DataBody(history.SecretResult),
        detail: writes(
          'Replace the signing secret of inbound routes',
          'For signed-in users only. The new secret signs every later attempt, including retries. In the header webhook-signature, the old one also signs for a day.',
          { ...sessionOnly, ...errorResponses({ 403: PASSWORD_REQUIRED }) },
        ),
      },
    )
    .get(
      '/:id',
      ({ actor, params }) =>
        dataBody(model.toRouteWire(routes.getRoute(app.db, actor.accountId, params.id), actor.accountUuid)),
      {
        params,
        response: DataBody(model.RouteRecord),
        detail: reads('Get an inbound route'),
      },
    )
    .put(
      '/:id',
      async ({ actor, params, body }) =>
        dataBody(
          model.toRouteWire(
            await routes.changeRoute(app, actor, params.id, model.toRouteChange(body)),
            actor.accountUuid,
          ),
        ),
      {
        params,
        body: model.RouteChangeBody,
        response: DataBody(model.RouteRecord),
        detail: writes(
          'Change an inbound route',
          `Omitted fields keep their value. Any change reactivates a webhook that failures deactivated. Mail from the inactive time is not posted, but can be replayed. ${URL_SCOPE_NOTE}`,
          errorResponses({ 409: ['inbound_route_exists', `${SAME_ROUTE_NOTE}.`] }),
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => routes.deleteRoute(app, actor, params.id), {
      params,
      detail: writes(
        'Delete an inbound route',
        'Its mail is kept; nothing more is posted, and its deliveries are deleted.',
      ),
    })
    .post(
      '/:id/test',
      async ({ actor, params }) => dataBody(await sendTestEvent(app, actor, params.id, routes.getRouteWebhook)),
      {
        params,
        response: DataBody(history.TestResult),
        detail: writes(
          'Send a test event to an inbound route',
          `At most ${MAX_TESTS} a minute to its webhook_url, neither retried nor counted as a failure. 409 when it never had a webhook_url.`,
          errorResponses({ 409: ['webhook_inactive', 'The route never had a webhook_url.'] }),
        ),
      },
    )
    .get(
      '/:id/deliveries',
      ({ actor, params, query }) => {
        const webhook = findRouteWebhook(app.db, routes.getRoute(app.db, actor.accountId, params.id).id)
        const page = parsePage(query)
        if (!webhook) return pageBody([], { ...page, total: 0 })
        const { rows, total } = listDeliveries(app.db, webhook, { status: query.status }, page)
        const deliveries = rows.map((row) => model.toRouteDeliveryWire(row, webhook, app.keys))
        return pageBody(deliveries, { ...page, total })
      },
      {
        params,
        query: model.RouteDeliveryQuery,
        response: PageBody(model.RouteDelivery),
        detail: reads(
          'List the deliveries of an inbound route',
          `What was posted to its webhook_url, newest first. ${history.HISTORY_LIMIT_NOTE}`,
        ),
      },
    )
    .post(
      '/:id/deliveries/:delivery_id/replay',
      async ({ actor, params, status }) => {
        const delivery = await replayDelivery(app, actor, params.id, params.delivery_id, routes.getRouteWebhook)
        const webhook = routes.getRouteWebhook(app.db, actor.accountId, params.id)
        return status(202, dataBody(model.toRouteDeliveryWire(delivery, webhook, app.keys)))
      },
      {
        params: Type.Object({ id: ID, delivery_id: Text('Id of the delivery.') }),
        response: { 202: DataBody(model.RouteDelivery) },
        detail: replays(
          'Replay a delivery of an inbound route',
          'Creates a new delivery with the same body, due now. 409 while the route posts nothing.',
          errorResponses({ 409: ['webhook_inactive', NOTHING_POSTED_NOTE] }),
        ),
      },
    )
    .post(
      '/:id/replay/count',
      async ({ actor, params, body }) =>
        dataBody(await countReplay(app, actor, params.id, body, routes.getRouteWebhook)),
      {
        params,
        body: model.RouteReplayRange,
        response: DataBody(history.ReplayCount),
        detail: reads(
          'Count the mail of an inbound route',
          'What a replay of the range would queue; nothing is queued. Also while the route posts nothing, as if it were activated now; 409 when it never had a webhook_url.',
          errorResponses({ 409: ['webhook_inactive', 'The route never had a webhook_url.'] }),
        ),
      },
    )
    .post(
      '/:id/replay',
      async ({ actor, params, body, status }) =>
        status(202, dataBody(await replayRange(app, actor, params.id, body, routes.getRouteWebhook))),
      {
        params,
        body: model.RouteReplayRange,
        response: { 202: DataBody(history.ReplayResult) },
        detail: replays(
          'Replay the mail of an inbound route',
          'Creates a new delivery, due now, for every message of the route among the events of the range. 409 while the route posts nothing.',
          errorResponses({ 409: ['webhook_inactive', NOTHING_POSTED_NOTE] }),
        ),
      },
    )

const sql = prepareStatements((db) => ({
  event: db.prepare<{ routeId: number; seq: number }, [number]>(
    'SELECT route_id AS routeId, event_seq AS seq FROM inbound_emails WHERE id = ? AND route_id IS NOT NULL AND event_seq IS NOT NULL',
  ),
  page: db.prepare<{ uuid: Uint8Array }, [number, number, number, number]>(
    'SELECT uuid FROM webhook_deliveries INDEXED BY webhook_deliveries_seq WHERE webhook_id = ? AND seq = ? ORDER BY id DESC LIMIT ? OFFSET ?',
  ),
  count: db.prepare<{ n: number }, [number, number]>(
    'SELECT COUNT(*) AS n FROM webhook_deliveries INDEXED BY webhook_deliveries_seq WHERE webhook_id = ? AND seq = ?',
  ),
}))

/**
 * A page of the deliveries of the account's inbound email: one, and another for each replay, newest first. Throws 404
 * for an unknown email. Empty when no route matched, or the route has no URL or was deleted.
 * @param id public id of the inbound email
 */
function listEmailDeliveries(app: App, accountId: number, id: string, page: Page) {
  const { db, keys } = app
  const event = sql(db).event.get(getInbound(db, accountId, id).id)
  const webhook = event && findRouteWebhook(db, event.routeId)
  if (!webhook) return pageBody([], { ...page, total: 0 })
  const deliveries = sql(db).page.all(webhook.id, event.seq, page.limit, page.offset)
  return pageBody(
    deliveries.map(({ uuid }) => model.toRouteDeliveryWire(getDelivery(db, webhook, uuid), webhook, keys)),
    { ...page, total: sql(db).count.get(webhook.id, event.seq)?.n ?? 0 },
  )
}

const OperatorWebhook = Type.Object({
  ...WebhookRecord.properties,
  account: Text('Name of its account.'),
  off_by_failures: Type.Boolean({ description: 'Whether failures deactivated it, not its user.' }),
  route: TextOrNull('Addresses of the inbound route of the same id, to which it belongs; null: to none.'),
})

export const operatorWebhookRoutes = (app: App) => {
  const toWire = (webhook: Webhook) => {
    const { uuid, name } = getAccount(app.config, app.db, webhook.accountId)
    const route = webhook.routeId === null ? undefined : findRouteById(app.db, webhook.routeId)
    return {
      ...toWebhookWire(webhook, formatUuid(uuid)),
      account: name,
      off_by_failures: webhook.offByFailures,
      route: webhook.routeId === null ? null : route ? formatRouteLabel(route) : 'a deleted domain',
    }
  }
  return new Elysia({ prefix: '/v1/operator/webhooks' })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'webhooks' })
        const page = parsePage(query)
        const { rows, total } = listWebhooksOfAll(app.db, findFilteredAccountId(app, query.account_id), page)
        return pageById(rows, { ...page, total }, toWire)
      },
      {
        query: OfAccountQuery,
        response: PageBody(OperatorWebhook),
        detail: operatorRoute('List the webhooks of all accounts', 'With those of inbound routes, newest first.'),
      },
    )
    .get(
      '/:id',
      async ({ actor, params }) => {
        const webhook = findWebhook(app.db, params.id)
        if (!webhook) throw notFoundById('webhook_not_found', 'webhook')
        await recordView(app, actor, { name: 'webhook', id: params.id })
        return dataBody(toWire(webhook))
      },
      {
        params: Type.Object({ id: Text('Id of the webhook, or of its inbound route.') }),
        response: DataBody(OperatorWebhook),
        detail: operatorRoute('Get a webhook of any account', undefined, {
          404: ['webhook_not_found', 'No webhook has this id.'],
        }),
      },
    )
}
