/**
 * @module /v1/operator/users: the operator's commands on the users of the whole service: create, list, send a link, sign
 * out, remove from a team.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { actForAccount } from '#features/core/accounts/accounts.ts'
import { announceAccessChange } from '#features/core/app/account-changes.ts'
import type { Actor, App, TeamRole } from '#features/core/app/app.ts'
import { authenticated, commandRoute } from '#features/core/app/http.ts'
import { auditChange, CLI_OPERATOR } from '#features/core/audit-logs/audit.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { dataBody, onePageBody } from '#platform/http/envelope.ts'
import { Count, DataBody, PageBody, Text, TextOrNull } from '#platform/http/schemas.ts'
import { auditInAccounts } from './login.ts'
import { NewOperatorUser, OperatorUser, SessionRecord, sessionRecordWire, toOperatorUser } from './model.ts'
import { deletePasskeys } from './passkeys/passkeys.ts'
import { createResetLink, OPERATOR_LINK_MS } from './password-reset.ts'
import { hashPassword, requireStrongPassword } from './passwords.ts'
import { endOtherSessions, forgetSecondFactors, listSessions } from './sessions.ts'
import {
  addMember,
  changeUser,
  createUserWithPassword,
  deleteMembership,
  findMember,
  findUserByEmail,
  listUsers,
  NO_TOTP,
  parseUserEmail,
  type User,
} from './users.ts'

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

/** The user with an address. Throws 404. */
export function requireUser({ db }: Pick<App, 'db'>, email: string): User {
  const user = findUserByEmail(db, email)
  if (!user) throw notFound('user_not_found', `There is no user ${email}; \`tassis users list\` shows all.`)
  return user
}

/**
 * Creates a user of the actor's account, or adds an existing one to its team. Throws 409 when the user already belongs
 * to it. Resolves with the link that sets the password, unless the user has one.
 */
export async function createUser(
  app: App,
  actor: Actor,
  input: { readonly email: string; readonly name?: string; readonly role: TeamRole; readonly password?: string },
): Promise<{ readonly user: User; readonly isKnown: boolean; readonly link: string | undefined }> {
  const email = parseUserEmail(input.email)
  const { role, name, password } = input
  if (password !== undefined) requireStrongPassword(password, email)
  const passwordHash = password === undefined ? null : await hashPassword(password, 'operator')
  return app.commit.write((tx) => {
    const known = findUserByEmail(tx.db, email)
    if (known && password !== undefined)
      throw conflict(
        'user_exists',
        `There is already a user ${email}; leave the password out to add that user to the team.`,
      )
    if (known) addMember(app, tx, actor, known, role)
    const user = known ?? createUserWithPassword(app, tx, actor, { email, name, role, passwordHash })
    const link = user.passwordHash === null ? createResetLink(app, tx, user, OPERATOR_LINK_MS) : undefined
    return { user, isKnown: known !== undefined, link }
  })
}

/** Creates a link to set a user's password, for the operator to pass on. */
export const createUserResetLink = (app: App, email: string): Promise<string> =>
  app.commit.write((tx) => {
    const user = requireUser(app, email)
    auditInAccounts(app, tx, user, 'user.password_reset_requested', undefined, CLI_OPERATOR)
    // The way in while the identity provider is down.
    changeUser(tx, user.id, { passwordUntil: app.clock.now() + OPERATOR_LINK_MS })
    return createResetLink(app, tx, user, OPERATOR_LINK_MS)
  })

/**
 * Removes a user from the actor's account, even its last owner; a user who belongs to no account any more is deleted.
 * Throws 404.
 */
export const removeUser = (app: App, actor: Actor, email: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const user = requireUser(app, email)
    const member = findMember(tx.db, actor.accountId, user.uuid)
    if (!member) throw notFound('member_not_found', `${email} does not belong to this account.`)
    deleteMembership(tx, actor.accountId, member)
    announceAccessChange(app, tx, actor.accountId)
    auditChange(app, tx, actor, 'member.removed', user.uuid, { role: member.role }, 'user')
  })

/** Removes the authenticator app and the passkeys, for a user who has lost them and the recovery codes. */
export const disableUserTotp = (app: App, email: string): Promise<User> =>
  app.commit.write((tx) => {
    const user = requireUser(app, email)
    changeUser(tx, user.id, NO_TOTP)
    deletePasskeys(tx, user.id)
    forgetSecondFactors(tx, user.id)
    auditInAccounts(app, tx, user, 'user.totp_disabled', undefined, CLI_OPERATOR)
    return requireUser(tx, email)
  })

/** Ends all sessions of a user; resolves with their number. */
export const signUserOut = (app: App, email: string): Promise<number> =>
  app.commit.writeFromReserve((tx) => {
    const user = requireUser(app, email)
    const ended = endOtherSessions(app, tx, user.id)
    if (ended > 0) auditInAccounts(app, tx, user, 'user.signed_out', undefined, CLI_OPERATOR)
    return ended
  })

/** Makes a user an operator of the whole service, or ends that, from the user's next request on. Throws 404. */
export const setUserOperator = (app: App, email: string, isOperator: boolean): Promise<User> =>
  app.commit.writeFromReserve((tx) => {
    const user = requireUser(app, email)
    if ((user.operatorAt !== null) !== isOperator) {
      changeUser(tx, user.id, { operatorAt: isOperator ? app.eventTime() : null })
      auditChange(app, tx, CLI_OPERATOR, isOperator ? 'user.operator_added' : 'user.operator_removed', user.uuid)
    }
    return requireUser(tx, email)
  })
