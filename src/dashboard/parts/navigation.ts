/** @module The screens of the navigation, with icons and keys; and the settings below them that the palette finds. */

import { linkOptions } from '@tanstack/react-router'
import type { Session } from '#client/operator-api.ts'
import type { Target } from './filters.ts'
import {
  IconArrowRight,
  IconBan,
  IconChartBar,
  IconFlask,
  IconHome,
  IconInbox,
  IconKey,
  IconLogs,
  IconMail,
  IconServer,
  IconSettings,
  IconSpeakerphone,
  IconTemplate,
  IconUsers,
  IconWebhook,
  IconWorld,
} from './icons.ts'
import type { FoundItem } from './search-everything.ts'

export interface NavigationItem {
  readonly label: string
  readonly to: NonNullable<Target['to']>
  readonly icon: typeof IconHome
  /** Pressed after `g`. */
  readonly key: string
  readonly isForOperators?: true
  /** Whether the role support may read it. */
  readonly isForSupport?: true
}

interface NavigationGroup {
  readonly label?: string
  readonly items: readonly NavigationItem[]
}

const NAVIGATION_GROUPS: readonly NavigationGroup[] = [
  { items: [{ label: 'Overview', to: '/', key: 'o', icon: IconHome, isForSupport: true }] },
  {
    label: 'Mail',
    items: [
      { label: 'Emails', to: '/emails', key: 'e', icon: IconMail, isForSupport: true },
      { label: 'Broadcasts', to: '/broadcasts', key: 'b', icon: IconSpeakerphone },
      { label: 'Inbound', to: '/inbound', key: 'i', icon: IconInbox },
      { label: 'Sandbox', to: '/sandbox', key: 'x', icon: IconFlask },
      { label: 'Analytics', to: '/analytics', key: 'a', icon: IconChartBar, isForSupport: true },
    ],
  },
  {
    label: 'Content',
    items: [
      { label: 'Templates', to: '/templates', key: 't', icon: IconTemplate },
      { label: 'Audience', to: '/audience', key: 'u', icon: IconUsers },
      { label: 'Suppressions', to: '/suppressions', key: 's', icon: IconBan, isForSupport: true },
    ],
  },
  {
    label: 'Setup',
    items: [
      { label: 'Domains', to: '/domains', key: 'd', icon: IconWorld, isForSupport: true },
      { label: 'Webhooks', to: '/webhooks', key: 'w', icon: IconWebhook },
      { label: 'Logs', to: '/logs', key: 'l', icon: IconLogs },
      { label: 'API keys', to: '/keys', key: 'p', icon: IconKey },
      { label: 'Settings', to: '/settings', key: 'c', icon: IconSettings, isForSupport: true },
      { label: 'Server', to: '/server', key: 'v', icon: IconServer, isForOperators: true, isForSupport: true },
    ],
  },
]

/** Whose session it is. */
export type Reader = Pick<Session, 'role'> & { readonly user: Pick<Session['user'], 'is_operator'> }

export const listNavigationGroups = ({ role, user }: Reader): readonly NavigationGroup[] =>
  NAVIGATION_GROUPS.map((group) => ({
    ...group,
    items: group.items.filter(
      ({ isForOperators, isForSupport }) =>
        (user.is_operator || !isForOperators) && (role !== 'support' || isForSupport === true),
    ),
  }))

export const listNavigation = (reader: Reader): readonly NavigationItem[] =>
  listNavigationGroups(reader).flatMap(({ items }) => items)

/** Below the screens of the navigation: label, other words for it, and where it is. */
const SETTINGS = [
  ['Add a domain', 'new dns dkim spf', linkOptions({ to: '/domains/new' })],
  ['Create an API key', 'new token secret', linkOptions({ to: '/keys/new' })],
  ['Add a webhook', 'new endpoint', linkOptions({ to: '/webhooks/new' })],
  ['Refused requests', 'logs errors 422 401 api smtp', linkOptions({ to: '/logs', search: { status: '4xx' } })],
  ['New template', 'create', linkOptions({ to: '/templates/new' })],
  ['New broadcast', 'create newsletter campaign', linkOptions({ to: '/broadcasts/new' })],
  ['Import suppressions', 'csv bounce list', linkOptions({ to: '/suppressions/import' })],
  ['Sign-up forms', 'audience subscribe', linkOptions({ to: '/audience/forms' })],
  ['Sequences', 'audience drip automation welcome', linkOptions({ to: '/audience/sequences' })],
  ['Inbound routes', 'receive forward', linkOptions({ to: '/inbound/routes' })],
  ['Mailboxes', 'inbound agent', linkOptions({ to: '/inbound/mailboxes' })],
  ['Insights', 'analytics report', linkOptions({ to: '/analytics/insights' })],
  ['Team', 'members invite people roles settings', linkOptions({ to: '/settings/team' })],
  ['Account', 'name time zone tracking settings', linkOptions({ to: '/settings' })],
  [
    'Your sign-in',
    'profile password passkeys authenticator two factor sessions settings',
    linkOptions({ to: '/settings/profile' }),
  ],
  ['Streams', 'settings', linkOptions({ to: '/settings/streams' })],
  ['Texts and logo', 'wording branding settings', linkOptions({ to: '/settings/wording' })],
  ['Sub-accounts', 'customers settings', linkOptions({ to: '/settings/accounts' })],
  ['Plan', 'quota usage billing settings', linkOptions({ to: '/settings/plan' })],
  ['Audit log', 'history settings', linkOptions({ to: '/settings/audit' })],
  ['Privacy', 'export erase delete gdpr settings', linkOptions({ to: '/settings/privacy' })],
] as const

/** What the role support may read. */
export const SUPPORT_PLACES: readonly string[] = ['/settings', '/settings/profile']

/** All words that were typed must be in the words of a place. */
export function findPlaces(text: string, reader: Reader): readonly FoundItem[] {
  const typed = text.toLowerCase().split(/\s+/)
  const isFound = (words: string) => typed.every((word) => words.includes(word))
  const screens = listNavigation(reader)
    .filter(({ label }) => isFound(label.toLowerCase()))
    .map(({ label, to, icon, key }) => ({ key: label, label, icon, note: `g ${key}`, target: { to } }))
  if (text === '') return screens
  const settings = SETTINGS.filter(
    ([label, words, { to }]) =>
      isFound(`${label.toLowerCase()} ${words}`) && (reader.role !== 'support' || SUPPORT_PLACES.includes(to)),
  )
  return [...screens, ...settings.map(([label, , target]) => ({ key: label, label, icon: IconArrowRight, target }))]
}
