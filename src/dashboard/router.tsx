/** @module The URLs of all screens, with the filters in their query. Each screen is loaded when it is first opened. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  lazyRouteComponent,
  type RouteComponent,
} from '@tanstack/react-router'
import {
  type Filters,
  keep,
  parseCursor,
  readCount,
  readFilters,
  readKnown,
  readList,
  readText,
  type Search,
} from './parts/filters.ts'
import { ButtonLink } from './parts/links.tsx'
import { EmptyState, ErrorState, Page } from './parts/page.tsx'
import { Shell } from './parts/shell.tsx'
import { parseAnalyticsFilters } from './screens/analytics/filters.ts'
import { parseStep } from './screens/broadcasts/states.ts'
import {
  ACCOUNT_FILTER,
  ACCOUNT_FILTERS,
  AUDIT_FILTERS,
  CAPTURED_FILTERS,
  CAPTURED_TABS,
  CONTACT_FILTERS,
  DELIVERY_FILTERS,
  EMAIL_FILTERS,
  EMAIL_TABS,
  INBOUND_FILTERS,
  INBOUND_TABS,
  LOG_FILTERS,
  OPERATOR_MAIL_FILTERS,
  QUEUE_FILTERS,
  REPORT_FILTERS,
  ROUTE_DELIVERY_FILTERS,
  SETTING_FILTERS,
  SUPPRESSION_FILTERS,
  TEMPLATE_FILTERS,
  THREAD_FILTERS,
} from './screens/filters.ts'
import { EDITOR_TABS } from './screens/templates/texts.ts'

/** The route that all screens are below: the frame around them. */
const root = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: Failed })

function NotFound() {
  return (
    <Page title="No such page">
      <EmptyState
        title="Nothing is at this address"
        text="A link may be old or cut. The search above finds every screen and setting."
      >
        <ButtonLink to="/" variant="default" name="Overview" />
      </EmptyState>
    </Page>
  )
}

function Failed({ error, reset }: ErrorComponentProps) {
  return <ErrorState error={error} onRetry={reset} />
}

type Load = () => Promise<{ default: RouteComponent }>

/** One of the screens of a file. */
const pick = async <Name extends string>(file: Promise<Readonly<Record<Name, RouteComponent>>>, name: Name) => ({
  default: (await file)[name],
})

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

/** A list, with its filters and the cursor of a page after the first. */
const list = <const Path extends string, const Table extends Filters>(path: Path, load: Load, filters: Table) =>
  filtered(path, load, readList(filters))

const NONE = {}

/** Reads what else the URL of a list has, and the cursor. */
const withCursor =
  <Query extends object>(parse: (search: Search) => Query) =>
  (search: Search): Query & { readonly cursor?: string } => ({ ...parse(search), ...parseCursor(search) })

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
const sandbox = list('/sandbox', () => import('./screens/sandbox.tsx'), CAPTURED_FILTERS)
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

/** One webhook: its settings, or a page of its deliveries. */
const parseWebhook = (search: Search) => ({ ...withTab(['settings'])(search), ...readList(DELIVERY_FILTERS)(search) })

const parseUnparsed = ({ after }: Search) => keep('after', /^\d{1,15}-\d{1,15}$/.exec(readText(after) ?? '')?.[0])

const parseVersion = ({ version }: Search) => keep('version', readCount(version, 1))

/** The first page has no number. */
const parsePage = ({ page }: Search) => keep('page', readCount(page, 2))

const UUID = /^[0-9a-f-]{36}$/i

