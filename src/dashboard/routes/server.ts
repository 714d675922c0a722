import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const server = createRoute({
  getParentRoute: () => root,
  path: '/server',
  component: lazyRouteComponent(() => import('../screens/server.tsx'), 'ServerScreen'),
})

export const serverRoutes = [server] as const
