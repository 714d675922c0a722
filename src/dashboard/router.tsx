/** @module The URLs of all screens, with the filters in their query. Each screen is loaded when it is first opened. */
import { createRouter } from '@tanstack/react-router'
import { analyticsRoutes } from './routes/analytics.ts'
import { audienceRoutes } from './routes/audience.ts'
import { broadcastRoutes } from './routes/broadcasts.ts'
import { domainRoutes } from './routes/domains.ts'
import { emailRoutes } from './routes/emails.ts'
import { inboundRoutes } from './routes/inbound.ts'
import { keyRoutes } from './routes/keys.ts'
import { overviewRoutes } from './routes/overview.ts'
import { root } from './routes/root.tsx'
import { sandboxRoutes } from './routes/sandbox.ts'
import { serverRoutes } from './routes/server.ts'
import { settingsRoutes } from './routes/settings.ts'
import { suppressionRoutes } from './routes/suppressions.ts'
import { templateRoutes } from './routes/templates.ts'
import { webhookRoutes } from './routes/webhooks.ts'

const routeTree = root.addChildren([
  ...overviewRoutes,
  ...emailRoutes,
  ...domainRoutes,
  ...webhookRoutes,
  ...keyRoutes,
  ...suppressionRoutes,
  ...sandboxRoutes,
  ...templateRoutes,
  ...audienceRoutes,
  ...broadcastRoutes,
  ...inboundRoutes,
  ...analyticsRoutes,
  ...settingsRoutes,
  ...serverRoutes,
])

export const router = createRouter({ routeTree, basepath: '/app', defaultPreload: 'intent' })

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
