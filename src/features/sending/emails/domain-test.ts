/** @module Sends a test email from a domain to the signed-in user, as any other email of the account. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { readInstanceId } from '#features/core/fence/restored.ts'
import { acceptRequest } from '#features/sending/accept/accept.ts'
import { type SendRequest, SendResponse } from '#features/sending/accept/model.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import { NOT_TRACKED } from '#features/sending/queue/email.ts'
import { type Domain, getDomain } from '#features/setup/domains/domains.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { errorResponses, locatedAt, sessionOnly } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { createRateLimiter, requireTaken } from '#platform/http/rate-limit.ts'
import { DataBody, StrictObject } from '#platform/http/schemas.ts'
import { hours, seconds } from '#platform/units.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'

const MAX_PER_HOUR = 5

/** Values that composition passes. */
export interface TestMailOptions {
  readonly takeRate: TakeRate
  /** The address of the user who acts; undefined when the user was deleted. */
  readonly findUserEmail: (actor: Actor) => string | undefined
}

/**
 * Test emails to the user who acts.
 * @param maxPerHour of one domain or newsletter
 * @param origin what they are tests of, for the error when there are more
 */
export function createTestMail(
  app: App,
  { takeRate, findUserEmail }: TestMailOptions,
  { maxPerHour, origin }: { readonly maxPerHour: number; readonly origin: string },
) {
  const limiter = createRateLimiter(app.clock)
  const rate = { ratePerSecond: (maxPerHour * seconds(1)) / hours(1), burst: maxPerHour }
  return {
    /** The address of the user who acts. Throws a 422 for another address than that. */
    requireOwnAddress(actor: Actor, to: string | null | undefined): string {
      const own = findUserEmail(actor)
      if (own === undefined || (to != null && normaliseAddress(to) !== normaliseAddress(own)))
        throw invalid('to', 'A test email goes only to your own address; leave `to` out, or use POST /v1/emails.')
      return own
    },
    /** Throws a 429 `rate_limited`, and what accepting an email throws. @param id row id of what is tested */
    async send(actor: Actor, id: number, request: SendRequest): Promise<SendResponse> {
      requireTaken(
        limiter.take(String(id), 1, rate),
        `At most ${maxPerHour} test emails an hour can be sent ${origin}; wait as long as Retry-After says.`,
      )
      return (await acceptRequest(app, actor, request, undefined, () => takeRate(actor))).response
    },
  }
}

/** @param instance of two live copies of the data, it shows which one sent the email; `tassis fence` shows the same */
const createTestRequest = ({ domain, sendingSubdomain }: Domain, to: string, instance: string) => ({
  from: `Test <test@${domain}>`,
  to,
  subject: `Test email from ${domain}`,
  text_body: [
    `This is a test email from ${domain}. It arrived, so ${domain} can send.`,
    `Its signature (DKIM) is that of ${domain}, and its envelope sender is at ${sendingSubdomain}.${domain} (SPF). In the source of this message, the header Authentication-Results says whether both passed.`,
    'If it was in your spam folder, mark it as not spam: a new domain has no reputation yet.',
  ].join('\n\n'),
  ...(instance !== '' && { headers: { 'X-Tassis-Instance': instance } }),
  tags: ['test-email'],
  tracking: NOT_TRACKED,
})

const OwnAddress = Type.String({ maxLength: 1024, description: 'Your own address; the default, and no other works.' })
const TestEmailRequest = StrictObject({ to: Type.Optional(OwnAddress) })

export const domainTestRoutes = (app: App, options: TestMailOptions) => {
  const testMail = createTestMail(app, options, { maxPerHour: MAX_PER_HOUR, origin: 'from a domain' })
  return new Elysia({ prefix: '/v1/domains', tags: ['Domains'] }).use(authenticated).post(
    '/:id/test-email',
    async ({ actor, params, body, status }) => {
      const domain = getDomain(app.db, actor.accountId, params.id)
      const own = testMail.requireOwnAddress(actor, body.to)
      if (domain.verifiedAt === null)
        throw conflict(
          'domain_not_verified',
          `${domain.domain} is not verified, so the test email would not be sent; publish the missing DNS records and verify the domain first.`,
        )
      const request = createTestRequest(domain, own, readInstanceId(app.db))
      return status(202, dataBody(await testMail.send(actor, domain.id, request)))
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the domain.' }) }),
      body: TestEmailRequest,
      response: { 202: DataBody(SendResponse) },
      detail: describeWith('emails:send')(
        'Send yourself a test email from a domain',
        'From `test@` the domain to the address of the signed-in user, as any other email. At most 5 an hour for a domain.',
        {
          ...errorResponses({
            409: ['domain_not_verified', 'The domain is not verified, so the email would not be sent.'],
            429: ['rate_limited', 'Too many test emails of this domain; wait as long as Retry-After says.'],
          }),
          ...sessionOnly,
          ...locatedAt('/v1/emails'),
        },
      ),
    },
  )
}
