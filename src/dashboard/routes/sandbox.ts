import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const sandbox = createRoute({
  getParentRoute: () => root,
  path: '/sandbox',
  component: lazyRouteComponent(() => import('../screens/sandbox.tsx'), 'SandboxScreen'),
})

export const sandboxRoutes = [sandbox] as const
