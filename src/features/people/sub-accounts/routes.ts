/**
 * @module /v1/accounts: paths, schemas and one call each. Stats of sub-accounts: see `features/reporting/analytics`.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Account } from '#features/core/accounts/accounts.ts'
import { OperatorAccount, toOperatorAccount } from '#features/core/accounts/model.ts'
import { listSubAccounts } from '#features/core/accounts/rows.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, commandRoute, describeWith } from '#features/core/app/http.ts'
import type { InviteOwner } from '#features/people/team/invitations.ts'
import { CreatedApiKey, NewApiKey, toApiKeyWire } from '#features/setup/api-keys/model.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import * as model from './sub-accounts.ts'
import {
  changeSubAccount,
  createAccount,
  createSubAccount,
  createSubAccountKey,
  type DeleteAccount,
  deleteSubAccount,
  getSubAccount,
} from './sub-accounts.ts'

const tags = ['Sub-accounts']
const manages = describeWith('sub_accounts:manage')

const params = Type.Object({ id: Type.String({ description: 'Id of the sub-account.' }) })

export const subAccountRoutes = (
  app: App,
  { deleteAccount, inviteOwner }: { readonly deleteAccount: DeleteAccount; readonly inviteOwner: InviteOwner },
) => {
  const toBody = (actor: Actor, account: Account) => dataBody(model.subAccountWire(app, actor, account))
  return new Elysia({ prefix: '/v1/accounts', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { accounts, total } = listSubAccounts(app.config, app.db, actor.accountId, page)
        return pageById(accounts, { ...page, total }, (account) => model.subAccountWire(app, actor, account))
      },
      {
        query: PageQuery,
        response: PageBody(model.SubAccountRecord),
        detail: manages('List sub-accounts', 'Newest first.'),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) =>
        status(201, toBody(actor, await createSubAccount(app, actor, body, inviteOwner))),
      {
        body: model.NewSubAccountBody,
        response: { 201: DataBody(model.SubAccountRecord) },
        detail: describeWith('sub_accounts:manage', 'account:admin')(
          'Create a sub-account',
          "Creates a separate account on your plan, together with its owner. The owner can sign in and has every right in it; therefore this needs the scope `account:admin`. If the owner's address already belongs to a user, that user keeps the password and becomes the owner through an invitation sent by mail; the response is the same. Mail of the sub-account counts against your quota too. A sub-account cannot have sub-accounts.",
        ),
      },
    )
    .get('/:id', ({ actor, params: { id } }) => toBody(actor, getSubAccount(app, actor, id)), {
      params,
      response: DataBody(model.SubAccountRecord),
      detail: manages('Get a sub-account'),
    })
    .patch(
      '/:id',
      async ({ actor, params: { id }, body }) => toBody(actor, await changeSubAccount(app, actor, id, body)),
      {
        params,
        body: model.SubAccountChangeBody,
        response: DataBody(model.SubAccountRecord),
        detail: manages(
          'Change a sub-account',
          'Fields that are left out keep their value. While it is disabled, requests with its keys and sessions get a 401.',
        ),
      },
    )
    .delete(
      '/:id',
      async ({ actor, params: { id }, status }) => {
        const { uuid } = await deleteSubAccount(app, actor, id, deleteAccount)
        return status(
          202,
          dataBody({
            message:
              'The sub-account is deleted: its keys are invalid, no more mail is sent, and its data is being removed.',
            account_id: formatUuid(uuid),
          }),
        )
      },
      {
        params,
        response: { 202: DataBody(model.SubAccountDeletion) },
        detail: manages(
          'Delete a sub-account',
          'Permanently, with all its data. Its keys become invalid immediately; the rest is removed after the response.',
        ),
      },
    )
    .post(
      '/:id/api-keys',
      async ({ actor, params: { id }, body, status }) => {
        const { name, scopes, ...limits } = body
        const created = await createSubAccountKey(app, actor, id, { name, scopes, limits })
        return status(201, dataBody({ ...toApiKeyWire(created, app.clock.now()), key: created.key }))
      },
      {
        params,
        body: NewApiKey,
        response: { 201: DataBody(CreatedApiKey) },
        detail: manages(
          'Create an API key of a sub-account',
          'The key acts in the sub-account. It can have only scopes that the calling key has.',
        ),
      },
    )
}

/** POST /v1/operator/accounts: creates an account of the service. */
export const operatorNewAccountRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/accounts' })
    .use(authenticated)
    .post(
      '/',
      async ({ body, status }) => status(201, dataBody(toOperatorAccount(app, await createAccount(app, body)))),
      {
        body: model.NewAccountBody,
        response: { 201: DataBody(OperatorAccount) },
        detail: commandRoute('Create an account'),
      },
    )
