/** @module Routes of /v1/newsletters: paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { RATE_HEADERS, type TakeRate } from '#features/sending/accept/sendable.ts'
import { BroadcastStarted } from '#features/sending/broadcasts/model.ts'
import { errorResponses, responseHeaders } from '#platform/http/access.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { DataBody, PageBody, parseRowRange } from '#platform/http/schemas.ts'
import * as model from './model.ts'
import {
  changeNewsletter,
  createNewsletter,
  deleteNewsletter,
  getNewsletter,
  listNewsletters,
  MAX_NEWSLETTERS,
  sendNewsletter,
  toNewsletterRowWire,
  toNewsletterWire,
} from './newsletters.ts'

const reads = describeWith('contacts:read')
const writes = describeWith('contacts:write')

const tags = ['Newsletters']
const params = Type.Object({ id: Type.String({ description: 'Id of the newsletter.' }) })
const TEMPLATE_ERROR_NOTE = 'A part that can never be rendered is a 422 `template_error` with its position.'

export const newsletterRoutes = (app: App, { takeRate }: { readonly takeRate: TakeRate }) =>
  new Elysia({ prefix: '/v1/newsletters', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const range = parseRowRange(query)
        const { newsletters, total } = listNewsletters(app.db, actor.accountId, range, query.status)
        return pageById(newsletters, { ...range, total }, (newsletter) =>
          toNewsletterRowWire(newsletter, actor.accountUuid),
        )
      },
      {
        query: model.NewsletterQuery,
        response: PageBody(model.NewsletterRow),
        detail: reads(
          'List newsletters',
          `Newest first. Bodies of more than ${model.MAX_LISTED_BYTES} bytes are omitted.`,
        ),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) =>
        status(201, dataBody(toNewsletterWire(await createNewsletter(app, actor, body), actor.accountUuid))),
      {
        body: model.NewNewsletter,
        response: { 201: DataBody(model.NewsletterRecord) },
        detail: writes(
          'Create a newsletter',
          `Creates a draft; its bodies may be added later. ${TEMPLATE_ERROR_NOTE}`,
          errorResponses({ 409: ['too_many_newsletters', `The account has ${MAX_NEWSLETTERS} newsletters.`] }),
        ),
      },
    )
    .get(
      '/:id',
      ({ actor, params }) =>
        dataBody(toNewsletterWire(getNewsletter(app.db, actor.accountId, params.id), actor.accountUuid)),
      {
        params,
        response: DataBody(model.NewsletterRecord),
        detail: reads('Get a newsletter'),
      },
    )
    .put(
      '/:id',
      async ({ actor, params, body }) =>
        dataBody(toNewsletterWire(await changeNewsletter(app, actor, params.id, body), actor.accountUuid)),
      {
        params,
        body: model.NewsletterChangeBody,
        response: DataBody(model.NewsletterRecord),
        detail: writes(
          'Change a draft',
          `Omitted fields keep their value. ${TEMPLATE_ERROR_NOTE}`,
          errorResponses({ 409: ['newsletter_not_draft', 'It is scheduled, being sent or has ended.'] }),
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteNewsletter(app, actor, params.id), {
      params,
      detail: writes(
        'Delete a newsletter',
        'Its emails and its operation stay.',
        errorResponses({
          409: ['newsletter_not_draft', 'It is scheduled or being sent: cancel its operation first.'],
        }),
      ),
    })
    .post(
      '/:id/send',
      ({ actor, params, body, request, set, status }) =>
        withoutTimeLimit(request, async () => {
          const admit = () => void Object.assign(set.headers, takeRate(actor))
          return status(202, dataBody(await sendNewsletter(app, actor, params.id, body, admit)))
        }),
      {
        params,
        body: model.SendNewsletter,
        response: { 202: DataBody(BroadcastStarted) },
        detail: describeWith('emails:send', 'contacts:read')(
          'Send a newsletter',
          'To all active contacts of its list, as a broadcast: `contact`, `list`, `unsubscribe_url` and template_data are its variables. Responds once a snapshot of the recipients is on disk. If it is cancelled before the first email, it becomes a draft again.',
          {
            ...responseHeaders(...RATE_HEADERS),
            ...errorResponses({
              409: [
                'newsletter_not_draft',
                'It is scheduled, being sent or has ended, or has more recipients than allowed.',
              ],
            }),
          },
        ),
      },
    )
