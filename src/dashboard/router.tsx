/** @module The URLs of all screens, with the filters in their query. Each screen is loaded when it is first opened. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { Shell } from './parts/shell.tsx'
import { ErrorState } from './parts/states.tsx'

const root = createRootRoute({
  component: Shell,
  notFoundComponent: lazyRouteComponent(() => import('./screens/not-found.tsx'), 'NotFound'),
  errorComponent: ({ error, reset }) => <ErrorState error={error} onRetry={reset} />,
})

/** Filters of the list of emails; all optional. */
export interface EmailFilters {
  readonly to?: string
}

const text = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value.slice(0, 500) : undefined

const overview = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: lazyRouteComponent(() => import('./screens/overview.tsx'), 'OverviewScreen'),
})

const emails = createRoute({
  getParentRoute: () => root,
  path: '/emails',
  validateSearch: (search: Record<string, unknown>): EmailFilters => {
    const to = text(search['to'])
    return { ...(to !== undefined && { to }) }
  },
  component: lazyRouteComponent(() => import('./screens/emails.tsx'), 'EmailsScreen'),
})

const domains = createRoute({
  getParentRoute: () => root,
  path: '/domains',
  component: lazyRouteComponent(() => import('./screens/domains.tsx'), 'DomainsScreen'),
})

export const router = createRouter({
  routeTree: root.addChildren([overview, emails, domains]),
  basepath: '/app',
  defaultPreload: 'intent',
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
