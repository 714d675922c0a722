import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parseInboxSearch } from '../screens/sandbox/search.ts'
import { CAPTURED_TABS, type CapturedTab } from '../screens/sandbox/tabs.ts'
import { root } from './root.tsx'

/** The inbox stays in place while its messages are opened below it. */
const sandbox = createRoute({
  getParentRoute: () => root,
  path: '/sandbox',
  validateSearch: parseInboxSearch,
  component: lazyRouteComponent(() => import('../screens/sandbox.tsx'), 'SandboxScreen'),
})

const nothingOpen = createRoute({
  getParentRoute: () => sandbox,
  path: '/',
  component: lazyRouteComponent(() => import('../screens/sandbox.tsx'), 'NothingOpen'),
})

const message = createRoute({
  getParentRoute: () => sandbox,
  path: '$id',
  validateSearch: (search: Record<string, unknown>): { readonly tab?: CapturedTab } => {
    const tab = CAPTURED_TABS.find((name) => name === search['tab'])
    return tab ? { tab } : {}
  },
  component: lazyRouteComponent(() => import('../screens/sandbox.tsx'), 'MessageScreen'),
})

export const sandboxRoutes = [sandbox.addChildren([nothingOpen, message])] as const
