/** @module Changes to a team: roles, and who leaves it. An account that has owners keeps at least one. */

import { announceAccessChange } from '#features/core/app/account-changes.ts'
import type { Actor, App, TeamRole } from '#features/core/app/app.ts'
import { auditChange, describeChanges } from '#features/core/audit-logs/audit.ts'
import type { Tx } from '#platform/db/commit.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { parseUuid } from '#platform/ids.ts'
import { requireOwnerToChangeOwners } from './roles.ts'
import { deleteMembership, findMember, hasOtherOwner, type Member, setMemberRole } from './users.ts'

function requireMember(tx: Tx, actor: Actor, id: string): Member {
  const uuid = parseUuid(id)
  const member = uuid && findMember(tx.db, actor.accountId, uuid)
  if (!member) throw notFound('member_not_found', 'Member not found.')
  return member
}

function requireOtherOwner(tx: Tx, actor: Actor, { userId }: Member): void {
  if (!hasOtherOwner(tx.db, actor.accountId, userId))
    throw conflict('last_owner', 'This is the only owner of the account; assign another owner first.')
}

/**
 * Changes the role of a member. Throws 403 when an actor who is not an owner adds or removes an owner, 404, and 409 for
 * the last owner.
 */
export const changeRole = (app: App, actor: Actor, id: string, role: TeamRole): Promise<Member> =>
  app.commit.write((tx) => {
    const member = requireMember(tx, actor, id)
    if (member.role === role) return member
    if (role === 'owner' || member.role === 'owner') requireOwnerToChangeOwners(actor)
    if (member.role === 'owner') requireOtherOwner(tx, actor, member)
    setMemberRole(tx, actor.accountId, member, role)
    announceAccessChange(app, tx, actor.accountId)
    auditChange(
      app,
      tx,
      actor,
      'member.role_changed',
      member.uuid,
      { from: member.role, to: role, ...describeChanges({ role: member.role }, { role }) },
      'user',
    )
    return { ...member, role }
  })

/** Ends a membership, and with it the member's sessions in this account. Throws like `changeRole`. */
export const removeMember = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const member = requireMember(tx, actor, id)
    if (member.role === 'owner') {
      requireOwnerToChangeOwners(actor)
      requireOtherOwner(tx, actor, member)
    }
    deleteMembership(tx, actor.accountId, member)
    announceAccessChange(app, tx, actor.accountId)
    auditChange(app, tx, actor, 'member.removed', member.uuid, { role: member.role }, 'user')
  })
