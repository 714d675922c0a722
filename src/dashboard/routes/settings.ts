import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { root } from './root.tsx'

const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  component: lazyRouteComponent(() => import('../screens/settings.tsx'), 'SettingsScreen'),
})

export const settingsRoutes = [settings] as const
