/**
 * @module /app/inbound/…/html: the HTML of received mail, for a frame of the dashboard. Anybody may have written it: the
 * page runs no script, submits no form, opens no window, and loads nothing but, on request, pictures. Hidden under the
 * tracking hosts of accounts.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { createBodyReader } from '#features/core/app/stored-content.ts'
import type { AuthContext } from '#features/people/team/auth-context.ts'
import { getMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { getMessage } from '#features/receiving/agent-mailboxes/messages.ts'
import { getInbound } from '#features/receiving/inbound/inbound-emails.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { AppError } from '#platform/errors.ts'
import { toMailResponse } from './mail-response.ts'

const query = Type.Object({ images: Type.Optional(Type.String()) })
const detail = { hide: true }

interface RequestedFrame {
  readonly request: Request
  readonly query: { readonly images?: string }
  readonly scope: string
  /** Reference of the HTML in the content store; throws 404 for an unknown message. */
  findHtml(actor: Actor): number | null
}

export function inboundPages(
  app: Pick<App, 'content' | 'db'>,
  auth: Pick<AuthContext, 'findActor' | 'requireOwnHost'>,
) {
  const respond = ({ request, query: { images }, scope, findHtml }: RequestedFrame): Response => {
    auth.requireOwnHost(request)
    const actor = auth.findActor(request)
    if (!actor || !hasScope(actor.scopes, scope)) return toMailResponse('Sign in to read this message.', 401)
    try {
      const html = createBodyReader(app).read(findHtml(actor))
      if (html === null) return toMailResponse('No HTML of this message is stored.', 404)
      return toMailResponse(html, 200, images === '1')
    } catch (error) {
      if (error instanceof AppError && error.status === 404)
        return toMailResponse('This account has no such message.', 404)
      throw error
    }
  }
  return new Elysia()
    .get(
      '/app/inbound/:id/html',
      ({ params: { id }, query, request }) =>
        respond({
          request,
          query,
          scope: 'inbound:read',
          findHtml: ({ accountId }) => getInbound(app.db, accountId, id).htmlRef,
        }),
      { params: Type.Object({ id: Type.String() }), query, detail },
    )
    .get(
      '/app/inbound/mailboxes/:id/messages/:message/html',
      ({ params: { id, message }, query, request }) =>
        respond({
          request,
          query,
          scope: 'mailboxes:read',
          findHtml: ({ accountId }) => getMessage(app.db, getMailbox(app.db, accountId, id), message).htmlRef,
        }),
      { params: Type.Object({ id: Type.String(), message: Type.String() }), query, detail },
    )
}
