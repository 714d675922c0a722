import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const webhooks = createRoute({
  getParentRoute: () => root,
  path: '/webhooks',
  component: lazyRouteComponent(() => import('../screens/webhooks.tsx'), 'WebhooksScreen'),
})

export const webhookRoutes = [webhooks] as const
