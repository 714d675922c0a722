import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parsePage } from '../parts/pages.tsx'
import {
  parseAccountFilters,
  parseMailFilters,
  parseOfAccount,
  parseProviderFilters,
  parseQueueFilters,
  parseReportFilters,
  parseSettingFilters,
  parseUnparsedFilters,
} from '../screens/server/filters.ts'
import { root } from './root.tsx'

type Search = Readonly<Record<string, unknown>>

/** The filters of a list, and its page. */
const withPage =
  <Filters extends object>(parse: (search: Search) => Filters) =>
  (search: Search): Filters & { readonly page?: number } => ({ ...parse(search), ...parsePage(search) })

const health = createRoute({
  getParentRoute: () => root,
  path: '/server',
  component: lazyRouteComponent(() => import('../screens/server.tsx'), 'ServerScreen'),
})

const queue = createRoute({
  getParentRoute: () => root,
  path: '/server/queue',
  validateSearch: withPage(parseQueueFilters),
  component: lazyRouteComponent(() => import('../screens/server/queue.tsx'), 'QueueScreen'),
})

const providers = createRoute({
  getParentRoute: () => root,
  path: '/server/providers',
  validateSearch: withPage(parseProviderFilters),
  component: lazyRouteComponent(() => import('../screens/server/providers.tsx'), 'ProvidersScreen'),
})

const received = createRoute({
  getParentRoute: () => root,
  path: '/server/received',
  validateSearch: withPage(parseUnparsedFilters),
  component: lazyRouteComponent(() => import('../screens/server/received.tsx'), 'ReceivedScreen'),
})

const disk = createRoute({
  getParentRoute: () => root,
  path: '/server/disk',
  component: lazyRouteComponent(() => import('../screens/server/disk.tsx'), 'DiskScreen'),
})

const accounts = createRoute({
  getParentRoute: () => root,
  path: '/server/accounts',
  validateSearch: withPage(parseAccountFilters),
  component: lazyRouteComponent(() => import('../screens/server/accounts.tsx'), 'AccountsScreen'),
})

const account = createRoute({
  getParentRoute: () => root,
  path: '/server/accounts/$id',
  component: lazyRouteComponent(() => import('../screens/server/account.tsx'), 'AccountScreen'),
})

const findings = createRoute({
  getParentRoute: () => root,
  path: '/server/findings',
  validateSearch: withPage(parseOfAccount),
  component: lazyRouteComponent(() => import('../screens/server/findings.tsx'), 'FindingsScreen'),
})

const complaints = createRoute({
  getParentRoute: () => root,
  path: '/server/complaints',
  validateSearch: withPage(parseOfAccount),
  component: lazyRouteComponent(() => import('../screens/server/complaints.tsx'), 'ComplaintsScreen'),
})

const reports = createRoute({
  getParentRoute: () => root,
  path: '/server/reports',
  validateSearch: withPage(parseReportFilters),
  component: lazyRouteComponent(() => import('../screens/server/reports.tsx'), 'ReportsScreen'),
})

const report = createRoute({
  getParentRoute: () => root,
  path: '/server/reports/$id',
  component: lazyRouteComponent(() => import('../screens/server/reports.tsx'), 'ReportScreen'),
})

const mail = createRoute({
  getParentRoute: () => root,
  path: '/server/mail',
  validateSearch: withPage(parseMailFilters),
  component: lazyRouteComponent(() => import('../screens/server/mail.tsx'), 'MailScreen'),
})

const message = createRoute({
  getParentRoute: () => root,
  path: '/server/mail/$id',
  component: lazyRouteComponent(() => import('../screens/server/mail.tsx'), 'MessageScreen'),
})

const settings = createRoute({
  getParentRoute: () => root,
  path: '/server/settings',
  validateSearch: parseSettingFilters,
  component: lazyRouteComponent(() => import('../screens/server/settings.tsx'), 'ServerSettingsScreen'),
})

export const serverRoutes = [
  health,
  queue,
  providers,
  received,
  disk,
  accounts,
  account,
  findings,
  complaints,
  reports,
  report,
  mail,
  message,
  settings,
] as const
