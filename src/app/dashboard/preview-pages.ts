/**
 * @module /app/previews: rendered HTML of a template that is being edited, for a frame of the dashboard. Its author is
 * not trusted. Hidden under the tracking hosts of accounts.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { AuthContext } from '#features/people/team/auth-context.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import type { PreviewStore } from '#features/setup/templates/shown-previews.ts'
import { toMailResponse } from './mail-response.ts'

export const previewPages = (previews: PreviewStore, auth: Pick<AuthContext, 'findActor' | 'requireOwnHost'>) =>
  new Elysia().get(
    '/app/previews/:id',
    ({ params, query, request }) => {
      auth.requireOwnHost(request)
      const actor = auth.findActor(request)
      if (!actor || !hasScope(actor.scopes, 'templates:read'))
        return toMailResponse('Sign in to see this preview.', 401)
      const html = previews.find(actor.accountId, params.id)
      if (html === undefined)
        return toMailResponse('This preview has expired. Change the text, and it is rendered again.', 404)
      return toMailResponse(html, 200, query.images === '1')
    },
    {
      params: Type.Object({ id: Type.String() }),
      query: Type.Object({ images: Type.Optional(Type.String()) }),
      detail: { hide: true },
    },
  )
