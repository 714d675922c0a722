/** @module /v1/insights: paths, shapes and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { dataBody, pageBody, timeKey } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { DataBody, PageBody, PageQuery, parsePage, Text } from '#platform/http/schemas.ts'
import { createGenerateInsight } from './generate.ts'
import { acknowledgeInsight, getInsight, InsightRecord, insightWire, listInsights } from './insights.ts'
import type { ReadWebhookStats } from './stats.ts'

const tags = ['Insights']
const administers = describeWith('account:admin')
const params = Type.Object({ id: Text('Id of the report.') })

export function insightRoutes(app: App, { webhookStats }: { readonly webhookStats: ReadWebhookStats }) {
  const generate = createGenerateInsight(app, webhookStats)
  return new Elysia({ prefix: '/v1/insights', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { insights, total } = listInsights(app.db, actor.accountId, page)
        return pageBody(
          insights.map((insight) => insightWire(insight, actor.accountUuid)),
          { ...page, total },
          timeKey(insights, ({ generatedAt }) => generatedAt),
        )
      },
      {
        query: PageQuery,
        response: PageBody(InsightRecord),
        detail: administers('List reports', 'Newest first.'),
      },
    )
    .post(
      '/generate',
      ({ actor, request }) =>
        withoutTimeLimit(request, async () => insightWire(await generate(actor), actor.accountUuid)),
      {
        // A copy: Elysia sets a keyword of a whole response at its first use, and other responses share the schema.
        response: { ...InsightRecord },
        detail: administers(
          'Generate a report',
          "The operator's language model reports on the stats of the last four weeks. It gets stats only, and its answer is checked against them. Takes up to a minute. One report in 24 hours, otherwise a 429; failures do not count. 503 if no model is configured.",
        ),
      },
    )
    .get(
      '/:id',
      ({ actor, params }) => dataBody(insightWire(getInsight(app.db, actor.accountId, params.id), actor.accountUuid)),
      {
        params,
        response: DataBody(InsightRecord),
        detail: administers('Get a report'),
      },
    )
    .post(
      '/:id/acknowledge',
      async ({ actor, params }) =>
        dataBody(insightWire(await acknowledgeInsight(app, actor, params.id), actor.accountUuid)),
      {
        params,
        response: DataBody(InsightRecord),
        detail: administers('Acknowledge a report', 'Records that the report was read. Later calls change nothing.'),
      },
    )
}
