/** @module Previews of a newsletter, and a test email of one to the user who asks for it; the routes of both. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { SendResponse } from '#features/sending/accept/model.ts'
import { toBroadcastContact } from '#features/sending/broadcasts/preflight.ts'
import { createTestMail, type TestMailOptions } from '#features/sending/emails/domain-test.ts'
import { NOT_TRACKED } from '#features/sending/queue/email.ts'
import { type Contact, findContact, listContacts } from '#features/setup/contact-store/find.ts'
import type { ContactList } from '#features/setup/contact-store/lists.ts'
import {
  type BroadcastContact,
  formatBroadcastData,
  formatSharedData,
  toContactMessage,
} from '#features/setup/templates/broadcast-data.ts'
import { startRenderSession } from '#features/setup/templates/render.ts'
import { AppError, notFound } from '#platform/errors.ts'
import { errorResponses, locatedAt, sessionOnly } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody, Nullable, OptionalNullable, StrictObject } from '#platform/http/schemas.ts'
import type { RenderedParts } from '#platform/template/renderer.ts'
import { getNewsletter, type Newsletter, readContent, requireList } from './newsletters.ts'

/** Leads nowhere: a reader of a preview must not unsubscribe somebody. */
const UNSUBSCRIBE_URL = 'https://unsubscribe.invalid/'
/** For a list without active contacts. */
const SAMPLE: BroadcastContact = {
  id: '00000000-0000-7000-8000-000000000000',
  email: 'contact@example.com',
  metadata: {},
}

/**
 * Throws 404 for the newsletter, or when its list has no contact `email`; 422 when its list or template was deleted, and
 * `template_error` or `template_limit` when a part cannot be rendered for the contact.
 * @param email address of the contact; undefined: the newest active one; without any, one is made up
 */
export async function previewNewsletter(app: App, actor: Actor, id: string, email: string | undefined) {
  const newsletter = getNewsletter(app.db, actor.accountId, id)
  const list = requireList(app, newsletter)
  const { subject, html, text, templateData } = readContent(app, newsletter)
  const source = { subject, html, text }
  const contact = findPreviewContact(app, list, email)
  const dataJson = formatBroadcastData({
    shared: formatSharedData(templateData, list),
    contact: contact ? toBroadcastContact({ ...contact, contactUuid: contact.uuid }) : SAMPLE,
    unsubscribeUrl: UNSUBSCRIBE_URL,
  })
  using rendering = startRenderSession(app)
  try {
    const parts = await rendering.render({ accountId: actor.accountId, urgency: 'now', source, dataJson })
    return { newsletter, contactEmail: contact?.email ?? null, parts }
  } catch (error) {
    throw error instanceof AppError && error.status === 422 ? toContactError(error) : error
  }
}

function findPreviewContact(app: App, list: ContactList, email: string | undefined): Contact | undefined {
  if (email === undefined)
    return listContacts(app.db, list, { status: 'active' }, { limit: 1, offset: 0 }).contacts.at(0)
  const contact = findContact(app.db, list.id, email)
  if (!contact) throw notFound('contact_not_found', 'The list of this newsletter has no contact with this address.')
  return contact
}

/** A variable that is missing is one of the contact. */
const toContactError = ({ code, message, details }: AppError): AppError =>
  new AppError(422, code, toContactWords(message), {
    details: details.map((detail) => ({ ...detail, message: toContactWords(detail.message) })),
  })

const toContactWords = (message: string): string =>
  /\bcontact\.\w/.test(message) ? toContactMessage({ message, variable: 'contact.' }) : message

const MAX_TESTS_PER_HOUR = 20

const createTestRequest = (newsletter: Newsletter, { subject, html, text }: RenderedParts, to: string) => ({
  from: newsletter.from,
  to,
  subject: `[Test] ${subject ?? ''}`,
  html_body: html ?? null,
  text_body: text ?? null,
  reply_to: newsletter.replyTo,
  tags: ['test-email'],
  tracking: NOT_TRACKED,
})

const NewsletterPreviewRecord = Type.Object({
  contact_email: Nullable(Type.String(), {
    description: 'The contact for whom it was rendered; null: the list has no active contact, so one was made up.',
  }),
  subject: Type.String({ description: 'Subject in one line.' }),
  html_body: Nullable(Type.String(), { description: 'HTML body; null: none.' }),
  text_body: Nullable(Type.String(), { description: 'Text body; null: none.' }),
})

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

export const newsletterPreviewRoutes = (app: App, options: TestMailOptions) => {
  const testMail = createTestMail(app, options, { maxPerHour: MAX_TESTS_PER_HOUR, origin: 'of a newsletter' })
  return new Elysia({ prefix: '/v1/newsletters', tags })
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
        detail: describeWith('contacts:read')(
          'Render a newsletter for a contact',
          `Nothing is sent; \`unsubscribe_url\` leads nowhere. ${TEMPLATE_ERRORS}`,
        ),
      },
    )
    .post(
      '/:id/test-email',
      async ({ actor, params, body, status }) => {
        const own = testMail.requireOwnAddress(actor, body.to)
        const { newsletter, parts } = await previewNewsletter(app, actor, params.id, body.contact_email ?? undefined)
        const request = createTestRequest(newsletter, parts, own)
        return status(202, dataBody(await testMail.send(actor, newsletter.id, request)))
      },
      {
        params,
        body: TestRequest,
        response: { 202: DataBody(SendResponse) },
        detail: describeWith('emails:send', 'contacts:read')(
          'Send yourself a test email of a newsletter',
          `Rendered for one contact, to the address of the signed-in user, with "[Test]" before its subject; \`unsubscribe_url\` leads nowhere. At most 20 an hour. ${TEMPLATE_ERRORS}`,
          {
            ...errorResponses({
              429: ['rate_limited', 'Too many test emails of this newsletter; wait as long as Retry-After says.'],
            }),
            ...sessionOnly,
            ...locatedAt('/v1/emails'),
          },
        ),
      },
    )
}
