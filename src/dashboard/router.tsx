/** @module The URLs of all screens, with the filters in their query. Each screen is loaded when it is first opened. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type RouteComponent,
} from '@tanstack/react-router'
import { keep, parseCursor, parsePage, readKnown, readText, type Search } from './parts/search.ts'
import { Shell } from './parts/shell.tsx'
import { ErrorState } from './parts/states.tsx'
import { parseAnalyticsFilters } from './screens/analytics/filters.ts'
import { parseContactSearch } from './screens/audience/contact-search.ts'
import { parseStep } from './screens/broadcasts/steps.ts'
import { EMAIL_TABS, parseFilters } from './screens/emails/filters.ts'
import { DELIVERY_STATES, INBOUND_TABS, parseInboundFilters } from './screens/inbound/filters.ts'
import { CAPTURED_TABS, parseInboxSearch } from './screens/sandbox/search.ts'
import {
  parseAccountFilters,
  parseMailFilters,
  parseOfAccount,
  parseProviderFilters,
  parseQueueFilters,
  parseReportFilters,
  parseSettingFilters,
  parseUnparsedFilters,
} from './screens/server/filters.ts'
import { parseAuditSearch } from './screens/settings/audit-filters.ts'
import { parseSuppressionFilters } from './screens/suppressions/filters.ts'
import { EDITOR_TABS } from './screens/templates/tabs.ts'
import { type DeliveryFilters, parseDeliveryFilters } from './screens/webhooks/filters.ts'

/** The route that all screens are below: the frame around them. */
const root = createRootRoute({
  component: Shell,
  notFoundComponent: lazyRouteComponent(() => import('./screens/not-found.tsx'), 'NotFound'),
  errorComponent: ({ error, reset }) => <ErrorState error={error} onRetry={reset} />,
})

type Load = () => Promise<RouteComponent>

const loaded = (load: Load): RouteComponent => lazyRouteComponent(async () => ({ default: await load() }))

const screen = <const Path extends string>(path: Path, load: Load) =>
  createRoute({ getParentRoute: () => root, path, component: loaded(load) })

