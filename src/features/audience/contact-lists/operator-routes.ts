/** @module /v1/operator/contact-lists: the contact lists of all accounts with their contacts by status. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findFilteredAccountId, getAccount } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery } from '#features/core/accounts/model.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import type { ContactList } from '#features/setup/contact-store/lists.ts'
import { CONTACT_STATUSES, type ContactStatus, readContactCount } from '#features/setup/contact-store/status.ts'
import { newestFirst, prepareStatements } from '#platform/db/open.ts'
import { pageById } from '#platform/http/envelope.ts'
import { Count, PageBody, parsePage, Text } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { LIST_FIELDS } from './model.ts'

const OperatorContactList = Type.Object({
  id: LIST_FIELDS.id,
  account_id: LIST_FIELDS.account_id,
  account: Text('Name of the account.'),
  name: LIST_FIELDS.name,
  contacts: Type.Object(
    {
      active: Count('Contacts that get mail.'),
      pending: Count('Contacts that have not confirmed.'),
      unsubscribed: Count('Contacts that unsubscribed.'),
      bounced: Count('Contacts whose address bounced.'),
      complained: Count('Contacts that complained.'),
    },
    { description: 'Number of contacts by status.' },
  ),
})

type ContactCounts = Record<ContactStatus, number>

const sql = prepareStatements((db) => ({
  list: newestFirst<Pick<ContactList, 'id' | 'uuid' | 'accountId' | 'name'>, [number | null]>(
    db,
    'SELECT id, uuid, account_id AS accountId, name FROM contact_lists',
    'contact_lists WHERE deleted_at IS NULL AND account_id = coalesce(?, account_id)',
  ),
}))

export const operatorContactListRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/contact-lists' }).use(authenticated).get(
    '/',
    async ({ actor, query }) => {
      await recordView(app, actor, { name: 'contact_lists' })
      const { config, db } = app
      const page = parsePage(query)
      const { rows, total } = sql(db).list(page, findFilteredAccountId(app, query.account_id) ?? null)
      return pageById(rows, { ...page, total }, ({ id, uuid, accountId, name }) => {
        const account = getAccount(config, db, accountId)
        const count = (status: ContactStatus) => readContactCount(db, accountId, id, status)
        return {
          id: formatUuid(uuid),
          account_id: formatUuid(account.uuid),
          account: account.name,
          name,
          contacts: Object.fromEntries(CONTACT_STATUSES.map((status) => [status, count(status)])) as ContactCounts,
        }
      })
    },
    {
      query: OfAccountQuery,
      response: PageBody(OperatorContactList),
      detail: operatorRoute('List the contact lists', 'Of all accounts, newest first.'),
    },
  )
