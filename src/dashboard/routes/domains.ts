import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parsePage } from '../parts/pages.tsx'
import { root } from './root.tsx'

const domains = createRoute({
  getParentRoute: () => root,
  path: '/domains',
  validateSearch: parsePage,
  component: lazyRouteComponent(() => import('../screens/domains.tsx'), 'DomainsScreen'),
})

const domainNew = createRoute({
  getParentRoute: () => root,
  path: '/domains/new',
  component: lazyRouteComponent(() => import('../screens/domain-new.tsx'), 'DomainNewScreen'),
})

const domain = createRoute({
  getParentRoute: () => root,
  path: '/domains/$id',
  component: lazyRouteComponent(() => import('../screens/domain.tsx'), 'DomainScreen'),
})

export const domainRoutes = [domains, domainNew, domain] as const
