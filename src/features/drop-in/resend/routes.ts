/** @module All routes of Resend's interface. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { resendApiKeyRoutes } from './api-key-routes.ts'
import { resendAttachmentRoutes } from './attachment-routes.ts'
import { type DomainRouteOptions, resendDomainRoutes } from './domain-routes.ts'
import { type EmailRouteOptions, resendEmailRoutes } from './email-routes.ts'
import { resendFileRoutes } from './file-routes.ts'
import { resendReceivingRoutes } from './receiving-routes.ts'
import { resendSendRoutes, type SendRouteOptions } from './send-routes.ts'
import { resendSuppressionRoutes } from './suppression-routes.ts'
import { resendWebhookRoutes } from './webhook-routes.ts'

/** Values from features that this one may not import; `src/app` passes them. */
export interface ResendRouteOptions extends SendRouteOptions, EmailRouteOptions, DomainRouteOptions {}

export const resendRoutes = (app: App, options: ResendRouteOptions) =>
  new Elysia({ name: 'resend' })
    .use(resendSendRoutes(app, options))
    .use(resendEmailRoutes(app, options))
    .use(resendReceivingRoutes(app))
    .use(resendAttachmentRoutes(app))
    .use(resendFileRoutes(app))
    .use(resendDomainRoutes(app, options))
    .use(resendApiKeyRoutes(app))
    .use(resendWebhookRoutes(app))
    .use(resendSuppressionRoutes(app))
