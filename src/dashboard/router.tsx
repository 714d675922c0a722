/** @module The URLs of all screens, with the filters in their query. Each screen is loaded when it is first opened. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { Shell } from './parts/shell.tsx'
import { ErrorState } from './parts/states.tsx'
import { type EmailFilters, parseFilters } from './screens/emails/filters.ts'
import { EMAIL_TABS, type EmailTab } from './screens/emails/tabs.ts'

const root = createRootRoute({
  component: Shell,
  notFoundComponent: lazyRouteComponent(() => import('./screens/not-found.tsx'), 'NotFound'),
  errorComponent: ({ error, reset }) => <ErrorState error={error} onRetry={reset} />,
})

/** The list of emails: its filters, and the cursor of a page after the first. */
interface EmailsSearch extends EmailFilters {
  readonly cursor?: string
}

const MAX_CURSOR_LENGTH = 500

const overview = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: lazyRouteComponent(() => import('./screens/overview.tsx'), 'OverviewScreen'),
})

const emails = createRoute({
  getParentRoute: () => root,
  path: '/emails',
  validateSearch: (search: Record<string, unknown>): EmailsSearch => {
    const { cursor } = search
    return {
      ...parseFilters(search),
      ...(typeof cursor === 'string' && cursor !== '' && { cursor: cursor.slice(0, MAX_CURSOR_LENGTH) }),
    }
  },
  component: lazyRouteComponent(() => import('./screens/emails.tsx'), 'EmailsScreen'),
})

const email = createRoute({
  getParentRoute: () => root,
  path: '/emails/$id',
  validateSearch: (search: Record<string, unknown>): { readonly tab?: EmailTab } => {
    const tab = EMAIL_TABS.find((name) => name === search['tab'])
    return tab ? { tab } : {}
  },
  component: lazyRouteComponent(() => import('./screens/email.tsx'), 'EmailScreen'),
})

/** A page of the list of domains. */
interface DomainsSearch {
  /** From 2; the first page has no number. */
  readonly page?: number
}

const domains = createRoute({
  getParentRoute: () => root,
  path: '/domains',
  validateSearch: (search: Record<string, unknown>): DomainsSearch => {
    const page = Number(search['page'])
    return Number.isSafeInteger(page) && page > 1 ? { page } : {}
  },
  component: lazyRouteComponent(() => import('./screens/domains.tsx'), 'DomainsScreen'),
})

const domainNew = createRoute({
  getParentRoute: () => root,
  path: '/domains/new',
  component: lazyRouteComponent(() => import('./screens/domain-new.tsx'), 'DomainNewScreen'),
})

const domain = createRoute({
  getParentRoute: () => root,
  path: '/domains/$id',
  component: lazyRouteComponent(() => import('./screens/domain.tsx'), 'DomainScreen'),
})

export const router = createRouter({
  routeTree: root.addChildren([overview, emails, email, domains, domainNew, domain]),
  basepath: '/app',
  defaultPreload: 'intent',
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
