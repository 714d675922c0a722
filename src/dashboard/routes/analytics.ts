import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const analytics = createRoute({
  getParentRoute: () => root,
  path: '/analytics',
  component: lazyRouteComponent(() => import('../screens/analytics.tsx'), 'AnalyticsScreen'),
})

export const analyticsRoutes = [analytics] as const
