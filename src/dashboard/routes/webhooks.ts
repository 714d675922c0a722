import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parsePage } from '../parts/pages.tsx'
import { type DeliveryFilters, parseDeliveryFilters } from '../screens/webhooks/filters.ts'
import { root } from './root.tsx'

/** One webhook: its settings, or a page of its deliveries. */
interface WebhookSearch extends DeliveryFilters {
  readonly tab?: 'settings'
  readonly page?: number
}

const webhooks = createRoute({
  getParentRoute: () => root,
  path: '/webhooks',
  validateSearch: parsePage,
  component: lazyRouteComponent(() => import('../screens/webhooks.tsx'), 'WebhooksScreen'),
})

const webhookNew = createRoute({
  getParentRoute: () => root,
  path: '/webhooks/new',
  component: lazyRouteComponent(() => import('../screens/webhook-new.tsx'), 'WebhookNewScreen'),
})

const webhook = createRoute({
  getParentRoute: () => root,
  path: '/webhooks/$id',
  validateSearch: (search: Record<string, unknown>): WebhookSearch =>
    search['tab'] === 'settings' ? { tab: 'settings' } : { ...parseDeliveryFilters(search), ...parsePage(search) },
  component: lazyRouteComponent(() => import('../screens/webhook.tsx'), 'WebhookScreen'),
})

const delivery = createRoute({
  getParentRoute: () => root,
  path: '/webhooks/$id/deliveries/$deliveryId',
  component: lazyRouteComponent(() => import('../screens/webhook-delivery.tsx'), 'WebhookDeliveryScreen'),
})

export const webhookRoutes = [webhooks, webhookNew, webhook, delivery] as const
