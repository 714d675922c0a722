/** @module The URLs of all screens, with the filters in their query. Each screen is loaded when it is first opened. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type RouteComponent,
} from '@tanstack/react-router'
import { ErrorState } from './parts/page.tsx'
import { keep, parseCursor, parsePage, readKnown, readText, type Search } from './parts/search.ts'
import { Shell } from './parts/shell.tsx'
import { parseAnalyticsFilters } from './screens/analytics/filters.ts'
import { parseContactSearch } from './screens/audience/contact-search.ts'
import { parseStep } from './screens/broadcasts/steps.ts'
import { EMAIL_TABS, parseFilters } from './screens/emails/filters.ts'
import { DELIVERY_STATES, INBOUND_TABS, parseInboundFilters } from './screens/inbound/filters.ts'
import { CAPTURED_TABS, parseInboxSearch } from './screens/sandbox/search.ts'
import {
  parseAccountFilters,
  parseMailFilters,
  parseQueueFilters,
  parseSettingFilters,
  parseUnparsedFilters,
} from './screens/server/filters.ts'
import { parseAuditSearch } from './screens/settings/audit-filters.ts'
import { parseSuppressionFilters } from './screens/suppressions/filters.ts'
import { EDITOR_TABS } from './screens/templates/texts.ts'
import { type DeliveryFilters, parseDeliveryFilters } from './screens/webhooks/filters.ts'

/** The route that all screens are below: the frame around them. */
const root = createRootRoute({
  component: Shell,
  notFoundComponent: lazyRouteComponent(() => import('./screens/not-found.tsx'), 'NotFound'),
  errorComponent: ({ error, reset }) => <ErrorState error={error} onRetry={reset} />,
})

type Load = () => Promise<{ default: RouteComponent }>

const screen = <const Path extends string>(path: Path, load: Load) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load) })

/** A screen whose URL has a query, which `parse` reads. */
const filtered = <const Path extends string, Query extends object>(
  path: Path,
  load: Load,
  parse: (search: Search) => Query,
) =>
  createRoute({
    getParentRoute: () => root,
    path,
    component: lazyRouteComponent(load),
    validateSearch: (search: Record<string, unknown>): Query => parse(search),
  })

/** Reads the filters of a list, and its page. */
const withPage =
  <Filters extends object>(parse: (search: Search) => Filters) =>
  (search: Search): Filters & { readonly page?: number } => ({ ...parse(search), ...parsePage(search) })

/** Reads the filters of a list, and the cursor of a page after the first. */
const withCursor =
  <Filters extends object>(parse: (search: Search) => Filters) =>
  (search: Search): Filters & { readonly cursor?: string } => ({ ...parse(search), ...parseCursor(search) })

/** Reads one text. */
const withText =
  <const Name extends string>(name: Name, maxLength?: number) =>
  (search: Search) =>
    keep(name, readText(search[name], maxLength))

const withTab =
  <const Tab extends string>(tabs: readonly Tab[]) =>
  ({ tab }: Search) =>
    keep('tab', readKnown(tabs, tab))

/** The inbox stays in place while its messages are opened below it. */
const sandbox = filtered('/sandbox', () => import('./screens/sandbox.tsx'), parseInboxSearch)
const nothingOpen = createRoute({
  getParentRoute: () => sandbox,
  path: '/',
  component: lazyRouteComponent(() => import('./screens/sandbox.tsx'), 'NothingOpen'),
})
const captured = createRoute({
  getParentRoute: () => sandbox,
  path: '$id',
  validateSearch: withTab(CAPTURED_TABS),
  component: lazyRouteComponent(() => import('./screens/sandbox.tsx'), 'MessageScreen'),
})

const MAX_WORDS_LENGTH = 200

/** One webhook: its settings, or a page of its deliveries. */
interface WebhookSearch extends DeliveryFilters {
  readonly tab?: 'settings'
  readonly page?: number
}

const parseWebhook = (search: Search): WebhookSearch =>
  search['tab'] === 'settings' ? { tab: 'settings' } : { ...parseDeliveryFilters(search), ...parsePage(search) }

function parseVersion(search: Search): { readonly version?: number } {
  const version = Number(search['version'])
  return Number.isSafeInteger(version) && version > 0 ? { version } : {}
}

const UUID = /^[0-9a-f-]{36}$/i

