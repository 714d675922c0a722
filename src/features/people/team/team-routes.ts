/** @module /v1/team: members and invitations of the account. Paths, schemas and one call each. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { dataBody, pageBody } from '#platform/http/envelope.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import { createInviter, deleteInvitation, listInvitations } from './invitations.ts'
import { changeRole, removeMember } from './members.ts'
import {
  CreatedInvitation,
  InvitationRecord,
  invitationWire,
  MemberRecord,
  memberWire,
  NewInvitation,
  RoleChange,
} from './model.ts'
import { listMembers } from './users.ts'

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
    .get('/', ({ actor, query }) => toPage(listMembers(app.db, actor.accountId).reverse().map(memberWire), query), {
      query: PageQuery,
      response: PageBody(MemberRecord),
      detail: reads('List the team', 'Newest member first.'),
    })
    .patch(
      '/members/:id',
      async ({ actor, params, body }) => dataBody(memberWire(await changeRole(app, actor, params.id, body.role))),
      {
        params: memberParams,
        body: RoleChange,
        response: DataBody(MemberRecord),
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
        toPage(listInvitations(app.db, actor.accountId, app.clock.now()).map(invitationWire), query),
      {
        query: PageQuery,
        response: PageBody(InvitationRecord),
        detail: reads('List open invitations', 'Newest first.'),
      },
    )
    .post(
      '/invitations',
      async ({ actor, body, status }) => {
        const invitation = await invite(actor, body)
        return status(201, dataBody({ ...invitationWire(invitation), email_sent: invitation.isSent }))
      },
      {
        body: NewInvitation,
        response: { 201: DataBody(CreatedInvitation) },
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
