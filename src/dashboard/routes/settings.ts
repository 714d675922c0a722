import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parsePage } from '../parts/pages.tsx'
import { parseAuditSearch } from '../screens/settings/audit-filters.ts'
import { root } from './root.tsx'

const UUID = /^[0-9a-f-]{36}$/i

const account = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  component: lazyRouteComponent(() => import('../screens/settings.tsx'), 'SettingsScreen'),
})

const team = createRoute({
  getParentRoute: () => root,
  path: '/settings/team',
  validateSearch: parsePage,
  component: lazyRouteComponent(() => import('../screens/settings/team.tsx'), 'TeamScreen'),
})

const profile = createRoute({
  getParentRoute: () => root,
  path: '/settings/profile',
  component: lazyRouteComponent(() => import('../screens/settings/profile.tsx'), 'ProfileScreen'),
})

const streams = createRoute({
  getParentRoute: () => root,
  path: '/settings/streams',
  validateSearch: parsePage,
  component: lazyRouteComponent(() => import('../screens/settings/streams.tsx'), 'StreamsScreen'),
})

const stream = createRoute({
  getParentRoute: () => root,
  path: '/settings/streams/$id',
  component: lazyRouteComponent(() => import('../screens/settings/stream.tsx'), 'StreamScreen'),
})

const wording = createRoute({
  getParentRoute: () => root,
  path: '/settings/wording',
  component: lazyRouteComponent(() => import('../screens/settings/wording.tsx'), 'WordingScreen'),
})

const subAccounts = createRoute({
  getParentRoute: () => root,
  path: '/settings/accounts',
  validateSearch: parsePage,
  component: lazyRouteComponent(() => import('../screens/settings/sub-accounts.tsx'), 'SubAccountsScreen'),
})

const subAccount = createRoute({
  getParentRoute: () => root,
  path: '/settings/accounts/$id',
  component: lazyRouteComponent(() => import('../screens/settings/sub-account.tsx'), 'SubAccountScreen'),
})

const plan = createRoute({
  getParentRoute: () => root,
  path: '/settings/plan',
  // Where the payment provider sends the browser back.
  validateSearch: ({ purchase }: Record<string, unknown>): { readonly purchase?: 'done' | 'cancelled' } =>
    purchase === 'done' || purchase === 'cancelled' ? { purchase } : {},
  component: lazyRouteComponent(() => import('../screens/settings/plan.tsx'), 'PlanScreen'),
})

const audit = createRoute({
  getParentRoute: () => root,
  path: '/settings/audit',
  validateSearch: parseAuditSearch,
  component: lazyRouteComponent(() => import('../screens/settings/audit.tsx'), 'AuditScreen'),
})

const privacy = createRoute({
  getParentRoute: () => root,
  path: '/settings/privacy',
  // The erasure whose progress is shown.
  validateSearch: ({ operation }: Record<string, unknown>): { readonly operation?: string } =>
    typeof operation === 'string' && UUID.test(operation) ? { operation } : {},
  component: lazyRouteComponent(() => import('../screens/settings/privacy.tsx'), 'PrivacyScreen'),
})

export const settingsRoutes = [
  account,
  team,
  profile,
  streams,
  stream,
  wording,
  subAccounts,
  subAccount,
  plan,
  audit,
  privacy,
] as const
