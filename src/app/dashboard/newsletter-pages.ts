/**
 * @module /app/newsletters: the HTML of a newsletter as a contact would get it, for a frame of the dashboard. Hidden
 * under the tracking hosts of accounts.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import type { AuthContext } from '#features/people/team/auth-context.ts'
import { previewNewsletter } from '#features/sending/newsletters/preview.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { AppError } from '#platform/errors.ts'
import { escapeHtml } from '#platform/http/html.ts'
import { toMailResponse } from './mail-response.ts'

export const newsletterPages = (app: App, auth: Pick<AuthContext, 'findActor' | 'requireOwnHost'>) =>
  new Elysia().get(
    '/app/newsletters/:id/html',
    async ({ params, query, request }) => {
      auth.requireOwnHost(request)
      const actor = auth.findActor(request)
      if (!actor || !hasScope(actor.scopes, 'contacts:read')) return toMailResponse('Sign in to see this preview.', 401)
      try {
        const { parts } = await previewNewsletter(app, actor, params.id, query.contact_email)
        if (parts.html === undefined) return toMailResponse('This newsletter has no HTML.', 404)
        return toMailResponse(parts.html, 200, query.images === '1')
      } catch (error) {
        if (error instanceof AppError) return toMailResponse(escapeHtml(error.message), error.status)
        throw error
      }
    },
    {
      params: Type.Object({ id: Type.String() }),
      query: Type.Object({ images: Type.Optional(Type.String()), contact_email: Type.Optional(Type.String()) }),
      detail: { hide: true },
    },
  )
