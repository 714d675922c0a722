/** @module /v1/operator/complaints: spam complaints about the mail of all accounts. */
import { Elysia } from 'elysia'
import { findFilteredAccountId, searchAccounts } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery } from '#features/core/accounts/model.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/view-log.ts'
import { idKey, pageBody } from '#platform/http/envelope.ts'
import { PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { ComplaintRate, OperatorComplaint, toComplaintWire } from './model.ts'
import { listComplaints, readComplaintRate } from './rate.ts'

const RATE_DAYS = 30

export const operatorComplaintRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get(
      '/complaint-rates',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'complaints' })
        const page = parsePage(query)
        const { accounts, total } = searchAccounts(app.config, app.db, {}, page)
        const to = app.clock.now()
        const period = { from: to - days(RATE_DAYS), to }
        const rows = accounts.map(({ id, uuid, name }) => ({
          account_id: formatUuid(uuid),
          account: name,
          ...readComplaintRate(app.db, id, period),
        }))
        return pageBody(rows, { ...page, total }, idKey(accounts))
      },
      {
        query: PageQuery,
        response: PageBody(ComplaintRate),
        detail: operatorRoute('List the complaint rates of accounts', `Of the last ${RATE_DAYS} days; newest first.`),
      },
    )
    .get(
      '/complaints',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'complaints' })
        const page = parsePage(query)
        const found = listComplaints(app.db, findFilteredAccountId(app, query.account_id), page)
        const rows = found.complaints.map((complaint) => toComplaintWire(app, complaint))
        return pageBody(rows, { ...page, total: found.total }, found.lastKey)
      },
      {
        query: OfAccountQuery,
        response: PageBody(OperatorComplaint),
        detail: operatorRoute('List spam complaints', 'Newest first.'),
      },
    )
