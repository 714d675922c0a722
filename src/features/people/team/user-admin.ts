/** @module What the operator does with users from the command line: make, list, let in by a link, sign out, take out of a team. */

import { announceAccessChange } from '#features/core/app/account-changes.ts'
import type { Actor, App, TeamRole } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { auditInAccounts } from './login.ts'
import { changeRole } from './members.ts'
import { createResetLink, OPERATOR_LINK_MS } from './password-reset.ts'
import { hashPassword, requireStrongPassword } from './passwords.ts'
import { endOtherSessions } from './sessions.ts'
import {
  addMember,
  createUserWithPassword,
  deleteMembership,
  findMember,
  findUserByEmail,
  type Member,
  parseUserEmail,
  storeTotp,
  type User,
} from './users.ts'

/** What the operator is, in an account of the user's. */
const OPERATOR = { type: 'operator', id: 'cli', scopes: new Set<string>() } as const

/** The user with an address. Throws 404. */
export function requireUser(app: App, email: string): User {
  const user = findUserByEmail(app.db, email)
  if (!user) throw notFound('user_not_found', `There is no user ${email}; \`tassis users list\` shows all.`)
  return user
}

export interface CreatedUser {
  readonly user: User
  /** Whether there was one with this address, who now belongs to one more team. */
  readonly isKnown: boolean
  /** Sets the password, once; undefined when the user has one. */
  readonly link: string | undefined
}

/** Makes a user of the actor's account, or adds one that there is to its team. Throws 409 for one who belongs to it already. */
export async function createUser(
  app: App,
  actor: Actor,
  input: { readonly email: string; readonly name?: string; readonly role: TeamRole; readonly password?: string },
): Promise<CreatedUser> {
  const email = parseUserEmail(input.email)
  const { role, name, password } = input
  if (password !== undefined) requireStrongPassword(password, email)
  const passwordHash = password === undefined ? null : await hashPassword(password, 'operator')
  return app.commit.write((tx) => {
    const known = findUserByEmail(tx.db, email)
    if (known && password !== undefined)
      throw conflict(
        'user_exists',
        `There is a user ${email} already; leave the password out to add that user to the team.`,
      )
    if (known) addMember(app, tx, actor, known, role)
    const user = known ?? createUserWithPassword(app, tx, actor, { email, name, role, passwordHash })
    const link = user.passwordHash === null ? createResetLink(app, tx, user, OPERATOR_LINK_MS) : undefined
    return { user, isKnown: known !== undefined, link }
  })
}

/** A link by which a user sets a password, for the operator to hand on. */
export const createUserResetLink = (app: App, email: string): Promise<string> =>
  app.commit.write((tx) => {
    const user = requireUser(app, email)
    auditInAccounts(app, tx, user, 'user.password_reset_requested', undefined, toOperatorActor(user))
    return createResetLink(app, tx, user, OPERATOR_LINK_MS)
  })

/** Gives a user another role in the actor's account. Throws 404, and 409 for its last owner. */
export function changeUserRole(app: App, actor: Actor, email: string, role: TeamRole): Promise<Member> {
  const { uuid } = requireUser(app, email)
  if (!findMember(app.db, actor.accountId, uuid))
    throw notFound('member_not_found', `${email} does not belong to this account.`)
  return changeRole(app, actor, formatUuid(uuid), role)
}

/** Takes a user out of the actor's account, even its last owner; a user who belongs nowhere any more is gone. Throws 404. */
export const removeUser = (app: App, actor: Actor, email: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const user = requireUser(app, email)
    const member = findMember(tx.db, actor.accountId, user.uuid)
    if (!member) throw notFound('member_not_found', `${email} does not belong to this account.`)
    deleteMembership(tx, actor.accountId, member)
    announceAccessChange(app, tx, actor.accountId)
    audit(app, tx, actor, {
      action: 'member.removed',
      resourceType: 'user',
      resourceId: formatUuid(user.uuid),
      metadata: { role: member.role },
    })
  })

/** Switches the second factor off, for who has lost app and recovery codes. */
export const disableUserTotp = (app: App, email: string): Promise<void> =>
  app.commit.write((tx) => {
    const user = requireUser(app, email)
    storeTotp(tx, user.id, { secret: null, enabledAt: null, lastStep: null, recoveryCodes: null }, app.eventTime())
    auditInAccounts(app, tx, user, 'user.totp_disabled', undefined, toOperatorActor(user))
  })

/** Ends all sessions of a user; resolves with their number. */
export const signUserOut = (app: App, email: string): Promise<number> =>
  app.commit.writeFromReserve((tx) => {
    const user = requireUser(app, email)
    const ended = endOtherSessions(app, tx, user.id)
    if (ended > 0) auditInAccounts(app, tx, user, 'user.signed_out', undefined, toOperatorActor(user))
    return ended
  })

/** The account is set by `auditInAccounts`. */
const toOperatorActor = (user: User): Actor => ({ ...OPERATOR, accountId: 0, accountUuid: formatUuid(user.uuid) })
