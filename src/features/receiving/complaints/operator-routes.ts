/** @module /v1/operator/complaints: spam complaints about the mail of all accounts. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findAccount, findFilteredAccountId, searchAccounts } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery } from '#features/core/accounts/model.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import { pageById, toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { listComplaints, readComplaintRate, type StoredComplaint } from './rate.ts'

const OperatorComplaint = Type.Object({
  id: S.Text('Id of the complaint.'),
  account_id: S.UuidOrNull('Id of the account; null: it is deleted.'),
  account: S.TextOrNull('Name of the account; null: it is deleted.'),
  email_id: S.UuidOrNull('Id of the email; null: it is deleted.'),
  complainer: S.TextOrNull('Address that complained; null: the report does not name it.'),
  feedback_type: S.Text('abuse, fraud, virus, not-spam or other.'),
  feedback_loop: S.TextOrNull('Provider that provably sent the report; null: no proof, so it pauses no account.'),
  reporter: S.TextOrNull('Program or server that sent the report.'),
  created_at: S.Timestamp({ description: 'When it arrived.' }),
})
const ComplaintRate = Type.Object({
  account_id: S.Uuid({ description: 'Id of the account.' }),
  account: S.Text('Name of the account.'),
  delivered: S.Count('Delivered recipients, without sandbox mail.'),
  complaints: S.Count('Complaints.'),
  rate: S.Nullable(Type.Number(), { description: 'Complaints per delivered recipient; null: none delivered.' }),
})

const RATE_DAYS = 30

export const operatorComplaintRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get(
      '/complaint-rates',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'complaints' })
        const page = S.parsePage(query)
        const { accounts, total } = searchAccounts(app.config, app.db, {}, page)
        const to = app.clock.now()
        const period = { from: to - days(RATE_DAYS), to }
        return pageById(accounts, { ...page, total }, ({ id, uuid, name }) => ({
          account_id: formatUuid(uuid),
          account: name,
          ...readComplaintRate(app.db, id, period),
        }))
      },
      {
        query: S.PageQuery,
        response: S.PageBody(ComplaintRate),
        detail: operatorRoute('List the complaint rates of accounts', `Of the last ${RATE_DAYS} days; newest first.`),
      },
    )
    .get(
      '/complaints',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'complaints' })
        const page = S.parsePage(query)
        const found = listComplaints(app.db, findFilteredAccountId(app, query.account_id), page)
        return pageById(found.complaints, { ...page, total: found.total }, (complaint) =>
          toComplaintWire(app, complaint),
        )
      },
      {
        query: OfAccountQuery,
        response: S.PageBody(OperatorComplaint),
        detail: operatorRoute('List spam complaints', 'Newest first.'),
      },
    )

const toComplaintWire = (app: App, complaint: StoredComplaint) => {
  const account = findAccount(app.config, app.db, complaint.accountId)
  return toWire(OperatorComplaint, complaint, {
    id: String(complaint.id),
    account_id: account ? formatUuid(account.uuid) : null,
    account: account?.name ?? null,
    email_id: complaint.emailUuid && formatUuid(complaint.emailUuid),
    complainer: complaint.address,
  })
}