/** A screen whose URL has a query, which `parse` reads. */
const filtered = <const Path extends string, Query extends object>(
  path: Path,
  load: Load,
  parse: (search: Search) => Query,
) =>
  createRoute({
    getParentRoute: () => root,
    path,
    component: loaded(load),
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

const withTab =
  <const Tab extends string>(tabs: readonly Tab[]) =>
  ({ tab }: Search) =>
    keep('tab', readKnown(tabs, tab))

/** The inbox stays in place while its messages are opened below it. */
const sandbox = filtered(
  '/sandbox',
  async () => (await import('./screens/sandbox.tsx')).SandboxScreen,
  parseInboxSearch,
)
const nothingOpen = createRoute({
  getParentRoute: () => sandbox,
  path: '/',
  component: loaded(async () => (await import('./screens/sandbox.tsx')).NothingOpen),
})
const captured = createRoute({
  getParentRoute: () => sandbox,
  path: '$id',
  validateSearch: withTab(CAPTURED_TABS),
  component: loaded(async () => (await import('./screens/sandbox.tsx')).MessageScreen),
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
  screen('/', async () => (await import('./screens/overview.tsx')).OverviewScreen),
  filtered('/emails', async () => (await import('./screens/emails.tsx')).EmailsScreen, withCursor(parseFilters)),
  filtered('/emails/$id', async () => (await import('./screens/email.tsx')).EmailScreen, withTab(EMAIL_TABS)),
  filtered('/domains', async () => (await import('./screens/domains.tsx')).DomainsScreen, parsePage),
  screen('/domains/new', async () => (await import('./screens/domain-new.tsx')).DomainNewScreen),
  screen('/domains/$id', async () => (await import('./screens/domain.tsx')).DomainScreen),
  filtered('/webhooks', async () => (await import('./screens/webhooks.tsx')).WebhooksScreen, parsePage),
  screen('/webhooks/new', async () => (await import('./screens/webhook-new.tsx')).WebhookNewScreen),
  filtered('/webhooks/$id', async () => (await import('./screens/webhook.tsx')).WebhookScreen, parseWebhook),
  screen(
    '/webhooks/$id/deliveries/$deliveryId',
    async () => (await import('./screens/webhook-delivery.tsx')).WebhookDeliveryScreen,
  ),
  screen('/keys', async () => (await import('./screens/keys.tsx')).ApiKeysScreen),
  screen('/keys/new', async () => (await import('./screens/key-new.tsx')).ApiKeyNewScreen),
  screen('/keys/$id', async () => (await import('./screens/key.tsx')).ApiKeyScreen),
  filtered(
    '/suppressions',
    async () => (await import('./screens/suppressions.tsx')).SuppressionsScreen,
    withCursor(parseSuppressionFilters),
  ),
  screen(
    '/suppressions/import',
    async () => (await import('./screens/suppressions-import.tsx')).SuppressionsImportScreen,
  ),
  sandbox.addChildren([nothingOpen, captured]),
  filtered(
    '/templates',
    async () => (await import('./screens/templates.tsx')).TemplatesScreen,
    withPage(({ search }) => keep('search', readText(search, MAX_WORDS_LENGTH))),
  ),
  filtered(
    '/templates/new',
    async () => (await import('./screens/template-new.tsx')).TemplateNewScreen, // `example`, or the id of another template.
    ({ from }) => keep('from', readText(from)),
  ),
  filtered('/templates/$id', async () => (await import('./screens/template.tsx')).TemplateScreen, withTab(EDITOR_TABS)),
  filtered(
    '/templates/$id/versions',
    async () => (await import('./screens/template-versions.tsx')).TemplateVersionsScreen,
    parseVersion,
  ),
  filtered('/audience', async () => (await import('./screens/audience.tsx')).AudienceScreen, parsePage),
  filtered(
    '/audience/lists/$id',
    async () => (await import('./screens/audience-list.tsx')).AudienceListScreen,
    withCursor(parseContactSearch),
  ),
  screen(
    '/audience/lists/$id/contacts/$email',
    async () => (await import('./screens/audience-contact.tsx')).AudienceContactScreen,
  ),
  filtered(
    '/audience/lists/$id/import',
    async () => (await import('./screens/audience-import.tsx')).AudienceImportScreen,
    ({ operation }) => keep('operation', readText(operation)),
  ),
  filtered(
    '/audience/forms',
    async () => (await import('./screens/audience-forms.tsx')).AudienceFormsScreen,
    parsePage,
  ),
  screen('/audience/forms/$id', async () => (await import('./screens/audience-form.tsx')).AudienceFormScreen),
  filtered(
    '/broadcasts',
    async () => (await import('./screens/broadcasts.tsx')).BroadcastsScreen,
    withPage(({ show }) => keep('show', readKnown(['drafts'], show))),
  ),
  filtered(
    '/broadcasts/new',
    async () => (await import('./screens/broadcast-new.tsx')).BroadcastNewScreen, // A broadcast that is not stored yet has a list, once it is chosen.
    ({ list }) => keep('list', readText(list)),
  ),
  filtered(
    '/broadcasts/drafts/$id',
    async () => (await import('./screens/broadcast-draft.tsx')).BroadcastDraftScreen,
    parseStep,
  ),
  screen('/broadcasts/$id', async () => (await import('./screens/broadcast.tsx')).BroadcastScreen),
  filtered(
    '/inbound',
    async () => (await import('./screens/inbound.tsx')).InboundScreen, // Only the list without filters has cursors; the others have numbers.
    withCursor(withPage(parseInboundFilters)),
  ),
  filtered(
    '/inbound/$id',
    async () => (await import('./screens/inbound-email.tsx')).InboundEmailScreen,
    withTab(INBOUND_TABS),
  ),
  filtered(
    '/inbound/routes',
    async () => (await import('./screens/inbound-routes.tsx')).InboundRoutesScreen,
    parsePage,
  ),
  screen('/inbound/routes/new', async () => (await import('./screens/inbound-route.tsx')).InboundRouteNewScreen),
  filtered(
    '/inbound/routes/$id',
    async () => (await import('./screens/inbound-route.tsx')).InboundRouteScreen,
    withPage(({ status }) => keep('status', readKnown<string>(DELIVERY_STATES, status))),
  ),
  filtered('/inbound/mailboxes', async () => (await import('./screens/mailboxes.tsx')).MailboxesScreen, parsePage),
  filtered(
    '/inbound/mailboxes/$id',
    async () => (await import('./screens/mailbox.tsx')).MailboxScreen,
    withPage(({ q }) => keep('q', readText(q, MAX_WORDS_LENGTH))),
  ),
  filtered(
    '/inbound/mailboxes/$id/threads/$thread',
    async () => (await import('./screens/thread.tsx')).ThreadScreen,
    parsePage,
  ),
  filtered('/analytics', async () => (await import('./screens/analytics.tsx')).AnalyticsScreen, parseAnalyticsFilters),
  filtered('/analytics/insights', async () => (await import('./screens/insights.tsx')).InsightsScreen, parsePage),
  screen('/settings', async () => (await import('./screens/settings.tsx')).SettingsScreen),
  filtered('/settings/team', async () => (await import('./screens/settings/team.tsx')).TeamScreen, parsePage),
  screen('/settings/profile', async () => (await import('./screens/settings/profile.tsx')).ProfileScreen),
  filtered('/settings/streams', async () => (await import('./screens/settings/streams.tsx')).StreamsScreen, parsePage),
  screen('/settings/streams/$id', async () => (await import('./screens/settings/stream.tsx')).StreamScreen),
  screen('/settings/wording', async () => (await import('./screens/settings/wording.tsx')).WordingScreen),
  filtered(
    '/settings/accounts',
    async () => (await import('./screens/settings/sub-accounts.tsx')).SubAccountsScreen,
    parsePage,
  ),
  screen('/settings/accounts/$id', async () => (await import('./screens/settings/sub-account.tsx')).SubAccountScreen),
  filtered(
    '/settings/plan',
    async () => (await import('./screens/settings/plan.tsx')).PlanScreen, // Where the payment provider sends the browser back.
    ({ purchase }) => keep('purchase', readKnown(['done', 'cancelled'], purchase)),
  ),
  filtered('/settings/audit', async () => (await import('./screens/settings/audit.tsx')).AuditScreen, parseAuditSearch),
  filtered(
    '/settings/privacy',
    async () => (await import('./screens/settings/privacy.tsx')).PrivacyScreen, // The erasure whose progress is shown.
    ({ operation }) => keep('operation', UUID.exec(readText(operation) ?? '')?.[0]),
  ),
  screen('/server', async () => (await import('./screens/server.tsx')).ServerScreen),
  filtered(
    '/server/queue',
    async () => (await import('./screens/server/queue.tsx')).QueueScreen,
    withPage(parseQueueFilters),
  ),
  filtered(
    '/server/providers',
    async () => (await import('./screens/server/providers.tsx')).ProvidersScreen,
    withPage(parseProviderFilters),
  ),
  filtered(
    '/server/received',
    async () => (await import('./screens/server/received.tsx')).ReceivedScreen,
    withPage(parseUnparsedFilters),
  ),
  screen('/server/disk', async () => (await import('./screens/server/disk.tsx')).DiskScreen),
  filtered(
    '/server/accounts',
    async () => (await import('./screens/server/accounts.tsx')).AccountsScreen,
    withPage(parseAccountFilters),
  ),
  screen('/server/accounts/$id', async () => (await import('./screens/server/account.tsx')).AccountScreen),
  filtered(
    '/server/findings',
    async () => (await import('./screens/server/findings.tsx')).FindingsScreen,
    withPage(parseOfAccount),
  ),
  filtered(
    '/server/complaints',
    async () => (await import('./screens/server/complaints.tsx')).ComplaintsScreen,
    withPage(parseOfAccount),
  ),
  filtered(
    '/server/reports',
    async () => (await import('./screens/server/reports.tsx')).ReportsScreen,
    withPage(parseReportFilters),
  ),
  screen('/server/reports/$id', async () => (await import('./screens/server/reports.tsx')).ReportScreen),
  filtered(
    '/server/mail',
    async () => (await import('./screens/server/mail.tsx')).MailScreen,
    withPage(parseMailFilters),
  ),
  screen('/server/mail/$id', async () => (await import('./screens/server/mail.tsx')).MessageScreen),
  filtered(
    '/server/settings',
    async () => (await import('./screens/server/settings.tsx')).ServerSettingsScreen,
    parseSettingFilters,
  ),
])

export const router = createRouter({ routeTree, basepath: '/app', defaultPreload: 'intent' })

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
