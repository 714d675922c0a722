/** @module /v1/validate: path, shape and one call. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { describeRoute } from '#platform/http/access.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'
import { ValidationRequest, ValidationResult } from './model.ts'
import { createValidate } from './validate.ts'

/** @param resolver see `createValidate` */
export function validateRoutes(app: Pick<App, 'clock'>, resolver: Resolver) {
  const validate = createValidate(app, resolver)
  return new Elysia({ prefix: '/v1/validate', tags: ['Validation'] })
    .use(authenticated)
    .post('/', ({ actor, body }) => validate(actor, body.email), {
      body: ValidationRequest,
      response: ValidationResult,
      detail: describeRoute(
        'Validate an address',
        requires('emails:read'),
        'Checks the syntax, the DNS of the domain, and lists of disposable domains, free providers and roles. The mailbox is not probed. An invalid address is a 200 too. Beyond 20 requests a second, with bursts, the response is a 429.',
      ),
    })
}
