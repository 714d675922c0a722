/** @module Routes of /v1/newsletters that render a draft: paths, schemas and one call each. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { SendResponse } from '#features/sending/accept/model.ts'
import { sessionOnly } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { errorResponses, locatedAt } from '#platform/http/route-errors.ts'
import { DataBody, Nullable, OptionalNullable, StrictObject } from '#platform/http/schemas.ts'
import { createNewsletterTestSender, type NewsletterTestOptions, previewNewsletter } from './preview.ts'

export const NewsletterPreviewRecord = Type.Object({
  contact_email: Nullable(Type.String(), {
    description: 'The contact for whom it was rendered; null: the list has no active contact, so one was made up.',
  }),
  subject: Type.String({ description: 'Subject in one line.' }),
  html_body: Nullable(Type.String(), { description: 'HTML body; null: none.' }),
  text_body: Nullable(Type.String(), { description: 'Text body; null: none.' }),
})
export type NewsletterPreviewRecord = Static<typeof NewsletterPreviewRecord>

const ContactEmail = Type.String({
  maxLength: 1024,
  description: 'Address of the contact for whom it is rendered; omitted: the newest active one.',
})
const TestRequest = StrictObject({
  to: OptionalNullable(Type.String({ maxLength: 1024 }), {
    description: 'Your own address; the default, and no other works.',
  }),
  contact_email: OptionalNullable(ContactEmail, { description: ContactEmail.description ?? '' }),
})
const tags = ['Newsletters']
const params = Type.Object({ id: Type.String({ description: 'Id of the newsletter.' }) })
const TEMPLATE_ERRORS =
  'A part that cannot be rendered for the contact is a 422 `template_error`, which names the missing variable.'

export const newsletterPreviewRoutes = (app: App, options: NewsletterTestOptions) => {
  const sendTest = createNewsletterTestSender(app, options)
  return new Elysia({ prefix: '/v1/newsletters' })
    .use(authenticated)
    .get(
      '/:id/preview',
      async ({ actor, params, query }) => {
        const { contactEmail, parts } = await previewNewsletter(app, actor, params.id, query.contact_email)
        const { subject = '', html = null, text = null } = parts
        return dataBody({ contact_email: contactEmail, subject, html_body: html, text_body: text })
      },
      {
        params,
        query: Type.Object({ contact_email: Type.Optional(ContactEmail) }),
        response: DataBody(NewsletterPreviewRecord),
        detail: {
          summary: 'Render a newsletter for a contact',
          description: `Nothing is sent; \`unsubscribe_url\` leads nowhere. ${TEMPLATE_ERRORS}`,
          tags,
          ...requires('contacts:read'),
        },
      },
    )
    .post(
      '/:id/test-email',
      async ({ actor, params, body, status }) =>
        status(
          202,
          dataBody(
            await sendTest(actor, params.id, {
              to: body.to ?? undefined,
              email: body.contact_email ?? undefined,
            }),
          ),
        ),
      {
        params,
        body: TestRequest,
        response: { 202: DataBody(SendResponse) },
        detail: {
          summary: 'Send yourself a test email of a newsletter',
          description: `Rendered for one contact, to the address of the signed-in user, with "[Test]" before its subject; \`unsubscribe_url\` leads nowhere. At most 20 an hour. ${TEMPLATE_ERRORS}`,
          tags,
          ...errorResponses({
            429: ['rate_limited', 'Too many test emails of this newsletter; wait as long as Retry-After says.'],
          }),
          ...requires('emails:send', 'contacts:read'),
          ...sessionOnly,
          ...locatedAt('/v1/emails'),
        },
      },
    )
}
