import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const broadcasts = createRoute({
  getParentRoute: () => root,
  path: '/broadcasts',
  component: lazyRouteComponent(() => import('../screens/broadcasts.tsx'), 'BroadcastsScreen'),
})

export const broadcastRoutes = [broadcasts] as const
