/** @module /v1/account, and the accounts of the service at /v1/operator/accounts. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute, requires, requiresOrSupport } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, parsePage } from '#platform/http/schemas.ts'
import { parseUuid } from '#platform/ids.ts'
import {
  type AccountSendingState,
  changeAccount,
  findAccountByUuid,
  readAccountState,
  searchAccounts,
} from './accounts.ts'
import {
  AccountChange,
  AccountRecord,
  AccountsQuery,
  OperatorAccount,
  toAccountWire,
  toOperatorAccount,
} from './model.ts'

const tags = ['Account']

export const accountRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/account', tags })
    .use(authenticated)
    .get('/', ({ actor }) => dataBody(toAccountWire(readAccountState(app, actor))), {
      response: DataBody(AccountRecord),
      detail: describeRoute('Get the account', requiresOrSupport('account:read')),
    })
    .patch('/', async ({ actor, body }) => dataBody(toAccountWire(await changeAccount(app, actor, body))), {
      body: AccountChange,
      response: DataBody(AccountRecord),
      detail: describeRoute('Change the account', requires('account:admin'), 'Omitted fields keep their value.'),
    })

export const operatorAccountRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/accounts' }).use(authenticated).get(
    '/',
    async ({ actor, query }) => {
      await recordView(app, actor, { name: 'accounts' })
      const page = parsePage(query)
      const { accounts, total } = findAccounts(app, query, page)
      return pageById(accounts, { ...page, total }, (account) => toOperatorAccount(app, account))
    },
    {
      query: AccountsQuery,
      response: PageBody(OperatorAccount),
      detail: operatorRoute('List the accounts', 'Newest first.'),
    },
  )

/** An id finds its account; other text is searched in names and addresses. */
function findAccounts(
  { config, db }: App,
  { q, state }: { readonly q?: string; readonly state?: AccountSendingState },
  page: Parameters<typeof searchAccounts>[3],
): ReturnType<typeof searchAccounts> {
  const text = q?.trim()
  const uuid = text === undefined ? undefined : parseUuid(text)
  if (!uuid) return searchAccounts(config, db, { text: text === '' ? undefined : text, state }, page)
  const account = findAccountByUuid(config, db, uuid)
  return { accounts: account ? [account] : [], total: account ? 1 : 0 }
}
