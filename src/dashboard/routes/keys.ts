import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const keys = createRoute({
  getParentRoute: () => root,
  path: '/keys',
  component: lazyRouteComponent(() => import('../screens/keys.tsx'), 'ApiKeysScreen'),
})

const keyNew = createRoute({
  getParentRoute: () => root,
  path: '/keys/new',
  component: lazyRouteComponent(() => import('../screens/key-new.tsx'), 'ApiKeyNewScreen'),
})

const key = createRoute({
  getParentRoute: () => root,
  path: '/keys/$id',
  component: lazyRouteComponent(() => import('../screens/key.tsx'), 'ApiKeyScreen'),
})

export const keyRoutes = [keys, keyNew, key] as const
