import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parsePage } from '../parts/pages.tsx'
import { parseStep, type Step } from '../screens/broadcasts/steps.ts'
import { root } from './root.tsx'

const broadcasts = createRoute({
  getParentRoute: () => root,
  path: '/broadcasts',
  validateSearch: (search: Record<string, unknown>): { readonly show?: 'drafts'; readonly page?: number } => ({
    ...(search['show'] === 'drafts' && { show: 'drafts' as const }),
    ...parsePage(search),
  }),
  component: lazyRouteComponent(() => import('../screens/broadcasts.tsx'), 'BroadcastsScreen'),
})

const MAX_ID_LENGTH = 100

/** A broadcast that is not stored yet: its list, once it is chosen. */
const broadcastNew = createRoute({
  getParentRoute: () => root,
  path: '/broadcasts/new',
  validateSearch: ({ list }: Record<string, unknown>): { readonly list?: string } =>
    typeof list === 'string' && list !== '' ? { list: list.slice(0, MAX_ID_LENGTH) } : {},
  component: lazyRouteComponent(() => import('../screens/broadcast-new.tsx'), 'BroadcastNewScreen'),
})

const draft = createRoute({
  getParentRoute: () => root,
  path: '/broadcasts/drafts/$id',
  validateSearch: (search: Record<string, unknown>): { readonly step?: Step } => parseStep(search),
  component: lazyRouteComponent(() => import('../screens/broadcast-draft.tsx'), 'BroadcastDraftScreen'),
})

const broadcast = createRoute({
  getParentRoute: () => root,
  path: '/broadcasts/$id',
  component: lazyRouteComponent(() => import('../screens/broadcast.tsx'), 'BroadcastScreen'),
})

export const broadcastRoutes = [broadcasts, broadcastNew, draft, broadcast] as const
