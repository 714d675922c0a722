/** @module /v1/team: members and invitations of the account. An account that has owners keeps at least one. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { announceAccessChange } from '#features/core/app/account-changes.ts'
import type { Actor, App, TeamRole } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { auditChange, describeChanges } from '#features/core/audit-logs/audit.ts'
import type { Tx } from '#platform/db/open.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { errorResponses } from '#platform/http/access.ts'
import { dataBody, pageBody } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import { parseUuid } from '#platform/ids.ts'
import { createInviter, deleteInvitation, listInvitations } from './invitations.ts'
import * as model from './model.ts'
import { requireOwnerToChangeOwners } from './roles.ts'
import { deleteMembership, findMember, hasOtherOwner, listMembers, type Member, setMemberRole } from './users.ts'

const tags = ['People']
const reads = describeWith('account:read')
const administers = describeWith('account:admin')
const LAST_OWNER = ['last_owner', 'It is the only owner of the account.'] as const
const memberParams = Type.Object({ id: Type.String({ description: 'Id of the user.' }) })

/** One page with few rows, newest first. */
function toPage<T>(rows: readonly T[], query: Static<typeof PageQuery>) {
  const page = parsePage(query)
  return pageBody(rows.slice(page.offset, page.offset + page.limit), { ...page, total: rows.length })
}

export const teamRoutes = (app: App) => {
  const invite = createInviter(app)
  return new Elysia({ prefix: '/v1/team', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => toPage(listMembers(app.db, actor.accountId).reverse().map(model.memberWire), query),
      {
        query: PageQuery,
        response: PageBody(model.MemberRecord),
        detail: reads('List the team', 'Newest member first.'),
      },
    )
    .patch(
      '/members/:id',
      async ({ actor, params, body }) => dataBody(model.memberWire(await changeRole(app, actor, params.id, body.role))),
      {
        params: memberParams,
        body: model.RoleChange,
        response: DataBody(model.MemberRecord),
        detail: administers(
          'Change the role of a member',
          'Only a signed-in owner can add or remove owners.',
          errorResponses({ 409: LAST_OWNER }),
        ),
      },
    )
    .delete('/members/:id', ({ actor, params }) => removeMember(app, actor, params.id), {
      params: memberParams,
      detail: administers(
        'Remove a member',
        'Takes effect immediately. API keys that the member created stay: they belong to the account.',
        errorResponses({ 409: LAST_OWNER }),
      ),
    })
    .get(
      '/invitations',
      ({ actor, query }) =>
        toPage(listInvitations(app.db, actor.accountId, app.clock.now()).map(model.invitationWire), query),
      {
        query: PageQuery,
        response: PageBody(model.InvitationRecord),
        detail: reads('List open invitations', 'Newest first.'),
      },
    )
    .post(
      '/invitations',
      async ({ actor, body, status }) => {
        const invitation = await invite(actor, body)
        return status(201, dataBody({ ...model.invitationWire(invitation), email_sent: invitation.isSent }))
      },
      {
        body: model.NewInvitation,
        response: { 201: DataBody(model.CreatedInvitation) },
        detail: administers(
          'Invite a user',
          'The link comes by mail and is valid for 7 days. Another invitation of the same address replaces the first. Only a signed-in owner can invite owners.',
          errorResponses({
            409: ['already_member', 'The user already belongs to the team, or there are 50 open invitations.'],
            429: ['rate_limited', 'Too many invitations.'],
          }),
        ),
      },
    )
    .delete('/invitations/:id', ({ actor, params }) => deleteInvitation(app, actor, params.id), {
      params: Type.Object({ id: Type.String({ description: 'Id of the invitation.' }) }),
      detail: administers('Revoke an invitation', 'Its link becomes invalid immediately.'),
    })
}

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
    const metadata = { from: member.role, to: role, ...describeChanges({ role: member.role }, { role }) }
    auditChange(app, tx, actor, 'member.role_changed', member.uuid, metadata, 'user')
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
