import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const audience = createRoute({
  getParentRoute: () => root,
  path: '/audience',
  component: lazyRouteComponent(() => import('../screens/audience.tsx'), 'AudienceScreen'),
})

export const audienceRoutes = [audience] as const
