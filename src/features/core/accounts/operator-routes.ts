/** @module /v1/operator/accounts: the accounts of the service. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/view-log.ts'
import { pageById } from '#platform/http/envelope.ts'
import { PageBody, parsePage } from '#platform/http/schemas.ts'
import { parseUuid } from '#platform/ids.ts'
import { type AccountSendingState, findAccountByUuid, searchAccounts } from './accounts.ts'
import { AccountsQuery, OperatorAccount, toOperatorAccount } from './model.ts'

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
