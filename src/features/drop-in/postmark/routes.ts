/** @module All routes of Postmark's interface. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { type PostmarkMessageOptions, postmarkMessageRoutes } from './message-routes.ts'
import {
  postmarkBounceRoutes,
  postmarkServerRoutes,
  postmarkSuppressionRoutes,
  postmarkTemplateRoutes,
} from './resource-routes.ts'
import { type PostmarkSendOptions, postmarkSendRoutes } from './send-routes.ts'

/** Values from features that this one may not import; `src/app` passes them. */
export interface PostmarkRouteOptions extends PostmarkSendOptions, PostmarkMessageOptions {}

export const postmarkRoutes = (app: App, options: PostmarkRouteOptions) =>
  new Elysia({ name: 'postmark' })
    .use(postmarkSendRoutes(app, options))
    .use(postmarkMessageRoutes(app, options))
    .use(postmarkBounceRoutes(app))
    .use(postmarkSuppressionRoutes(app))
    .use(postmarkTemplateRoutes(app))
    .use(postmarkServerRoutes(app))
