/** @module GET /v1/emails/:id/captured: the message that was captured instead of being sent. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { readStoredContent } from '#features/core/app/stored-content.ts'
import { getEmail } from '#features/sending/emails/read.ts'
import { isSystemMail } from '#features/sending/emails/wire.ts'
import { notFound } from '#platform/errors.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody, isoTime } from '#platform/http/envelope.ts'
import { DataBody, Timestamp } from '#platform/http/schemas.ts'
import type { CaptureStore } from './store.ts'

const CapturedEmail = Type.Object(
  {
    mail_from: Type.String({ description: 'The envelope sender: the return path of the first recipient.' }),
    rcpt_to: Type.Array(Type.String(), {
      description: 'The envelope recipients, Bcc included, of the captured email, in its order.',
    }),
    received_at: Timestamp({ description: 'When the message of the first recipient was captured.' }),
    size_bytes: Type.Integer({ description: 'Octets of the message.' }),
    raw: Type.String({
      description:
        'The message of the first recipient as it would have been sent, DKIM signature included, with CRLF line ends. Text in UTF-8; a message that is not valid UTF-8 is returned as ISO 8859-1, one character per octet.',
    }),
  },
  { description: 'Values that differ between recipients are those of the first one captured.' },
)

export const captureRoutes = (app: Pick<App, 'db'>, store: Pick<CaptureStore, 'find'>) =>
  new Elysia({ prefix: '/v1/emails', tags: ['Emails'] }).use(authenticated).get(
    '/:id/captured',
    ({ actor, params }) => {
      const email = getEmail(app.db, actor.accountId, params.id)
      const capture = readStoredContent(() => store.find(email.id))
      if (!capture || isSystemMail(email)) throw createNotCapturedError()
      return dataBody({
        mail_from: capture.mailFrom,
        rcpt_to: [...capture.rcptTo],
        received_at: isoTime(capture.receivedAt),
        size_bytes: capture.sizeBytes,
        raw: capture.raw,
      })
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the email.' }) }),
      response: DataBody(CapturedEmail),
      detail: describeRoute(
        'Get an email as captured',
        requires('emails:read'),
        'Emails from a domain that is not verified (`sandbox: true`), and all emails in delivery mode `capture`, are delivered to a built-in server that stores them for viewing. System mail is never shown. Messages are deleted by age, and the oldest when space runs out. After that, before delivery, and for emails that were really sent, the response is 404 `not_captured`. An id that does not belong to the account is 404 `email_not_found`.',
      ),
    },
  )

const createNotCapturedError = () =>
  notFound(
    'not_captured',
    'No captured message is stored for this email: it has not been delivered yet, was sent to its real recipients, or its captured message was deleted.',
  )
