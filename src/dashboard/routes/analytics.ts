import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parsePage } from '../parts/pages.tsx'
import { parseAnalyticsFilters } from '../screens/analytics/filters.ts'
import { root } from './root.tsx'

const analytics = createRoute({
  getParentRoute: () => root,
  path: '/analytics',
  validateSearch: parseAnalyticsFilters,
  component: lazyRouteComponent(() => import('../screens/analytics.tsx'), 'AnalyticsScreen'),
})

const insights = createRoute({
  getParentRoute: () => root,
  path: '/analytics/insights',
  validateSearch: parsePage,
  component: lazyRouteComponent(() => import('../screens/insights.tsx'), 'InsightsScreen'),
})

export const analyticsRoutes = [analytics, insights] as const
