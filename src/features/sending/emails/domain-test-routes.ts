/** @module The route of /v1/domains that sends a test email. Lives here because sending depends on domains. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { SendResponse } from '#features/sending/accept/model.ts'
import { sessionOnly } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { errorResponses, locatedAt } from '#platform/http/route-errors.ts'
import { DataBody, StrictObject } from '#platform/http/schemas.ts'
import { createDomainTestSender, type DomainTestOptions } from './domain-test.ts'

const TestEmailRequest = StrictObject({
  to: Type.Optional(
    Type.String({ maxLength: 1024, description: 'Your own address; the default, and no other works.' }),
  ),
})

export const domainTestRoutes = (app: App, options: DomainTestOptions) => {
  const send = createDomainTestSender(app, options)
  return new Elysia({ prefix: '/v1/domains' })
    .use(authenticated)
    .post(
      '/:id/test-email',
      async ({ actor, params, body, status }) => status(202, dataBody(await send(actor, params.id, body.to))),
      {
        params: Type.Object({ id: Type.String({ description: 'Id of the domain.' }) }),
        body: TestEmailRequest,
        response: { 202: DataBody(SendResponse) },
        detail: {
          summary: 'Send yourself a test email from a domain',
          description:
            'From `test@` the domain to the address of the signed-in user, as any other email. At most 5 an hour for a domain.',
          tags: ['Domains'],
          ...errorResponses({
            409: ['domain_not_verified', 'The domain is not verified, so the email would not be sent.'],
            429: ['rate_limited', 'Too many test emails of this domain; wait as long as Retry-After says.'],
          }),
          ...requires('emails:send'),
          ...sessionOnly,
          ...locatedAt('/v1/emails'),
        },
      },
    )
}
