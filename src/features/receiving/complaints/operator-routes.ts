/** @module /v1/operator/complaints: spam complaints about the mail of all accounts. */
import { Elysia } from 'elysia'
import { findFilteredAccountId } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery } from '#features/core/accounts/model.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/view-log.ts'
import { pageBody } from '#platform/http/envelope.ts'
import { PageBody, parsePage } from '#platform/http/schemas.ts'
import { OperatorComplaint, toComplaintWire } from './model.ts'
import { listComplaints } from './rate.ts'

export const operatorComplaintRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/complaints' }).use(authenticated).get(
    '/',
    async ({ actor, query }) => {
      await recordView(app, actor, { name: 'complaints' })
      const page = parsePage(query)
      const found = listComplaints(app.db, findFilteredAccountId(app, query.account_id), page)
      return pageBody(
        found.complaints.map((complaint) => toComplaintWire(app, complaint)),
        { ...page, total: found.total },
        found.lastKey,
      )
    },
    {
      query: OfAccountQuery,
      response: PageBody(OperatorComplaint),
      detail: operatorRoute('List spam complaints', 'Newest first.'),
    },
  )
