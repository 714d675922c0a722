/**
 * @module /app/captured: the HTML of a captured message, for a frame of the dashboard, as restricted as that of an email
 * in mail-pages.ts. Hidden under the tracking hosts of accounts.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import type { AuthContext } from '#features/people/team/auth-context.ts'
import { readCapturedMessage } from '#features/sending/capture/captured.ts'
import type { CaptureStore } from '#features/sending/capture/store.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { AppError } from '#platform/errors.ts'
import { toMailResponse } from './mail-response.ts'

export const capturedFrames = (
  app: Pick<App, 'db' | 'workBudget'>,
  store: CaptureStore,
  auth: Pick<AuthContext, 'findActor' | 'requireOwnHost'>,
) =>
  new Elysia().get(
    '/app/captured/:id/html',
    async ({ params, query, request }) => {
      auth.requireOwnHost(request)
      const actor = auth.findActor(request)
      if (!actor || !hasScope(actor.scopes, 'emails:read')) return toMailResponse('Sign in to read this email.', 401)
      try {
        const { parsed } = await readCapturedMessage(app, store, actor.accountId, params.id)
        if (parsed.html === undefined) return toMailResponse('This email has no HTML.', 404)
        return toMailResponse(parsed.html, 200, query.images === '1')
      } catch (error) {
        if (error instanceof AppError && error.status < 500)
          return toMailResponse('No captured message of this email is stored.', error.status)
        throw error
      }
    },
    {
      params: Type.Object({ id: Type.String() }),
      query: Type.Object({ images: Type.Optional(Type.String()) }),
      detail: { hide: true },
    },
  )
