import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const templates = createRoute({
  getParentRoute: () => root,
  path: '/templates',
  component: lazyRouteComponent(() => import('../screens/templates.tsx'), 'TemplatesScreen'),
})

export const templateRoutes = [templates] as const
