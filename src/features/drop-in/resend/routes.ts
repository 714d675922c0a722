/** @module All routes of Resend's interface. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { type Call, createRoutes } from '../dialects/routes.ts'
import { accountRoutes } from './account-routes.ts'
import { broadcastRoutes } from './broadcast-routes.ts'
import { contactRoutes, type TopicRouteOptions, topicRoutes } from './contact-routes.ts'
import { RESEND_PREFIX } from './dialect.ts'
import { type DomainRouteOptions, domainRoutes } from './domain-routes.ts'
import { type EmailRouteOptions, emailRoutes } from './email-routes.ts'
import { downloadRoute, fileRoutes } from './file-routes.ts'
import { type SendRouteOptions, sendRoutes } from './send-routes.ts'
import { suppressionRoutes } from './suppression-routes.ts'
import { templateRoutes } from './template-routes.ts'

/** Values from features that this one may not import; `src/app` passes them. */
export interface ResendRouteOptions
  extends SendRouteOptions,
    EmailRouteOptions,
    DomainRouteOptions,
    TopicRouteOptions {}

/** A POST that creates something responds with 201, but for one to the list of suppressions. */
const CREATES = /^POST (?!.*suppressions$).*s$/

function complete(call: Call, method: string, path: string): Call {
  if (CREATES.test(`${method} ${path}`)) call.set.status = 201
  return call
}

export function resendRoutes(app: App, options: ResendRouteOptions) {
  const routes = [
    ...emailRoutes(options),
    ...fileRoutes,
    ...domainRoutes(options),
    ...accountRoutes,
    ...suppressionRoutes,
    ...contactRoutes,
    ...topicRoutes(options),
    ...broadcastRoutes(options),
    ...templateRoutes,
  ]
  return new Elysia({ name: 'resend' })
    .use(downloadRoute(app))
    .use(createRoutes(app, ['', RESEND_PREFIX], sendRoutes(options), complete))
    .use(createRoutes(app, [RESEND_PREFIX], routes, complete))
}
