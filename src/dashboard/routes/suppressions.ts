import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const suppressions = createRoute({
  getParentRoute: () => root,
  path: '/suppressions',
  component: lazyRouteComponent(() => import('../screens/suppressions.tsx'), 'SuppressionsScreen'),
})

export const suppressionRoutes = [suppressions] as const
