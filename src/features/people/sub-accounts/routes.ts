/**
 * @module /v1/accounts: paths, schemas and one call each. Stats of sub-accounts: see `features/reporting/analytics`.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import type { InviteOwner } from '#features/people/team/invitations.ts'
import { CreatedApiKey, NewApiKey, toApiKeyWire } from '#features/setup/api-keys/model.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody, idKey, pageBody } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import {
  NewSubAccountBody,
  SubAccountChangeBody,
  SubAccountDeletion,
  SubAccountRecord,
  subAccountWire,
} from './model.ts'
import {
  changeSubAccount,
  createSubAccount,
  createSubAccountKey,
  type DeleteAccount,
  deleteSubAccount,
  getSubAccount,
  readSubAccountPage,
} from './sub-accounts.ts'

const tags = ['Sub-accounts']
const managed = requires('sub_accounts:manage')

const params = Type.Object({ id: Type.String({ description: 'Id of the sub-account.' }) })

export const subAccountRoutes = (
  app: App,
  { deleteAccount, inviteOwner }: { readonly deleteAccount: DeleteAccount; readonly inviteOwner: InviteOwner },
) =>
  new Elysia({ prefix: '/v1/accounts', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { subAccounts, total } = readSubAccountPage(app, actor, page)
        return pageBody(
          subAccounts.map(subAccountWire),
          { ...page, total },
          idKey(subAccounts.map(({ account }) => account)),
        )
      },
      {
        query: PageQuery,
        response: PageBody(SubAccountRecord),
        detail: describeRoute('List sub-accounts', managed, 'Newest first.'),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => {
        const { name, email, password } = body
        const monthlyQuota = body.monthly_quota ?? undefined
        const created = await createSubAccount(app, actor, { name, email, password, monthlyQuota }, inviteOwner)
        return status(201, dataBody(subAccountWire(created)))
      },
      {
        body: NewSubAccountBody,
        response: { 201: DataBody(SubAccountRecord) },
        detail: describeRoute(
          'Create a sub-account',
          requires('sub_accounts:manage', 'account:admin'),
          "Creates a separate account on your plan, together with its owner. The owner can sign in and has every right in it; therefore this needs the scope `account:admin`. If the owner's address already belongs to a user, that user keeps the password and becomes the owner through an invitation sent by mail; the response is the same. Mail of the sub-account counts against your quota too. A sub-account cannot have sub-accounts.",
        ),
      },
    )
    .get('/:id', ({ actor, params: { id } }) => dataBody(subAccountWire(getSubAccount(app, actor, id))), {
      params,
      response: DataBody(SubAccountRecord),
      detail: describeRoute('Get a sub-account', managed),
    })
    .patch(
      '/:id',
      async ({ actor, params: { id }, body }) =>
        dataBody(
          subAccountWire(
            await changeSubAccount(app, actor, id, {
              name: body.name,
              monthlyQuota: body.monthly_quota,
              isActive: body.is_active,
            }),
          ),
        ),
      {
        params,
        body: SubAccountChangeBody,
        response: DataBody(SubAccountRecord),
        detail: describeRoute(
          'Change a sub-account',
          managed,
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
        response: { 202: DataBody(SubAccountDeletion) },
        detail: describeRoute(
          'Delete a sub-account',
          managed,
          'Permanently, with all its data. Its keys become invalid immediately; the rest is removed after the response.',
        ),
      },
    )
    .post(
      '/:id/api-keys',
      async ({ actor, params: { id }, body, status }) => {
        const { name, scopes, ...limits } = body
        const created = await createSubAccountKey(app, actor, id, { name, scopes: scopes ?? [], limits })
        return status(201, dataBody({ ...toApiKeyWire(created, app.clock.now()), key: created.key }))
      },
      {
        params,
        body: NewApiKey,
        response: { 201: DataBody(CreatedApiKey) },
        detail: describeRoute(
          'Create an API key of a sub-account',
          managed,
          'The key acts in the sub-account. It can have only scopes that the calling key has.',
        ),
      },
    )
