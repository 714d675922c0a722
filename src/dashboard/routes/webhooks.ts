import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parsePage } from '../parts/pages.tsx'
import { type DeliveryFilters, parseDeliveryFilters } from '../screens/webhooks/filters.ts'
import { root } from './root.tsx'

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
  validateSearch: (search: Record<string, unknown>): DeliveryFilters & { readonly page?: number } => ({
    ...parseDeliveryFilters(search),
    ...parsePage(search),
  }),
  component: lazyRouteComponent(() => import('../screens/webhook.tsx'), 'WebhookScreen'),
})

const webhookSettings = createRoute({
  getParentRoute: () => root,
  path: '/webhooks/$id/settings',
  component: lazyRouteComponent(() => import('../screens/webhook-settings.tsx'), 'WebhookSettingsScreen'),
})

const delivery = createRoute({
  getParentRoute: () => root,
  path: '/webhooks/$id/deliveries/$deliveryId',
  component: lazyRouteComponent(() => import('../screens/webhook-delivery.tsx'), 'WebhookDeliveryScreen'),
})

export const webhookRoutes = [webhooks, webhookNew, webhook, webhookSettings, delivery] as const
