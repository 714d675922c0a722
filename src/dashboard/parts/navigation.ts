/** @module The screens of the navigation, with their icons and keys. */
import {
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
import type { Target } from './target.ts'

export interface NavigationItem {
  readonly label: string
  readonly to: NonNullable<Target['to']>
  readonly icon: typeof IconHome
  /** Pressed after `g`. */
  readonly key: string
  readonly isForOperators?: true
}

interface NavigationGroup {
  readonly label?: string
  readonly items: readonly NavigationItem[]
}

const NAVIGATION_GROUPS: readonly NavigationGroup[] = [
  { items: [{ label: 'Overview', to: '/', key: 'o', icon: IconHome }] },
  {
    label: 'Mail',
    items: [
      { label: 'Emails', to: '/emails', key: 'e', icon: IconMail },
      { label: 'Broadcasts', to: '/broadcasts', key: 'b', icon: IconSpeakerphone },
      { label: 'Inbound', to: '/inbound', key: 'i', icon: IconInbox },
      { label: 'Sandbox', to: '/sandbox', key: 'x', icon: IconFlask },
      { label: 'Analytics', to: '/analytics', key: 'a', icon: IconChartBar },
    ],
  },
  {
    label: 'Content',
    items: [
      { label: 'Templates', to: '/templates', key: 't', icon: IconTemplate },
      { label: 'Audience', to: '/audience', key: 'u', icon: IconUsers },
      { label: 'Suppressions', to: '/suppressions', key: 's', icon: IconBan },
    ],
  },
  {
    label: 'Setup',
    items: [
      { label: 'Domains', to: '/domains', key: 'd', icon: IconWorld },
      { label: 'Webhooks', to: '/webhooks', key: 'w', icon: IconWebhook },
      { label: 'Logs', to: '/logs', key: 'l', icon: IconLogs },
      { label: 'API keys', to: '/keys', key: 'p', icon: IconKey },
      { label: 'Settings', to: '/settings', key: 'c', icon: IconSettings },
      { label: 'Server', to: '/server', key: 'v', icon: IconServer, isForOperators: true },
    ],
  },
]

export const listNavigationGroups = (isOperator: boolean): readonly NavigationGroup[] =>
  NAVIGATION_GROUPS.map((group) => ({
    ...group,
    items: group.items.filter(({ isForOperators }) => isOperator || isForOperators !== true),
  }))

export const listNavigation = (isOperator: boolean): readonly NavigationItem[] =>
  listNavigationGroups(isOperator).flatMap(({ items }) => items)
