/** @module All routes of Resend's interface. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { downloadStored } from '#features/core/app/stored-content.ts'
import { getInbound } from '#features/receiving/inbound/api/inbound-emails.ts'
import {
  createExpiredError,
  createRawDownload,
  getAttachment,
  type LinkedFile,
  openFileLink,
} from '#features/receiving/received/parts.ts'
import { findEmail } from '#features/sending/emails/read.ts'
import { attachmentRefs, emailRowWire } from '#features/sending/emails/wire.ts'
import { notFound } from '#platform/errors.ts'
import { publicRoute } from '#platform/http/access.ts'
import { formatUuid } from '#platform/ids.ts'
import { apiKeyRoutes, logRoutes } from './account-routes.ts'
import { attachmentRoutes, RESEND_FILES_PATH } from './attachment-routes.ts'
import { broadcastRoutes } from './broadcast-routes.ts'
import { contactRoutes, type TopicRouteOptions, topicRoutes } from './contact-routes.ts'
import { RESEND_PREFIX } from './dialect.ts'
import { type DomainRouteOptions, domainRoutes } from './domain-routes.ts'
import { type EmailRouteOptions, emailRoutes } from './email-routes.ts'
import { receivingRoutes } from './receiving-routes.ts'
import { createRoutes } from './route.ts'
import { type SendRouteOptions, sendRoutes } from './send-routes.ts'
import { suppressionRoutes } from './suppression-routes.ts'
import { templateRoutes } from './template-routes.ts'
import { webhookRoutes } from './webhook-routes.ts'

const resendFileRoutes = (app: App) =>
  new Elysia().get(
    RESEND_FILES_PATH,
    ({ query, request }) => respond(app, request, openFileLink(app, query['token'] ?? '')),
    { detail: publicRoute },
  )

async function respond(app: App, request: Request, file: LinkedFile): Promise<Response> {
  const { kind, accountId, uuid, index } = file
  if (kind === 'mailbox') throw createExpiredError()
  if (kind === 'sent') return respondWithSent(app, request, file)
  const email = getInbound(app.db, accountId, formatUuid(uuid))
  if (kind === 'raw') return createRawDownload(app, request, email, formatUuid(uuid))
  return downloadStored(app, request, getAttachment(email.attachments, String(index)))
}

async function respondWithSent(app: App, request: Request, { accountId, uuid, index }: LinkedFile): Promise<Response> {
  const email = findEmail(app.db, accountId, uuid)
  const ref = email && attachmentRefs(email)[index]
  const file = email && emailRowWire(email, () => 0).attachments?.[index]
  if (ref === undefined || !file)
    throw notFound('attachment_not_found', 'The content of this attachment is no longer stored.')
  return downloadStored(app, request, { ...file, ref })
}

/** Values from features that this one may not import; `src/app` passes them. */
export interface ResendRouteOptions
  extends SendRouteOptions,
    EmailRouteOptions,
    DomainRouteOptions,
    TopicRouteOptions {}

export const resendRoutes = (app: App, options: ResendRouteOptions) =>
  new Elysia({ name: 'resend' })
    .use(resendFileRoutes(app))
    .use(createRoutes(app, ['', RESEND_PREFIX], sendRoutes(options)))
    .use(
      createRoutes(
        app,
        [RESEND_PREFIX],
        [
          ...emailRoutes(options),
          ...receivingRoutes,
          ...attachmentRoutes,
          ...domainRoutes(options),
          ...apiKeyRoutes,
          ...webhookRoutes,
          ...suppressionRoutes,
          ...contactRoutes,
          ...topicRoutes(options),
          ...broadcastRoutes(options),
          ...templateRoutes,
          ...logRoutes,
        ],
      ),
    )
