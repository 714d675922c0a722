import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parsePage } from '../parts/pages.tsx'
import { DELIVERY_STATES } from '../screens/inbound/delivery-states.ts'
import { type InboundFilters, parseInboundFilters } from '../screens/inbound/filters.ts'
import { INBOUND_TABS, type InboundTab } from '../screens/inbound/tabs.ts'
import { root } from './root.tsx'

/** Cursor of a page after the first; only the list without filters has them, the others have numbers. */
interface InboundSearch extends InboundFilters {
  readonly cursor?: string
  readonly page?: number
}

const MAX_CURSOR_LENGTH = 500
const MAX_WORDS_LENGTH = 200

const inbound = createRoute({
  getParentRoute: () => root,
  path: '/inbound',
  validateSearch: (search: Record<string, unknown>): InboundSearch => {
    const { cursor } = search
    return {
      ...parseInboundFilters(search),
      ...parsePage(search),
      ...(typeof cursor === 'string' && cursor !== '' && { cursor: cursor.slice(0, MAX_CURSOR_LENGTH) }),
    }
  },
  component: lazyRouteComponent(() => import('../screens/inbound.tsx'), 'InboundScreen'),
})

const inboundEmail = createRoute({
  getParentRoute: () => root,
  path: '/inbound/$id',
  validateSearch: (search: Record<string, unknown>): { readonly tab?: InboundTab } => {
    const tab = INBOUND_TABS.find((name) => name === search['tab'])
    return tab ? { tab } : {}
  },
  component: lazyRouteComponent(() => import('../screens/inbound-email.tsx'), 'InboundEmailScreen'),
})

const routes = createRoute({
  getParentRoute: () => root,
  path: '/inbound/routes',
  validateSearch: parsePage,
  component: lazyRouteComponent(() => import('../screens/inbound-routes.tsx'), 'InboundRoutesScreen'),
})

const routeNew = createRoute({
  getParentRoute: () => root,
  path: '/inbound/routes/new',
  component: lazyRouteComponent(() => import('../screens/inbound-route.tsx'), 'InboundRouteNewScreen'),
})

const route = createRoute({
  getParentRoute: () => root,
  path: '/inbound/routes/$id',
  validateSearch: (search: Record<string, unknown>): { readonly page?: number; readonly status?: string } => {
    const status = DELIVERY_STATES.find((name) => name === search['status'])
    return { ...parsePage(search), ...(status && { status }) }
  },
  component: lazyRouteComponent(() => import('../screens/inbound-route.tsx'), 'InboundRouteScreen'),
})

const mailboxes = createRoute({
  getParentRoute: () => root,
  path: '/inbound/mailboxes',
  validateSearch: parsePage,
  component: lazyRouteComponent(() => import('../screens/mailboxes.tsx'), 'MailboxesScreen'),
})

const mailbox = createRoute({
  getParentRoute: () => root,
  path: '/inbound/mailboxes/$id',
  validateSearch: (search: Record<string, unknown>): { readonly page?: number; readonly q?: string } => {
    // The router reads a value such as 42 as a number.
    const words = typeof search['q'] === 'number' ? String(search['q']) : search['q']
    const q = typeof words === 'string' ? words.trim().slice(0, MAX_WORDS_LENGTH) : ''
    return { ...parsePage(search), ...(q !== '' && { q }) }
  },
  component: lazyRouteComponent(() => import('../screens/mailbox.tsx'), 'MailboxScreen'),
})

const thread = createRoute({
  getParentRoute: () => root,
  path: '/inbound/mailboxes/$id/threads/$thread',
  validateSearch: parsePage,
  component: lazyRouteComponent(() => import('../screens/thread.tsx'), 'ThreadScreen'),
})

export const inboundRoutes = [inbound, inboundEmail, routes, routeNew, route, mailboxes, mailbox, thread] as const
