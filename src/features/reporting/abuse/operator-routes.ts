/** @module /v1/operator: whether an account may send, its pause, abuse findings. Paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type Account, findFilteredAccountId, requireAccount } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery } from '#features/core/accounts/model.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/view-log.ts'
import { listMembers } from '#features/people/team/users.ts'
import { readComplaintRate } from '#features/receiving/complaints/rate.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, parsePage, Text } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { listFindings } from './findings.ts'
import { Finding, OperatorAccountDetail, PauseRequest, ResumeResult, toFindingWire } from './model.ts'
import { pauseByOperator, readAccountStatus, resumeByOperator } from './operator-accounts.ts'

const params = Type.Object({ id: Text('Id of the account.') })
const RATE_DAYS = 30
const MAX_MEMBERS_SHOWN = 20
const ACCOUNT_NOT_FOUND = ['account_not_found', 'No account has this id.'] as const

export const operatorAbuseRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get(
      '/accounts/:id',
      async ({ actor, params: { id } }) => {
        const account = requireAccount(app, id)
        await recordView(app, actor, { name: 'account', id: formatUuid(account.uuid) })
        return dataBody(toAccountDetail(app, account))
      },
      {
        params,
        response: DataBody(OperatorAccountDetail),
        detail: operatorRoute('Get an account', undefined, { 404: ACCOUNT_NOT_FOUND }),
      },
    )
    .post(
      '/accounts/:id/pause',
      async ({ actor, body, params: { id } }) => {
        await pauseByOperator(app, actor, requireAccount(app, id), body.reason)
        return dataBody(toAccountDetail(app, requireAccount(app, id)))
      },
      {
        params,
        body: PauseRequest,
        response: DataBody(OperatorAccountDetail),
        detail: operatorRoute(
          'Pause an account',
          'It cannot send, and its queued mail is held. Its users are told, with the reason.',
          { 404: ACCOUNT_NOT_FOUND, 409: ['account_paused', 'The account is paused already.'] },
        ),
      },
    )
    .post(
      '/accounts/:id/resume',
      async ({ actor, params: { id } }) => dataBody(await resumeByOperator(app, actor, requireAccount(app, id))),
      {
        params,
        response: DataBody(ResumeResult),
        detail: operatorRoute('Resume a paused account', 'Its held mail is queued again.', {
          404: ACCOUNT_NOT_FOUND,
          409: ['account_not_paused', 'The account is not paused.'],
        }),
      },
    )
    .get(
      '/findings',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'findings' })
        const page = parsePage(query)
        const { findings, total } = listFindings(app.db, findFilteredAccountId(app, query.account_id), page)
        return pageById(findings, { ...page, total }, toFindingWire)
      },
      {
        query: OfAccountQuery,
        response: PageBody(Finding),
        detail: operatorRoute(
          'List abuse findings',
          'What the monitoring of accounts found, and pauses; newest first.',
        ),
      },
    )

function toAccountDetail(app: App, account: Account) {
  const to = app.clock.now()
  return {
    ...readAccountStatus(app, account),
    last_30_days: readComplaintRate(app.db, account.id, { from: to - days(RATE_DAYS), to }),
    members: listMembers(app.db, account.id)
      .slice(0, MAX_MEMBERS_SHOWN)
      .map(({ email, role }) => ({ email, role })),
  }
}
