/** @module The routes of one email, /v1/emails/:id: detail, source, rescheduling, cancellation, sending it again. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import type { RecordedEvent } from '#features/core/events/model.ts'
import { SendResponse } from '#features/sending/accept/model.ts'
import { RATE_HEADERS } from '#features/sending/accept/send-rate.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { locatedAt, responseHeaders } from '#platform/http/route-errors.ts'
import { DataBody } from '#platform/http/schemas.ts'
import { cancelEmail } from './cancel.ts'
import { EmailChange, EmailDetail, EmailSource, type Explanation, ResendRequest, ResendResponse } from './model.ts'
import { getEmail, readEmailEvents, type StoredEmail } from './read.ts'
import { type RenderBodies, readEmailBodies } from './read-bodies.ts'
import { rescheduleEmail } from './reschedule.ts'
import { resendEmail } from './resend.ts'
import { describeResendRisk } from './resend-risks.ts'
import { type EmailRouteOptions, IDEMPOTENCY_KEY_PARAMETER } from './routes.ts'
import { emailDetailWire, isSystemMail } from './wire.ts'

/** Values that composition passes from later features. */
export interface OneEmailRouteOptions extends EmailRouteOptions {
  /**
   * Renders the bodies of a broadcast email, by row id, for its recipient; empty if the template fails for that
   * recipient.
   */
  readonly renderedBodies: RenderBodies
  readonly explain: (email: StoredEmail, events: readonly RecordedEvent[]) => Explanation
  /** Composes the message of an email, by row id, again. */
  readonly readSource: (emailId: number, options: { readonly isContentHidden: boolean }) => Promise<EmailSource>
}

/** Complete, because parameters described here replace those that the route declares. */
const RESEND_PARAMETERS = {
  parameters: [
    {
      name: 'id',
      in: 'path' as const,
      required: true,
      description: 'Id of the email.',
      schema: { type: 'string' as const },
    },
    ...IDEMPOTENCY_KEY_PARAMETER.parameters,
  ],
}

const params = Type.Object({ id: Type.String({ description: 'Id of the email.' }) })

/** Builds the detail, with its bodies as far as they are stored. */
async function readDetail(
  app: App,
  accountId: number,
  email: StoredEmail,
  { maxAttempts, renderedBodies, explain }: OneEmailRouteOptions,
): Promise<EmailDetail> {
  const events = readEmailEvents(app, accountId, email.id)
  return emailDetailWire(email, {
    maxAttempts,
    ...(await readEmailBodies(app, email, renderedBodies)),
    events,
    explanation: explain(email, events),
    keys: app.keys,
    accountId,
  })
}

export const oneEmailRoutes = (app: App, options: OneEmailRouteOptions) =>
  new Elysia({ prefix: '/v1/emails' })
    .use(authenticated)
    .get(
      '/:id',
      async ({ actor, params }) =>
        dataBody(await readDetail(app, actor.accountId, getEmail(app.db, actor.accountId, params.id), options)),
      {
        params,
        response: DataBody(EmailDetail),
        detail: {
          summary: 'Get an email with its recipients and events',
          tags: ['Emails'],
          ...requires('emails:read'),
        },
      },
    )
    .patch('/:id', async ({ actor, params, body }) => dataBody(await rescheduleEmail(app, actor, params.id, body)), {
      params,
      body: EmailChange,
      response: DataBody(SendResponse),
      detail: {
        summary: 'Reschedule an email',
        description:
          'Moves a scheduled email to another time, or sends it now. An email that is no longer scheduled is a 409 `email_not_scheduled`.',
        tags: ['Emails'],
        ...requires('emails:send'),
      },
    })
    .post(
      '/:id/resend',
      async ({ actor, params, body, headers, set, status }) => {
        const key = headers['idempotency-key']
        const { response, risks } = await resendEmail(app, actor, params.id, body, key, () => {
          Object.assign(set.headers, options.takeRate(actor))
        })
        if (response.mismatch) set.headers['idempotency-mismatch'] = 'true'
        return status(
          202,
          dataBody({ ...response, ...(risks.length > 0 && { warnings: risks.map(describeResendRisk) }) }),
        )
      },
      {
        params,
        body: ResendRequest,
        response: { 202: DataBody(ResendResponse) },
        detail: {
          summary: 'Send an email again',
          description:
            'Accepts a new email with the same sender, recipients, subject, bodies, headers, attachments, tags and metadata, under the same checks as any other; its detail has `resend_of`. Recipients who got the first one get a second; `warnings` names them, those who may have got it, and suppressed ones, who get none. A 409: `email_open` while the first is still being sent, `content_removed` when its content is no longer stored, `email_of_broadcast`, `system_mail`, `stream_deleted`, `recipients_erased`.',
          tags: ['Emails'],
          ...RESEND_PARAMETERS,
          ...locatedAt('/v1/emails'),
          ...responseHeaders(...RATE_HEADERS, 'Idempotency-Mismatch'),
          ...requires('emails:send'),
        },
      },
    )
    .get(
      '/:id/source',
      async ({ actor, params }) => {
        const email = getEmail(app.db, actor.accountId, params.id)
        return dataBody(await options.readSource(email.id, { isContentHidden: isSystemMail(email) }))
      },
      {
        params,
        response: DataBody(EmailSource),
        detail: {
          summary: 'Get the source of an email',
          description: 'The message composed again as it is sent, for its first recipient.',
          tags: ['Emails'],
          ...requires('emails:read'),
        },
      },
    )
    .post('/:id/cancel', async ({ actor, params }) => dataBody(await cancelEmail(app, actor, params.id)), {
      params,
      response: DataBody(SendResponse),
      detail: { summary: 'Cancel a scheduled email', tags: ['Emails'], ...requires('emails:send') },
    })