const routeTree = root.addChildren([
  screen('/', () => import('./screens/overview.tsx')),
  filtered('/emails', () => import('./screens/emails.tsx'), withCursor(parseFilters)),
  filtered('/emails/$id', () => import('./screens/email.tsx'), withTab(EMAIL_TABS)),
  filtered('/domains', () => import('./screens/domains.tsx'), parsePage),
  screen('/domains/new', () => import('./screens/domain-new.tsx')),
  screen('/domains/$id', () => import('./screens/domain.tsx')),
  filtered('/webhooks', () => import('./screens/webhooks.tsx'), parsePage),
  screen('/webhooks/new', () => import('./screens/webhook-new.tsx')),
  filtered('/webhooks/$id', () => import('./screens/webhook.tsx'), parseWebhook),
  screen('/webhooks/$id/deliveries/$deliveryId', () => import('./screens/webhook-delivery.tsx')),
  screen('/keys', () => import('./screens/keys.tsx')),
  screen('/keys/new', () => import('./screens/key-new.tsx')),
  screen('/keys/$id', () => import('./screens/key.tsx')),
  filtered('/suppressions', () => import('./screens/suppressions.tsx'), withCursor(parseSuppressionFilters)),
  screen('/suppressions/import', () => import('./screens/suppressions-import.tsx')),
  sandbox.addChildren([nothingOpen, captured]),
  filtered('/templates', () => import('./screens/templates.tsx'), withPage(withText('search', MAX_WORDS_LENGTH))),
  // `example`, or the id of another template.
  filtered('/templates/new', () => import('./screens/template-new.tsx'), withText('from')),
  filtered('/templates/$id', () => import('./screens/template.tsx'), withTab(EDITOR_TABS)),
  filtered('/templates/$id/versions', () => import('./screens/template-versions.tsx'), parseVersion),
  filtered('/audience', () => import('./screens/audience.tsx'), parsePage),
  filtered('/audience/lists/$id', () => import('./screens/audience-list.tsx'), withCursor(parseContactSearch)),
  screen('/audience/lists/$id/contacts/$email', () => import('./screens/audience-contact.tsx')),
  filtered('/audience/lists/$id/import', () => import('./screens/audience-import.tsx'), withText('operation')),
  filtered('/audience/forms', () => import('./screens/audience-forms.tsx'), parsePage),
  screen('/audience/forms/$id', () => import('./screens/audience-form.tsx')),
  filtered(
    '/broadcasts',
    () => import('./screens/broadcasts.tsx'),
    withPage(({ show }) => keep('show', readKnown(['drafts'], show))),
  ),
  // A broadcast that is not stored yet has a list, once it is chosen.
  filtered('/broadcasts/new', () => import('./screens/broadcast-new.tsx'), withText('list')),
  filtered('/broadcasts/drafts/$id', () => import('./screens/broadcast-draft.tsx'), parseStep),
  screen('/broadcasts/$id', () => import('./screens/broadcast.tsx')),
  filtered('/inbound', () => import('./screens/inbound.tsx'), withCursor(parseInboundFilters)),
  filtered('/inbound/$id', () => import('./screens/inbound-email.tsx'), withTab(INBOUND_TABS)),
  filtered('/inbound/routes', () => import('./screens/inbound-routes.tsx'), parsePage),
  screen('/inbound/routes/new', async () => ({
    default: (await import('./screens/inbound-route.tsx')).InboundRouteNewScreen,
  })),
  filtered(
    '/inbound/routes/$id',
    () => import('./screens/inbound-route.tsx'),
    withPage(({ status }) => keep('status', readKnown(DELIVERY_STATES, status))),
  ),
  filtered('/inbound/mailboxes', () => import('./screens/mailboxes.tsx'), parsePage),
  filtered('/inbound/mailboxes/$id', () => import('./screens/mailbox.tsx'), withPage(withText('q', MAX_WORDS_LENGTH))),
  filtered('/inbound/mailboxes/$id/threads/$thread', () => import('./screens/thread.tsx'), parsePage),
  filtered('/analytics', () => import('./screens/analytics.tsx'), parseAnalyticsFilters),
  filtered('/analytics/insights', () => import('./screens/insights.tsx'), parsePage),
  screen('/settings', () => import('./screens/settings.tsx')),
  filtered('/settings/team', () => import('./screens/settings/team.tsx'), parsePage),
  screen('/settings/profile', () => import('./screens/settings/profile.tsx')),
  filtered('/settings/streams', () => import('./screens/settings/streams.tsx'), parsePage),
  screen('/settings/streams/$id', () => import('./screens/settings/stream.tsx')),
  screen('/settings/wording', () => import('./screens/settings/wording.tsx')),
  filtered('/settings/accounts', () => import('./screens/settings/sub-accounts.tsx'), parsePage),
  screen('/settings/accounts/$id', () => import('./screens/settings/sub-account.tsx')),
  // Where the payment provider sends the browser back.
  filtered(
    '/settings/plan',
    () => import('./screens/settings/plan.tsx'),
    ({ purchase }) => keep('purchase', readKnown(['done', 'cancelled'], purchase)),
  ),
  filtered('/settings/audit', () => import('./screens/settings/audit.tsx'), parseAuditSearch),
  // The erasure whose progress is shown.
  filtered(
    '/settings/privacy',
    () => import('./screens/settings/privacy.tsx'),
    ({ operation }) => keep('operation', UUID.exec(readText(operation) ?? '')?.[0]),
  ),
  screen('/server', () => import('./screens/server.tsx')),
  filtered('/server/queue', () => import('./screens/server/queue.tsx'), withPage(parseQueueFilters)),
  filtered('/server/providers', () => import('./screens/server/providers.tsx'), withPage(withText('provider'))),
  filtered('/server/received', () => import('./screens/server/received.tsx'), withPage(parseUnparsedFilters)),
  screen('/server/disk', () => import('./screens/server/disk.tsx')),
  filtered('/server/accounts', () => import('./screens/server/accounts.tsx'), withPage(parseAccountFilters)),
  screen('/server/accounts/$id', () => import('./screens/server/account.tsx')),
  filtered('/server/findings', () => import('./screens/server/findings.tsx'), withPage(withText('account'))),
  filtered('/server/complaints', () => import('./screens/server/complaints.tsx'), withPage(withText('account'))),
  filtered('/server/reports', () => import('./screens/server/reports.tsx'), withPage(withText('domain'))),
  screen('/server/reports/$id', async () => ({ default: (await import('./screens/server/reports.tsx')).ReportScreen })),
  filtered('/server/mail', () => import('./screens/server/mail.tsx'), withPage(parseMailFilters)),
  screen('/server/mail/$id', async () => ({ default: (await import('./screens/server/mail.tsx')).MessageScreen })),
  filtered('/server/settings', () => import('./screens/server/settings.tsx'), parseSettingFilters),
])

export const router = createRouter({ routeTree, basepath: '/app', defaultPreload: 'intent' })

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
