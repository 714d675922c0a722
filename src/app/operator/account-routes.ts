/** @module /v1/operator: accounts, their pause, findings and complaints. Paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type Account, findAccountByUuid, searchAccounts } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated } from '#features/core/app/http.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { listMembers } from '#features/people/team/users.ts'
import { listComplaints, readComplaintRate } from '#features/receiving/complaints/rate.ts'
import { listFindings } from '#features/reporting/abuse/findings.ts'
import { dataBody, idKey, pageBody } from '#platform/http/envelope.ts'
import { DataBody, notFoundById, PageBody, parsePage } from '#platform/http/schemas.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { toComplaintWire, toFindingWire } from './abuse.ts'
import {
  parsePauseReason,
  pauseByOperator,
  readAccountStatus,
  readPools,
  resumeByOperator,
  setPool,
  toAccountView,
} from './accounts.ts'
import { type OperatorContext, operatorRoute } from './context.ts'
import {
  AccountPools,
  AccountsQuery,
  Finding,
  OfAccountQuery,
  OperatorAccount,
  OperatorAccountDetail,
  OperatorComplaint,
  PauseRequest,
  PoolRequest,
  ResumeResult,
} from './model.ts'
import { toServiceActor } from './view-log.ts'

const params = Type.Object({ id: Type.String({ description: 'Id of the account.' }) })
const RATE_DAYS = 30
const MAX_MEMBERS_SHOWN = 20
const ACCOUNT_NOT_FOUND = ['account_not_found', 'No account has this id.'] as const

export const operatorAccountRoutes = ({ opened: { app }, recordView }: OperatorContext) =>
  new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get(
      '/accounts',
      async ({ actor, query }) => {
        await recordView(actor, { name: 'accounts' })
        const page = parsePage(query)
        const { accounts, total } = findAccounts(app, query, page)
        return pageBody(
          accounts.map((account) => toAccountView(app, account)),
          { ...page, total },
          idKey(accounts),
        )
      },
      {
        query: AccountsQuery,
        response: PageBody(OperatorAccount),
        detail: operatorRoute('List the accounts', 'Newest first.'),
      },
    )
    .get(
      '/accounts/:id',
      async ({ actor, params: { id } }) => {
        const account = requireAccount(app, id)
        await recordView(actor, { name: 'account', id: formatUuid(account.uuid) })
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
        const reason = parsePauseReason(body.reason)
        const account = requireAccount(app, id)
        await pauseByOperator(app, toAccountActor(account), reason, (tx) =>
          audit(app, tx, toServiceActor(actor), {
            action: 'operator.account_paused',
            resourceType: 'account',
            resourceId: formatUuid(account.uuid),
            metadata: { reason },
          }),
        )
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
      async ({ actor, params: { id } }) => {
        const account = requireAccount(app, id)
        return dataBody(
          await resumeByOperator(app, toAccountActor(account), (tx) =>
            audit(app, tx, toServiceActor(actor), {
              action: 'operator.account_resumed',
              resourceType: 'account',
              resourceId: formatUuid(account.uuid),
            }),
          ),
        )
      },
      {
        params,
        response: DataBody(ResumeResult),
        detail: operatorRoute('Resume a paused account', 'Its held mail is queued again.', {
          404: ACCOUNT_NOT_FOUND,
          409: ['account_not_paused', 'The account is not paused.'],
        }),
      },
    )
    .put(
      '/accounts/:id/pool',
      async ({ actor, body, params: { id } }) => {
        const account = requireAccount(app, id)
        await setPool(app, toServiceActor(actor), account.id, body)
        return dataBody(readPools(app, account.id))
      },
      {
        params,
        body: PoolRequest,
        response: DataBody(AccountPools),
        detail: operatorRoute(
          'Choose the outgoing addresses of an account or stream',
          'Its mail leaves from the addresses of the pool. The pool of a stream wins over that of its account, and holds for mail accepted from then on; a sub-account without a pool has that of its parent.',
          {
            404: ['account_not_found', 'No account has this id; for a stream, `stream_not_found`.'],
          },
        ),
      },
    )
    .get(
      '/findings',
      async ({ actor, query }) => {
        await recordView(actor, { name: 'findings' })
        const page = parsePage(query)
        const accountId = findAccountId(app, query.account_id)
        if (accountId === null) return pageBody([], { ...page, total: 0 })
        const { findings, total } = listFindings(app.db, accountId, page)
        return pageBody(findings.map(toFindingWire), { ...page, total }, idKey(findings))
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
    .get(
      '/complaints',
      async ({ actor, query }) => {
        await recordView(actor, { name: 'complaints' })
        const page = parsePage(query)
        const accountId = findAccountId(app, query.account_id)
        if (accountId === null) return pageBody([], { ...page, total: 0 })
        const { complaints, total, lastKey } = listComplaints(app.db, accountId, page)
        return pageBody(
          complaints.map((complaint) => toComplaintWire(app.db, complaint)),
          { ...page, total },
          lastKey,
        )
      },
      {
        query: OfAccountQuery,
        response: PageBody(OperatorComplaint),
        detail: operatorRoute('List spam complaints', 'Newest first.'),
      },
    )

/** An id finds its account; other text is searched in names and addresses. */
function findAccounts(
  { config, db }: App,
  { q, state }: { readonly q?: string; readonly state?: 'active' | 'paused' | 'disabled' },
  page: Parameters<typeof searchAccounts>[3],
): ReturnType<typeof searchAccounts> {
  const text = q?.trim()
  const uuid = text === undefined ? undefined : parseUuid(text)
  if (!uuid) return searchAccounts(config, db, { text: text === '' ? undefined : text, state }, page)
  const account = findAccountByUuid(config, db, uuid)
  return { accounts: account ? [account] : [], total: account ? 1 : 0 }
}

function requireAccount({ config, db }: App, id: string): Account {
  const uuid = parseUuid(id)
  const account = uuid && findAccountByUuid(config, db, uuid)
  if (!account) throw notFoundById('account_not_found', 'account')
  return account
}

/** Row id of the account of a filter; undefined: no filter; null: no account has this id. */
function findAccountId({ config, db }: App, id: string | undefined): number | undefined | null {
  if (id === undefined) return undefined
  const uuid = parseUuid(id)
  return (uuid && findAccountByUuid(config, db, uuid)?.id) ?? null
}

/** The operator in the audit log of the account, which its users read: it does not name the person. */
const toAccountActor = ({ id, uuid }: Account): Actor => ({
  accountId: id,
  accountUuid: formatUuid(uuid),
  type: 'operator',
  id: 'dashboard',
  scopes: new Set(),
})

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
