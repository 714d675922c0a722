import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const inbound = createRoute({
  getParentRoute: () => root,
  path: '/inbound',
  component: lazyRouteComponent(() => import('../screens/inbound.tsx'), 'InboundScreen'),
})

export const inboundRoutes = [inbound] as const