const routeTree = root.addChildren([
  screen('/', () => import('./screens/overview.tsx')),
  list('/emails', () => import('./screens/emails.tsx'), EMAIL_FILTERS),
  screen('/people/$address', () => import('./screens/person.tsx')),
  filtered('/emails/$id', () => import('./screens/email.tsx'), withTab(EMAIL_TABS)),
  list('/domains', () => import('./screens/domains.tsx'), NONE),
  screen('/domains/new', () => pick(import('./screens/domains.tsx'), 'DomainNewScreen')),
  filtered(
    '/domains/$id',
    () => pick(import('./screens/domains.tsx'), 'DomainScreen'),
    withTab(['setup', 'reports', 'rules']),
  ),
  list('/webhooks', () => import('./screens/webhooks.tsx'), NONE),
  screen('/webhooks/new', () => pick(import('./screens/webhooks.tsx'), 'WebhookNewScreen')),
  filtered('/webhooks/$id', () => pick(import('./screens/webhooks.tsx'), 'WebhookScreen'), parseWebhook),
  screen('/webhooks/$id/deliveries/$deliveryId', () => import('./screens/webhook-delivery.tsx')),
  list('/logs', () => import('./screens/logs.tsx'), LOG_FILTERS),
  screen('/logs/$id', () => pick(import('./screens/logs.tsx'), 'LogScreen')),
  screen('/keys', () => import('./screens/keys.tsx')),
  screen('/keys/new', () => pick(import('./screens/keys.tsx'), 'ApiKeyNewScreen')),
  screen('/keys/$id', () => pick(import('./screens/keys.tsx'), 'ApiKeyScreen')),
  list('/suppressions', () => import('./screens/suppressions.tsx'), SUPPRESSION_FILTERS),
  screen('/suppressions/import', () => pick(import('./screens/suppressions.tsx'), 'SuppressionsImportScreen')),
  sandbox.addChildren([nothingOpen, captured]),
  list('/templates', () => import('./screens/templates.tsx'), TEMPLATE_FILTERS),
  // `example`, or the id of another template.
  filtered(
    '/templates/new',
    () => pick(import('./screens/templates.tsx'), 'TemplateNewScreen'),
    (search) => ({ ...withText('from')(search), ...keep('as', readKnown(['language'], search['as'])) }),
  ),
  filtered('/templates/$id', () => pick(import('./screens/templates.tsx'), 'TemplateScreen'), withTab(EDITOR_TABS)),
  filtered('/templates/$id/versions', () => import('./screens/template-versions.tsx'), parseVersion),
  list('/audience', () => import('./screens/audience.tsx'), NONE),
  list('/audience/lists/$id', () => pick(import('./screens/audience.tsx'), 'AudienceListScreen'), CONTACT_FILTERS),
  screen('/audience/lists/$id/contacts/$email', () => import('./screens/audience-contact.tsx')),
  filtered('/audience/lists/$id/import', () => import('./screens/audience-import.tsx'), withText('operation')),
  list('/audience/sequences', () => import('./screens/sequences.tsx'), NONE),
  list('/audience/sequences/$id', () => pick(import('./screens/sequences.tsx'), 'SequenceScreen'), NONE),
  list('/audience/forms', () => import('./screens/audience-forms.tsx'), NONE),
  screen('/audience/forms/$id', () => pick(import('./screens/audience-forms.tsx'), 'AudienceFormScreen')),
  filtered(
    '/broadcasts',
    () => import('./screens/broadcasts.tsx'),
    withCursor(({ show }) => keep('show', readKnown(['drafts'], show))),
  ),
  // A broadcast that is not stored yet has a list, once it is chosen.
  filtered(
    '/broadcasts/new',
    () => pick(import('./screens/broadcast-draft.tsx'), 'BroadcastNewScreen'),
    withText('list'),
  ),
  filtered('/broadcasts/drafts/$id', () => import('./screens/broadcast-draft.tsx'), parseStep),
  screen('/broadcasts/$id', () => pick(import('./screens/broadcasts.tsx'), 'BroadcastScreen')),
  list('/inbound', () => import('./screens/inbound.tsx'), INBOUND_FILTERS),
  filtered('/inbound/$id', () => import('./screens/inbound-email.tsx'), withTab(INBOUND_TABS)),
  list('/inbound/routes', () => import('./screens/inbound-routes.tsx'), NONE),
  screen('/inbound/routes/new', () => pick(import('./screens/inbound-route.tsx'), 'InboundRouteNewScreen')),
  list('/inbound/routes/$id', () => import('./screens/inbound-route.tsx'), ROUTE_DELIVERY_FILTERS),
  list('/inbound/mailboxes', () => import('./screens/mailboxes.tsx'), NONE),
  list('/inbound/mailboxes/$id', () => pick(import('./screens/mailboxes.tsx'), 'MailboxScreen'), THREAD_FILTERS),
  filtered('/inbound/mailboxes/$id/threads/$thread', () => import('./screens/thread.tsx'), parsePage),
  filtered('/analytics', () => import('./screens/analytics.tsx'), parseAnalyticsFilters),
  list('/analytics/insights', () => pick(import('./screens/analytics.tsx'), 'InsightsScreen'), NONE),
  screen('/settings', () => import('./screens/settings.tsx')),
  list('/settings/team', () => import('./screens/settings/team.tsx'), NONE),
  screen('/settings/profile', () => import('./screens/settings/profile.tsx')),
  list('/settings/streams', () => import('./screens/settings/streams.tsx'), NONE),
  screen('/settings/streams/$id', () => pick(import('./screens/settings/streams.tsx'), 'StreamScreen')),
  screen('/settings/wording', () => import('./screens/settings/wording.tsx')),
  list('/settings/accounts', () => import('./screens/settings/sub-accounts.tsx'), NONE),
  screen('/settings/accounts/$id', () => pick(import('./screens/settings/sub-accounts.tsx'), 'SubAccountScreen')),
  // Where the payment provider sends the browser back.
  filtered(
    '/settings/plan',
    () => import('./screens/settings/plan.tsx'),
    ({ purchase }) => keep('purchase', readKnown(['done', 'cancelled'], purchase)),
  ),
  list('/settings/audit', () => import('./screens/settings/audit.tsx'), AUDIT_FILTERS),
  // The erasure whose progress is shown, or the person whose data are wanted.
  filtered(
    '/settings/privacy',
    () => import('./screens/settings/privacy.tsx'),
    ({ operation, person }) => ({
      ...keep('operation', UUID.exec(readText(operation) ?? '')?.[0]),
      ...keep('person', readText(person)),
    }),
  ),
  screen('/parts', () => import('./screens/parts.tsx')),
  screen('/server', () => import('./screens/server.tsx')),
  filtered(
    '/server/queue',
    () => import('./screens/server/queue.tsx'),
    withCursor((search) => ({ ...readFilters(QUEUE_FILTERS)(search), ...withText('lane')(search) })),
  ),
  filtered('/server/providers', () => import('./screens/server/providers.tsx'), withCursor(withText('provider'))),
  filtered('/server/received', () => import('./screens/server/received.tsx'), withCursor(parseUnparsed)),
  screen('/server/disk', () => import('./screens/server/disk.tsx')),
  list('/server/accounts', () => import('./screens/server/accounts.tsx'), ACCOUNT_FILTERS),
  screen('/server/accounts/$id', () => pick(import('./screens/server/accounts.tsx'), 'AccountScreen')),
  list('/server/findings', () => import('./screens/server/findings.tsx'), ACCOUNT_FILTER),
  list('/server/complaints', () => pick(import('./screens/server/findings.tsx'), 'ComplaintsScreen'), ACCOUNT_FILTER),
  list('/server/reports', () => pick(import('./screens/server/mail.tsx'), 'ReportsScreen'), REPORT_FILTERS),
  screen('/server/reports/$id', () => pick(import('./screens/server/mail.tsx'), 'ReportScreen')),
  list('/server/mail', () => import('./screens/server/mail.tsx'), OPERATOR_MAIL_FILTERS),
  screen('/server/mail/$id', () => pick(import('./screens/server/mail.tsx'), 'MessageScreen')),
  filtered('/server/settings', () => import('./screens/server/settings.tsx'), readFilters(SETTING_FILTERS)),
])

export const router = createRouter({
  routeTree,
  basepath: '/app',
  defaultPreload: 'intent',
  // Inside of the frame, so that the navigation stays.
  defaultErrorComponent: Failed,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
