/** @module /v1/operator/users: the users of the whole service, for commands only. Paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { actForAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, commandRoute } from '#features/core/app/http.ts'
import { dataBody, onePageBody } from '#platform/http/envelope.ts'
import { Count, DataBody, PageBody, Text, TextOrNull } from '#platform/http/schemas.ts'
import { NewOperatorUser, OperatorUser, SessionRecord, sessionRecordWire, toOperatorUser } from './model.ts'
import { listSessions } from './sessions.ts'
import {
  createUser,
  createUserResetLink,
  disableUserTotp,
  removeUser,
  requireUser,
  setUserOperator,
  signUserOut,
} from './user-admin.ts'
import { listUsers } from './users.ts'

const params = Type.Object({ email: Type.String({ description: 'Address of the user.' }) })
const memberParams = Type.Object({
  id: Type.String({ description: 'Id of the account.' }),
  email: params.properties.email,
})
const Link = Text('Where the user sets a password, once within 24 hours.')
const NOT_FOUND = { 404: ['user_not_found', 'No user has this address.'] } as const

export const operatorUserRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get('/users', () => onePageBody(listUsers(app.db).map((user) => toOperatorUser(app, user))), {
      response: PageBody(OperatorUser),
      detail: commandRoute('List the users', 'All on one page.'),
    })
    .post(
      '/accounts/:id/users',
      async ({ actor, body, params: { id }, status }) => {
        const { user, link, isKnown } = await createUser(app, actForAccount(app, actor, id), body)
        return status(201, dataBody({ ...toOperatorUser(app, user), link: link ?? null, is_known: isKnown }))
      },
      {
        params: Type.Object({ id: memberParams.properties.id }),
        body: NewOperatorUser,
        response: {
          201: DataBody(
            Type.Object({
              ...OperatorUser.properties,
              link: TextOrNull('Where the user sets a password, once within 24 hours; null: the user has one.'),
              is_known: Type.Boolean({ description: 'Whether the user existed, and joined the team.' }),
            }),
          ),
        },
        detail: commandRoute('Create a user, or add one to a team', undefined, {
          409: ['user_exists', 'The user exists, and a password was given.'],
        }),
      },
    )
    .delete(
      '/accounts/:id/users/:email',
      ({ actor, params: { id, email } }) => removeUser(app, actForAccount(app, actor, id), email),
      {
        params: memberParams,
        detail: commandRoute('Remove a user from a team', 'Even its last owner.', {
          404: ['member_not_found', 'No member of the team has this address.'],
        }),
      },
    )
    .post(
      '/users/:email/reset-link',
      async ({ params: { email } }) => dataBody({ link: await createUserResetLink(app, email) }),
      {
        params,
        response: DataBody(Type.Object({ link: Link })),
        detail: commandRoute('Create a link to set a password', undefined, NOT_FOUND),
      },
    )
    .put(
      '/users/:email/operator',
      async ({ body, params: { email } }) =>
        dataBody(toOperatorUser(app, await setUserOperator(app, email, body.is_operator))),
      {
        params,
        body: Type.Object({ is_operator: OperatorUser.properties.is_operator }),
        response: DataBody(OperatorUser),
        detail: commandRoute('Make a user an operator, or end that', undefined, NOT_FOUND),
      },
    )
    .delete(
      '/users/:email/totp',
      async ({ params: { email } }) => dataBody(toOperatorUser(app, await disableUserTotp(app, email))),
      {
        params,
        response: DataBody(OperatorUser),
        detail: commandRoute('Disable the second factor of a user', undefined, NOT_FOUND),
      },
    )
    .get(
      '/users/:email/sessions',
      ({ params: { email } }) => {
        const sessions = listSessions(app.db, requireUser(app, email).id, app.clock.now())
        return onePageBody(sessions.map((session) => sessionRecordWire(session)))
      },
      {
        params,
        response: PageBody(SessionRecord),
        detail: commandRoute('List the sessions of a user', undefined, NOT_FOUND),
      },
    )
    .delete(
      '/users/:email/sessions',
      async ({ params: { email } }) => dataBody({ ended: await signUserOut(app, email) }),
      {
        params,
        response: DataBody(Type.Object({ ended: Count('Number of sessions that ended.') })),
        detail: commandRoute('Sign a user out everywhere', undefined, NOT_FOUND),
      },
    )
