/** @module The routes of captured mail: the message of an email, and /v1/captured-emails as an inbox. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { downloadStored, readStoredContent } from '#features/core/app/stored-content.ts'
import { getEmail } from '#features/sending/emails/read.ts'
import { isBodyHidden } from '#features/sending/emails/wire.ts'
import { notFound } from '#platform/errors.ts'
import { errorResponses } from '#platform/http/access.ts'
import { fileResponseSpec } from '#platform/http/download.ts'
import { dataBody, pageBody, toWire } from '#platform/http/envelope.ts'
import { Count, DataBody, PageBody, parsePage, Text, Timestamp } from '#platform/http/schemas.ts'
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

const reads = describeWith('emails:read')
const sends = describeWith('emails:send')

const CapturedEmail = Type.Object(
  {
    mail_from: Text('The envelope sender: the return path of the first recipient.'),
    rcpt_to: Type.Array(Type.String(), {
      description: 'The envelope recipients, Bcc included, of the captured email, in its order.',
    }),
    received_at: Timestamp({ description: 'When the message of the first recipient was captured.' }),
    size_bytes: Count('Octets of the message.'),
    raw: Text(
      'The message of the first recipient as it would have been sent, DKIM signature included, with CRLF line ends. Text in UTF-8; a message that is not valid UTF-8 is returned as ISO 8859-1, one character per octet.',
    ),
  },
  { description: 'Values that differ between recipients are those of the first one captured.' },
)

export const captureRoutes = (app: Pick<App, 'db'>, store: Pick<CaptureStore, 'find'>) =>
  new Elysia({ prefix: '/v1/emails', tags: ['Emails'] }).use(authenticated).get(
    '/:id/captured',
    ({ actor, params }) => {
      const email = getEmail(app.db, actor.accountId, params.id)
      const capture = readStoredContent(() => store.find(email.id))
      if (!capture || isBodyHidden(actor, email)) throw createNotCapturedError()
      return dataBody(toWire(CapturedEmail, capture, {}))
    },
    {
      params: Type.Object({ id: Text('Id of the email.') }),
      response: DataBody(CapturedEmail),
      detail: reads(
        'Get an email as captured',
        'Emails from a domain that is not verified (`sandbox: true`), and all emails in delivery mode `capture`, are delivered to a built-in server that stores them for viewing. System mail is never shown. Messages are deleted by age, and the oldest when space runs out. After that, before delivery, and for emails that were really sent, the response is 404 `not_captured`. An id that does not belong to the account is 404 `email_not_found`.',
      ),
    },
  )

const createNotCapturedError = () =>
  notFound(
    'not_captured',
    'No captured message is stored for this email: it has not been delivered yet, was sent to its real recipients, or its captured message was deleted.',
  )

const tags = ['Captured mail']
const id = Text('Id of the email.')
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
        detail: reads(
          'List captured mail',
          `Newest first: mail of domains that were never verified, and all mail in delivery mode \`capture\`. System mail is left out. \`q\` searches the newest ${MAX_SEARCHED} emails.`,
        ),
      },
    )
    .delete('/', async ({ actor }) => dataBody({ deleted: await deleteAllCaptured(app, store, actor) }), {
      response: DataBody(CapturedDeleted),
      detail: sends(
        'Delete all captured mail',
        'Deletes the captured messages of the account. The emails and their events stay.',
      ),
    })
    .get('/:id', async ({ actor, params }) => dataBody(await readCapturedDetail(app, store, actor, params.id)), {
      params,
      response: DataBody(CapturedDetail),
      detail: reads(
        'Get a captured email with its content',
        'The message of the first recipient, parsed. It stays unread until it is marked. `GET /v1/emails/{id}/captured` has the source.',
      ),
    })
    .patch(
      '/:id',
      async ({ actor, params, body }) =>
        dataBody(await markCapturedRead(app, store, actor, { id: params.id, isRead: body.read })),
      {
        params,
        body: CapturedChange,
        response: DataBody(CapturedRow),
        detail: sends('Mark a captured email as read or unread'),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteCaptured(app, store, actor, params.id), {
      params,
      detail: sends(
        'Delete a captured email',
        'Deletes the captured messages of the email. The email and its events stay.',
      ),
    })
    .get(
      '/:id/attachments/:n',
      ({ actor, params, request }) => downloadStored(app, request, findCapturedAttachment(app, store, actor, params)),
      {
        params: Type.Object({ id, n: Text('Number of the attachment, from 0.') }),
        detail: reads(
          'Get the content of an attachment of a captured email',
          'The original bytes, always as a download. Types that a browser could run, such as HTML, are sent as application/octet-stream.',
          fileResponseSpec('The decoded content.'),
        ),
      },
    )
    .post('/:id/check-links', async ({ actor, params }) => dataBody(await checkLinks(actor, params.id)), {
      params,
      response: DataBody(LinkCheck),
      detail: sends(
        'Check the links of a captured email',
        `Requests up to ${MAX_CHECKED_LINKS} links of the message now, with HEAD and, if the server reports an error, GET, and follows up to five redirects. Their servers learn the address of this service and that the link was requested. Not requested: addresses in private networks, links that may unsubscribe (those of List-Unsubscribe, and those whose URL or text says so) and pages of this service, also at tracking domains. Of a tracked link, the target is requested, so no click is counted. One check of an account at a time: 429 \`link_check_running\`; and at most ${MAX_CHECKS_PER_MINUTE} a minute.`,
        errorResponses({ 429: ['rate_limited', 'Too many link checks; wait as long as Retry-After says.'] }),
      ),
    })
}
