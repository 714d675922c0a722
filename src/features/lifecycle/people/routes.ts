/** @module /v1/people: everything that an account has of one recipient. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requiresOrSupport } from '#features/core/app/http.ts'
import type { MaxAttempts } from '#features/sending/emails/wire.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody, TextOrNull } from '#platform/http/schemas.ts'
import { PersonRecord } from './model.ts'
import { readPerson } from './person.ts'

// Null when its percent-encoding is invalid; then it is not an address either.
const params = Type.Object({ address: TextOrNull('The address, URL-encoded, in any spelling.') })

export const peopleRoutes = (app: App, { maxAttempts }: { readonly maxAttempts: MaxAttempts }) =>
  new Elysia({ prefix: '/v1/people', tags: ['People'] })
    .use(authenticated)
    .get(
      '/:address',
      async ({ actor, params }) => dataBody(await readPerson(app, actor, params.address ?? '', maxAttempts)),
      {
        params,
        response: DataBody(PersonRecord),
        detail: describeRoute(
          'Get a recipient',
          requiresOrSupport('emails:read', 'suppressions:read'),
          'Whether mail reaches the address, what became of the newest emails to it, its contact lists and what was received from it. An address that never got mail has no emails and can receive. `GET /v1/gdpr/export` has everything, with contents; `DELETE /v1/gdpr/erase` removes it.',
        ),
      },
    )
