/** @module The routes of /v1/captured-emails: captured mail as an inbox. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { downloadStored } from '#features/core/app/stored-content.ts'
import { describeRoute } from '#platform/http/access.ts'
import { fileResponseSpec } from '#platform/http/download.ts'
import { dataBody, pageBody } from '#platform/http/envelope.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { DataBody, PageBody, parsePage } from '#platform/http/schemas.ts'
import {
  deleteAllCaptured,
  deleteCaptured,
  findCapturedAttachment,
  listCaptured,
  markCapturedRead,
  readCapturedDetail,
} from './captured.ts'
import { createLinkChecker, MAX_CHECKED_LINKS, MAX_CHECKS_PER_MINUTE } from './check-links.ts'
import { MAX_SEARCHED } from './inbox.ts'
import { CapturedChange, CapturedDeleted, CapturedDetail, CapturedQuery, CapturedRow, LinkCheck } from './model.ts'
import type { CaptureStore } from './store.ts'

const tags = ['Captured mail']
const id = Type.String({ description: 'Id of the email.' })
const params = Type.Object({ id })

export const capturedInboxRoutes = (app: App, store: CaptureStore) => {
  const checkLinks = createLinkChecker(app, store)
  return new Elysia({ prefix: '/v1/captured-emails', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const isRead = query.unread === undefined ? undefined : query.unread === 'false'
        const { rows, listed, total } = listCaptured(app, store, actor.accountId, { text: query.q, isRead }, page)
        const last = listed.at(-1)
        return pageBody(rows, { ...page, total }, last && [last.receivedAt, last.emailId])
      },
      {
        query: CapturedQuery,
        response: PageBody(CapturedRow),
        detail: describeRoute(
          'List captured mail',
          requires('emails:read'),
          `Newest first: mail of domains that were never verified, and all mail in delivery mode \`capture\`. System mail is left out. \`q\` searches the newest ${MAX_SEARCHED} emails.`,
        ),
      },
    )
    .delete('/', async ({ actor }) => dataBody({ deleted: await deleteAllCaptured(app, store, actor) }), {
      response: DataBody(CapturedDeleted),
      detail: describeRoute(
        'Delete all captured mail',
        requires('emails:send'),
        'Deletes the captured messages of the account. The emails and their events stay.',
      ),
    })
    .get(
      '/:id',
      async ({ actor, params }) => dataBody(await readCapturedDetail(app, store, actor.accountId, params.id)),
      {
        params,
        response: DataBody(CapturedDetail),
        detail: describeRoute(
          'Get a captured email with its content',
          requires('emails:read'),
          'The message of the first recipient, parsed. It stays unread until it is marked. `GET /v1/emails/{id}/captured` has the source.',
        ),
      },
    )
    .patch(
      '/:id',
      async ({ actor, params, body }) =>
        dataBody(await markCapturedRead(app, store, actor.accountId, { id: params.id, isRead: body.read })),
      {
        params,
        body: CapturedChange,
        response: DataBody(CapturedRow),
        detail: describeRoute('Mark a captured email as read or unread', requires('emails:send')),
      },
    )
    .delete(
      '/:id',
      async ({ actor, params, set }) => {
        await deleteCaptured(app, store, actor, params.id)
        set.status = 204
      },
      {
        params,
        detail: describeRoute(
          'Delete a captured email',
          requires('emails:send'),
          'Deletes the captured messages of the email. The email and its events stay.',
        ),
      },
    )
    .get(
      '/:id/attachments/:n',
      ({ actor, params, request }) =>
        downloadStored(app, request, findCapturedAttachment(app, store, actor.accountId, params)),
      {
        params: Type.Object({ id, n: Type.String({ description: 'Number of the attachment, from 0.' }) }),
        detail: describeRoute(
          'Get the content of an attachment of a captured email',
          requires('emails:read'),
          'The original bytes, always as a download. Types that a browser could run, such as HTML, are sent as application/octet-stream.',
          fileResponseSpec('The decoded content.'),
        ),
      },
    )
    .post('/:id/check-links', async ({ actor, params }) => dataBody(await checkLinks(actor.accountId, params.id)), {
      params,
      response: DataBody(LinkCheck),
      detail: describeRoute(
        'Check the links of a captured email',
        requires('emails:send'),
        `Requests up to ${MAX_CHECKED_LINKS} links of the message now, with HEAD and, if the server reports an error, GET, and follows up to five redirects. Their servers learn the address of this service and that the link was requested. Not requested: addresses in private networks, links that may unsubscribe (those of List-Unsubscribe, and those whose URL or text says so) and pages of this service, also at tracking domains. Of a tracked link, the target is requested, so no click is counted. One check of an account at a time: 429 \`link_check_running\`; and at most ${MAX_CHECKS_PER_MINUTE} a minute.`,
        errorResponses({ 429: ['rate_limited', 'Too many link checks; wait as long as Retry-After says.'] }),
      ),
    })
}
