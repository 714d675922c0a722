import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const keys = createRoute({
  getParentRoute: () => root,
  path: '/keys',
  component: lazyRouteComponent(() => import('../screens/keys.tsx'), 'ApiKeysScreen'),
})

export const keyRoutes = [keys] as const
