/** @module /v1/operator/webhooks: the webhooks of all accounts, those of inbound routes included. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findFilteredAccountId, getAccount } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery } from '#features/core/accounts/model.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import { toWebhookWire, WebhookRecord } from '#features/webhooks/webhooks/history/model.ts'
import { findWebhook, listWebhooksOfAll, type Webhook } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, notFoundById, PageBody, parsePage, Text, TextOrNull } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { findRouteById, formatRouteLabel } from './inbound-routes.ts'

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
