/**
 * @module /app/mail: the HTML of an email, for a frame of the dashboard. Its author is not trusted: the page runs no
 * script, submits no form, opens no window, and loads nothing but, on request, pictures. Hidden under the tracking hosts
 * of accounts.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import type { AuthContext } from '#features/people/team/auth-context.ts'
import { findEmail } from '#features/sending/emails/read.ts'
import { type RenderBodies, readEmailBodies } from '#features/sending/emails/read-bodies.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { parseUuid } from '#platform/ids.ts'
import { toMailResponse } from './mail-response.ts'

export function mailPages(
  app: Pick<App, 'content' | 'db'>,
  auth: Pick<AuthContext, 'findActor' | 'requireOwnHost'>,
  renderBodies: RenderBodies,
) {
  return new Elysia().get(
    '/app/mail/:id/html',
    async ({ params, query, request }) => {
      auth.requireOwnHost(request)
      const actor = auth.findActor(request)
      if (!actor || !hasScope(actor.scopes, 'emails:read')) return toMailResponse('Sign in to read this email.', 401)
      const id = parseUuid(params.id)
      const email = id && findEmail(app.db, actor.accountId, id)
      if (!email) return toMailResponse('This account has no such email.', 404)
      const { html } = await readEmailBodies(app, email, renderBodies)
      if (html === null) return toMailResponse('No HTML of this email is stored.', 404)
      return toMailResponse(html, 200, query.images === '1')
    },
    {
      params: Type.Object({ id: Type.String() }),
      query: Type.Object({ images: Type.Optional(Type.String()) }),
      detail: { hide: true },
    },
  )
}
