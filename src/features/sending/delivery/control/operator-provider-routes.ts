/** @module /v1/operator/providers: limits, rates and suspensions of receiving providers. Paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView, toServiceActor } from '#features/core/audit-logs/view-log.ts'
import { dataBody, pageBody } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import type { DeliveryScheduler } from '../schedule/scheduler.ts'
import { DeliveryAlert, ProviderQuery, ProviderResumeResult, ServerProvider } from './operator-provider-model.ts'
import { listAlerts, listProviders, resumeProvider } from './operator-providers.ts'

/** @param context.scheduler of this process, once it delivers */
export const operatorProviderRoutes = (
  app: App,
  { scheduler }: { readonly scheduler: () => DeliveryScheduler | undefined },
) =>
  new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get(
      '/providers',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'providers' })
        const page = parsePage(query)
        const { used, all, views } = listProviders(app, scheduler())
        const total = query.used === 'true' ? used : all
        return pageBody(views(page.offset, Math.min(page.offset + page.limit, total)), { ...page, total })
      },
      {
        query: ProviderQuery,
        response: PageBody(ServerProvider),
        detail: operatorRoute(
          'List receiving providers',
          'By provider and outgoing address: limits, rates, suspensions and figures. Suspended ones first, then slowed ones, then those in use.',
        ),
      },
    )
    .get(
      '/alerts',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'providers' })
        const page = parsePage(query)
        const alerts = listAlerts(scheduler())
        return pageBody(alerts.slice(page.offset, page.offset + page.limit), { ...page, total: alerts.length })
      },
      {
        query: PageQuery,
        response: PageBody(DeliveryAlert),
        detail: operatorRoute(
          'List delivery alerts',
          'Replies that blame our addresses or set-up (block lists, reputation, authentication), by provider, outgoing address and rule: the last day, since the start of the service, the newest first. The mail is retried.',
        ),
      },
    )
    .post(
      '/providers/:name/resume',
      async ({ actor, params }) => {
        const resumed = await resumeProvider(app, scheduler(), toServiceActor(actor), params.name)
        return dataBody({ provider: params.name, resumed })
      },
      {
        params: Type.Object({ name: Type.String({ maxLength: 300, description: 'Name of the provider.' }) }),
        response: DataBody(ProviderResumeResult),
        detail: operatorRoute(
          'Lift the suspension of a provider',
          'Also restores a lowered rate. Mail that is due is tried at once; if the provider rejects it again, the suspension begins again.',
          { 404: ['provider_not_found', 'Nothing was sent to a provider of this name.'] },
        ),
      },
    )
